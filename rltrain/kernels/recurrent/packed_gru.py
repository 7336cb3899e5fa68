"""The GRU over a whole window on the CPU, forward and backward, without computing padding.

A compiled kernel iterates over time; matrix products over all steps are PyTorch's.
``PackedGRU.unroll`` gives the same numbers: tests compare the two, and other devices and types than
float32 use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rltrain.algo.network.packing import PackedGRU


def gru(cell: PackedGRU, x: Tensor, first: Tensor, n_rows: list[int]) -> Tensor:
    """``PackedGRU.unroll`` of ``cell``.

    Raises:
        ValueError: sizes that do not fit.
    """
    if first.shape[1:] != (cell.hidden_size,) or len(first) < n_rows[0] or sum(n_rows) != len(x):
        raise ValueError(
            f"expected {cell.hidden_size} units in {n_rows[0]} states and {sum(n_rows)} rows, got "
            f"{list(first.shape)} and {len(x)}."
        )
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    if not (x.is_cpu and x.dtype == first.dtype == cell.weight_hh.dtype == torch.float32):
        return PackedGRU.unroll(cell, x, first, n_rows)
    hidden: Tensor = _GRU.apply(x, first, *weights, n_rows, torch.is_grad_enabled())
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
        learning: bool,
    ) -> Tensor:
        size = first.shape[1]
        both = 2 * size
        bias = torch.cat([bias_ih[:both] + bias_hh[:both], bias_ih[both:]])
        gates = torch.addmm(bias, x, weight_ih.t())  # [P, 3H]
        hidden = x.new_empty(len(x), size)
        h_n = x.new_empty(len(x) if learning else 0, size)
        _run("forward", n_rows, weight_hh.t(), gates, h_n, hidden, first, bias_hh[both:])
        ctx.n_rows = n_rows
        ctx.save_for_backward(x, first, weight_ih, weight_hh, gates, h_n, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, first, weight_ih, weight_hh, gates, h_n, hidden = ctx.saved_tensors
        both = 2 * first.shape[1]
        sums, h_n_sum, before = (torch.empty_like(t) for t in (gates, h_n, hidden))
        grad_first = first.new_zeros(first.shape)
        written = sums, h_n_sum, before, grad_first
        _run("backward", ctx.n_rows, weight_hh, *written, grad, gates, h_n, hidden, first)
        grad_bias_ih = sums.sum(0)
        return (
            sums @ weight_ih,
            grad_first,
            sums.t() @ x,
            torch.cat([sums[:, :both].t() @ before, h_n_sum.t() @ before]),
            grad_bias_ih,
            torch.cat([grad_bias_ih[:both], h_n_sum.sum(0)]),
            None,
            None,
        )


def _run(name: str, n_rows: list[int], weight: Tensor, *tensors: Tensor) -> None:
    """One of the kernels over all rows, on as many threads as PyTorch may use."""
    from rltrain.common import numba_cache
    from rltrain.kernels.arithmetic import tile_kernel
    from rltrain.kernels.recurrent import packed_gru_kernel as kernel

    # what a kernel writes to is contiguous, so that only inputs are ever copied
    arrays = [t.detach().contiguous().numpy() for t in (*tensors, weight)]
    counts = np.array(n_rows, np.int64)
    arrays[-1:] = [tile_kernel.packed(arrays[-1]), counts.cumsum() - counts, counts]
    n_blocks = -(-n_rows[0] // kernel.BLOCK)
    n_threads = min(torch.get_num_threads(), numba_cache.MAX_THREADS, n_blocks)
    if n_threads == 1:
        getattr(kernel, name)(0, 1, tuple(arrays))
    else:
        numba_cache.set_num_threads(n_threads)
        getattr(kernel, f"{name}_parallel")(n_threads, tuple(arrays))
