"""TD errors from the values computed while acting: initial priorities of Ape-X."""

from __future__ import annotations

from torch import Tensor

from rltrain.algo.return_settings import Returns
from rltrain.algo.targets import n_step_target, rescale, unscale


def acted_error(
    returns: Returns,
    epsilon: float | None,
    value: Tensor,
    reward: Tensor,
    terminated: Tensor,
    last: Tensor,
) -> Tensor:
    """Absolute TD errors [T, B, N] of independent agents, as computed by Ape-X's actors (Horgan et
    al. 2018, algorithm 1).

    Args:
        returns: n-step returns.
        epsilon: argument of ``rescale``, if values are learned as h(x).
        value: [T+1, B, N, 2], of the action taken and of the best available action.
        reward: [T, B, R], R = 1 or N.
        terminated: [T, B] bool.
        last: [T+1, B] bool.
    """
    taken, best = value.unbind(-1)
    if epsilon is not None:
        best = unscale(best, epsilon)
    td_target = n_step_target(reward, terminated, last, best[1:], returns.gamma, returns.n_step)
    if epsilon is not None:
        td_target = rescale(td_target, epsilon)
    return (taken[:-1] - td_target).abs()
