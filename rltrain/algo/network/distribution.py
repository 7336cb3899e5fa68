"""Distributions of an action's return: its mean, a histogram, or quantiles.

To add one: a ``Distribution`` with ``n_outputs`` per action and ``mean``; ``implicit`` ones are
evaluated at quantile levels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rltrain.common.number_types import Count, Real


class Distribution(nn.Module):
    """How K outputs per action describe its return."""

    n_outputs: int  # K
    implicit: bool = False  # outputs belong to given quantile levels
    scalar: bool = False  # the only output is the expected return
    levels: Mapping[str, int] | None = None  # implicit: number of levels, by use
    cosines: int = 0  # implicit: terms of a level's embedding

    @property
    def support(self) -> Tensor | None:
        """[K], the returns whose probabilities the outputs describe."""
        return None

    @property
    def tau(self) -> Tensor | None:
        """[K], the quantile levels of the outputs."""
        return None

    @abstractmethod
    def mean(self, dist: Tensor) -> Tensor:
        """[..., K] to [...]."""


# twin: kernels/layers/stack.py
class Scalar(Distribution):
    """The expected return itself: K = 1."""

    n_outputs, scalar = 1, True

    def mean(self, dist: Tensor) -> Tensor:
        return dist.squeeze(-1)


# twin: kernels/layers/stack.py
class Categorical(Distribution):
    """Logits over ``atoms`` returns evenly spaced from ``v_min`` to ``v_max`` (C51; Bellemare et
    al. 2017, section 4).

    Raises:
        ValueError: ``v_min`` is not below ``v_max``, or fewer than two atoms.
    """

    _support: Tensor

    def __init__(self, *, atoms: Count, v_min: Real, v_max: Real) -> None:
        super().__init__()
        if v_min >= v_max or atoms < 2:
            raise ValueError(
                f"A categorical distribution needs v_min < v_max and at least 2 atoms, got "
                f"v_min={v_min:g}, v_max={v_max:g}, atoms={atoms}: set algo.distribution.v_min and "
                "algo.distribution.v_max to the least and the greatest return to expect."
            )
        self.n_outputs = atoms
        self.register_buffer("_support", torch.linspace(v_min, v_max, atoms), persistent=False)

    @property
    def support(self) -> Tensor:
        """[K], in order."""
        return self._support

    def mean(self, dist: Tensor) -> Tensor:
        return dist.softmax(-1) @ self.support


# twin: kernels/layers/stack.py
class Quantile(Distribution):
    """``quantiles`` returns at the midpoints of equal probability intervals (QR-DQN; Dabney et al.
    2018a, section 4).
    """

    _tau: Tensor

    def __init__(self, *, quantiles: Count) -> None:
        super().__init__()
        self.n_outputs = quantiles
        tau = (torch.arange(quantiles) + 0.5) / quantiles
        self.register_buffer("_tau", tau, persistent=False)

    @property
    def tau(self) -> Tensor:
        """[K], in order."""
        return self._tau

    def mean(self, dist: Tensor) -> Tensor:
        return dist.mean(-1)


# twin: kernels/layers/stack.py
class ImplicitQuantile(Distribution):
    """Returns at quantile levels sampled in every call (IQN; Dabney et al. 2018b); networks in
    evaluation mode use midpoints instead.

    Args:
        online, target, acting: levels sampled for the online network, for the target network, and
            to choose actions, while acting and in targets (the paper's N, N' and K).
        cosines: terms of a level's embedding (equation 4).
    """

    implicit = True
    n_outputs = 1  # per level

    def __init__(self, *, online: Count, target: Count, acting: Count, cosines: Count) -> None:
        super().__init__()
        self.levels = {"online": online, "target": target, "acting": acting}
        self.cosines = cosines

    def mean(self, dist: Tensor) -> Tensor:
        return dist.mean(-1)
