"""Real steps, padding and warm-up of windows; packing without padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from rltrain.algo.targets import at_step
from rltrain.types import Batch, Output

Unroll = Callable[[Batch, Tensor, Tensor], Output]


# twin: kernels/layers/stack.py, kernels/recurrent/team_step.py, kernels/layers/td_step.py
def zero_outside(x: Tensor, real: Tensor | None) -> Tensor:
    """``x`` [T+1, B, ...] where ``real`` [T+1, B] is set, exactly 0 elsewhere (even for NaN); None
    means no padding.
    """
    if real is None or x.numel() == 0:
        return x
    return torch.where(real.view(*real.shape, *[1] * (x.dim() - 2)), x, 0)


# twin: kernels/recurrent/team_step.py
class Packing:
    """The real steps of a batch as P rows: step 0 of all windows, then step 1 of all windows that
    have one, and so on.

    Args:
        real: [T+1, B] bool, no gaps.
        order: [B], windows from longest to shortest.
    """

    def __init__(self, real: Tensor, order: Tensor) -> None:
        self.shape = real.shape
        step, rank = real.index_select(1, order).nonzero(as_tuple=True)
        self.row = step * real.shape[1] + order[rank]  # [P], indices of the steps
        self.dense = len(self.row) == real.numel()

    def pack(self, x: Tensor) -> Tensor:
        """[T+1, B, ...] to [P, ...]."""
        x = x.flatten(0, 1)
        return x if self.dense else x.index_select(0, self.row)

    def unpack(self, x: Tensor) -> Tensor:
        """[P, ...] to [T+1, B, ...], zero where nothing was packed."""
        if not self.dense:
            padded = x.new_zeros(self.shape.numel(), *x.shape[1:])
            x = padded.index_copy(0, self.row, x)
        return x.unflatten(0, self.shape)


# twin: kernels/acting.py, kernels/recurrent/packed_gru.py, kernels/recurrent/team_step.py
class PackedGRU(nn.GRUCell):
    """A GRU cell that also runs over packed sequences (Cho et al. 2014, PyTorch's variant)."""

    n_states = 1  # parts of the recurrent state as wide as the cell

    def unroll(self, x: Tensor, first: Tensor, n_rows: list[int]) -> Tensor:
        """Hidden states [P, H] of packed sequences.

        Args:
            x: [P, I], the rows of step 0, then those of step 1, …; longest sequence first.
            first: [R, H], the state before step 0.
            n_rows: sequences at each step, nonincreasing, at most R; their sum is P.
        """
        weights = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
        first = first[: n_rows[0]].unsqueeze(0)
        learning = torch.is_grad_enabled()
        sizes = torch.tensor(n_rows)
        hidden, _ = torch.gru(x, sizes, first, weights, True, 1, 0.0, learning, False)
        return hidden

    def unroll_padded(self, x: Tensor, first: Tensor) -> Tensor:
        """x [T+1, R, I] and first [R, H] to hidden states [T+1, R, H]."""
        weights = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
        learning = torch.is_grad_enabled()
        first = first.unsqueeze(0)
        hidden, _ = torch.gru(x, first, weights, True, 1, 0.0, learning, False, False)
        return hidden


def unroll_warmed_up(
    unroll: Unroll, batch: Batch, real: Tensor, first: Tensor, warm_up: Tensor
) -> Output:
    """Unroll windows whose first steps only warm up the recurrent state, without gradients
    (burn-in; Kapturowski et al. 2019); the values of those steps are zero.

    Args:
        unroll: function of a batch, its real steps [T+1, B] and the first states [B, N, H].
        warm_up: [B], number of warm-up steps of each window.
    """
    step = torch.arange(len(real), device=real.device).unsqueeze(1)
    with torch.no_grad():
        warm = unroll(batch, real & (step < warm_up), first).hidden
    before = at_step(warm, (warm_up - 1).clamp(min=0).unsqueeze(0))[0]  # [B, N, H]
    first = torch.where(warm_up.view(-1, 1, 1) > 0, before, first)
    # each window again, from its first step after the warm-up
    later, sooner = (step + warm_up).clamp(max=len(real) - 1), (step - warm_up).clamp(min=0)
    rest = replace(
        batch, obs=at_step(batch.obs, later), last_action=at_step(batch.last_action, later)
    )
    output = unroll(rest, at_step(real, later) & (step + warm_up < len(real)), first)
    q, hidden, dist, tau = (
        None if x is None else zero_outside(at_step(x, sooner), step >= warm_up) for x in output
    )
    assert q is not None
    assert hidden is not None
    return Output(q, hidden, dist, tau)
