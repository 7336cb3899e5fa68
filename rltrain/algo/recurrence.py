"""The GRU over a whole window on the CPU, forward and backward, without computing padding.

Fewer operations than autograd would record, in an order that finds its numbers in the cache: a
slot costs a dozen operations forward and three back, a weight's gradient one matrix product.
``torch.gru`` gives the same numbers; it is this function's oracle and what other devices use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_BLOCK = 1024
"""Rows taken through a chain of elementwise operations at a time, to stay in the cache."""


def gru(x: Tensor, first: Tensor, cell: nn.GRUCell, n_rows: list[int]) -> Tensor:
    """Hidden states of packed sequences (Cho et al. 2014, in PyTorch's convention).

    Args:
        x: [P, I], the rows of slot 0, then those of slot 1, …; longest sequence first.
        first: [R, H], the state before slot 0.
        cell: the weights.
        n_rows: rows alive at each slot, never growing, the first at most R; they add up to P.

    Returns:
        [P, H]
    """
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    hidden: Tensor = _GRU.apply(x, first, *weights, n_rows)
    return hidden


class _GRU(torch.autograd.Function):
    """r = σ(x_r + h_r), z = σ(x_z + h_z), n = tanh(x_n + r h_n), h' = (1 − z) n + z h."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        n_rows: list[int],
    ) -> Tensor:
        size = first.shape[1]
        both = 2 * size
        bias_rz = bias_ih[:both] + bias_hh[:both]
        x_to_rz, x_to_n = weight_ih[:both].t(), weight_ih[both:].t()
        h_to_rz, h_to_n = weight_hh[:both].t(), weight_hh[both:].t()
        learning = any(ctx.needs_input_grad)
        n_kept = len(x) if learning else n_rows[0]
        rz = x.new_empty(n_kept, both)
        n, h_n = x.new_empty(n_kept, size), x.new_empty(n_kept, size)
        hidden = x.new_empty(len(x), size)  # [P, H]
        for before, now in _slots(first, hidden, n_rows):
            rows = now.stop - now.start
            kept = now if learning else slice(0, rows)
            h, x_now = before[:rows], x[now]
            rz_now = torch.addmm(bias_rz, x_now, x_to_rz, out=rz[kept])
            rz_now.addmm_(h, h_to_rz).sigmoid_()
            n_now = torch.addmm(bias_ih[both:], x_now, x_to_n, out=n[kept])
            h_n_now = torch.addmm(bias_hh[both:], h, h_to_n, out=h_n[kept])
            # tanh x = 2 σ(2x) − 1: torch's tanh takes twice as long as all of this
            n_now.addcmul_(rz_now[:, :size], h_n_now).mul_(2).sigmoid_().mul_(2).sub_(1)
            torch.lerp(n_now, h, rz_now[:, size:], out=hidden[now])
        ctx.n_rows = n_rows
        ctx.save_for_backward(x, first, weight_ih, weight_hh, rz, n, h_n, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor | None, ...]:
        x, first, weight_ih, weight_hh, rz, n, h_n, hidden = ctx.saved_tensors
        n_rows, size = ctx.n_rows, first.shape[1]
        r, z = rz.split(size, 1)
        slots = list(_slots(first, hidden, n_rows))
        h = torch.cat([before[: now.stop - now.start] for before, now in slots])  # [P, H]

        slopes, to_n = h.new_empty(len(h), 3, size), torch.empty_like(h)  # [P, 3, H], [P, H]
        for start in range(0, len(h), _BLOCK):
            block = slice(start, start + _BLOCK)
            _slopes(*(t[block] for t in (r, z, n, h_n, h, slopes, to_n)))
        grad = grad_hidden.clone(memory_format=torch.contiguous_format)
        grad_first = torch.zeros_like(first)
        earlier = [before for before, _ in _slots(grad_first, grad, n_rows)]
        for (_, now), before in zip(reversed(slots), reversed(earlier), strict=True):
            rows = now.stop - now.start
            gates_grad = slopes[now].mul_(grad[now].unsqueeze(1)).view(rows, -1)  # [rows, 3H]
            before[:rows].addcmul_(grad[now], z[now]).addmm_(gates_grad, weight_hh)

        flat = slopes.view(len(slopes), -1)  # [P, 3H], now the gradients of the gates' sums
        grad_weight_hh, grad_bias_hh = flat.t() @ h, flat.sum(0)
        torch.mul(grad, to_n, out=slopes[:, 2])
        grad_weight_ih, grad_bias_ih = flat.t() @ x, flat.sum(0)
        grad_x = flat @ weight_ih
        of_weights = grad_weight_ih, grad_weight_hh, grad_bias_ih, grad_bias_hh
        return grad_x, grad_first, *of_weights, None


def _slopes(
    r: Tensor, z: Tensor, n: Tensor, h_n: Tensor, h: Tensor, slopes: Tensor, to_n: Tensor
) -> None:
    """What a gradient of h' is multiplied by to become that of a gate's sum.

    Writes those of r, z and n's hidden part to ``slopes`` [X, 3, H], n's whole to ``to_n`` [X, H].
    """
    torch.mul(1 - z, 1 - n * n, out=to_n)
    torch.mul(to_n, r, out=slopes[:, 2])
    torch.mul(slopes[:, 2], h_n, out=slopes[:, 0]).mul_(1 - r)
    torch.mul(h - n, z, out=slopes[:, 1]).mul_(1 - z)


def _slots(first: Tensor, packed: Tensor, n_rows: list[int]) -> Iterator[tuple[Tensor, slice]]:
    """For each slot the rows of the slot before it, and where its own rows lie."""
    before, start = first, 0
    for rows in n_rows:
        now = slice(start, start + rows)
        yield before, now
        before, start = packed[now], start + rows
