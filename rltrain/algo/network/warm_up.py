"""Burn-in: steps of a window that only warm up the recurrent state (Kapturowski et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rltrain.algo.network.packing import zero_outside
from rltrain.algo.targets import at_step
from rltrain.types import Batch, Output

Unroll = Callable[[Batch, Tensor, Tensor], Output]


def unroll_warmed_up(
    unroll: Unroll, batch: Batch, real: Tensor, first: Tensor, warm_up: Tensor
) -> Output:
    """Unroll windows whose first steps get no gradient; the values of those steps are zero.

    Args:
        unroll: from a batch, its real steps [T+1, B] and the first states [B, N, H].
        warm_up: [B], steps of each window before those that are learned from.
    """
    step = torch.arange(len(real), device=real.device).unsqueeze(1)
    with torch.no_grad():
        warm = unroll(batch, real & (step < warm_up), first).hidden
    before = at_step(warm, (warm_up - 1).clamp(min=0).unsqueeze(0))[0]  # [B, N, H]
    first = torch.where(warm_up.view(-1, 1, 1) > 0, before, first)
    # each window again, from its first step after the warm-up on
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
