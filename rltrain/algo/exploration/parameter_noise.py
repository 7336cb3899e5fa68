"""Exploration with parameter noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rltrain.algo.exploration.epsilon import EpsilonGreedy, greedy
from rltrain.algo.exploration.interface import AgentNoise, Exploration
from rltrain.common.number_types import (
    Count,
    Positive,
    Probability,
    require_range,
    saved_array,
)
from rltrain.interfaces import Agents
from rltrain.types import Clock, StateDict

UNAVAILABLE = np.float32(-1e30)
"""Value of an action with softmax probability 0."""


class ParameterNoise(EpsilonGreedy):
    """Acts with Gaussian noise on the weights, drawn when environment 0 begins an episode (Plappert
    et al. 2018, appendix C).

    The noise grows or shrinks by 1% at every draw, so that noisy agents differ from the others as
    much as with epsilon-greedy, epsilon going from ``start`` to ``end`` over ``env_steps``: the KL
    divergence of their softmax policies, averaged over all steps since the last draw and agents
    with a choice, is held at -ln(1 - epsilon + epsilon / A) for A available actions.
    """

    def __init__(
        self, *, start: Probability, end: Probability, env_steps: Count, stddev: Positive
    ) -> None:
        super().__init__(start=start, end=end, env_steps=env_steps)
        self.stddev = stddev
        self.noisy: Agents | None = None
        self.weights: Mapping[str, Tensor] = {}  # loaded, for noisy agents not built yet
        self.divergence = 0.0  # sum under the current noise
        self.n_compared = np.zeros(1, np.int64)  # [A+1] count by number of available actions

    def noise(self) -> AgentNoise:
        """This object."""
        return self

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        return greedy(q, available)

    probability = Exploration.probability  # unknown under the noise

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {**super().metrics(clock), "noise_stddev": self.stddev}

    def perturbed(self, agents: Agents, rng: np.random.Generator) -> Agents:
        """The agents to act with; the first call draws the first noise, unless it was loaded."""
        if self.noisy is None:
            self.noisy = copy.deepcopy(agents).requires_grad_(False)
            if self.weights:
                self.noisy.load_state_dict(self.weights)
            else:
                self._add_noise(self.noisy, agents, rng)
        return self.noisy

    def compare(self, q: np.ndarray, noisy_q: np.ndarray, available: np.ndarray) -> None:
        """Add the divergence between values [X, N, A] with and without noise."""
        n_available = available.sum(-1)
        chooses = n_available > 1
        self.divergence += float(divergence(q, noisy_q, available)[chooses].sum())
        counts = np.bincount(n_available[chooses], minlength=q.shape[-1] + 1)
        self.n_compared = self.n_compared + counts

    def draw(self, agents: Agents, clock: Clock, rng: np.random.Generator) -> None:
        """Draw new noise on the current weights, scaled by the measured divergence."""
        noisy = self.perturbed(agents, rng)
        if self.n_compared.any():
            epsilon, counts = self.epsilon(clock), self.n_compared[1:]
            one = 1 - epsilon + epsilon / np.arange(1, len(counts) + 1)
            bound = -(np.log(one) * counts).sum() if epsilon < 1 else math.inf
            self.stddev *= 1.01 if self.divergence < bound else 1 / 1.01
        self.divergence, self.n_compared = 0.0, np.zeros(1, np.int64)
        self._add_noise(noisy, agents, rng)

    def _add_noise(self, noisy: Agents, agents: Agents, rng: np.random.Generator) -> None:
        with torch.no_grad():
            for weight, clean in zip(noisy.parameters(), agents.parameters(), strict=True):
                noise = rng.standard_normal(tuple(clean.shape), np.float32)
                weight.copy_(clean + self.stddev * torch.from_numpy(noise).to(clean.device))
            for buffer, present in zip(noisy.buffers(), agents.buffers(), strict=True):
                buffer.copy_(present)

    def state_dict(self) -> StateDict:
        weights = self.weights if self.noisy is None else self.noisy.state_dict()
        return {
            "stddev": self.stddev,
            "divergence": self.divergence,
            "n_compared": self.n_compared.copy(),
            "noisy": {k: v.clone() for k, v in weights.items()},
        }

    def load_state_dict(self, state: StateDict) -> None:
        for name in ("stddev", "divergence"):
            require_range(name, np.array(float(state[name])), 0)
        for name, weight in state["noisy"].items():
            require_range(name, np.asarray(weight))
        counts = state["n_compared"]
        self.stddev, self.divergence = float(state["stddev"]), float(state["divergence"])
        self.n_compared = saved_array("n_compared", counts, np.zeros(np.shape(counts)[:1], int), 0)
        self.noisy, self.weights = None, dict(state["noisy"])


def divergence(q: np.ndarray, noisy_q: np.ndarray, available: np.ndarray) -> np.ndarray:
    """KL divergence [E, N] of the softmax policies of q and noisy_q over the available actions, all
    [E, N, A].
    """
    both = (np.where(available, x, UNAVAILABLE) for x in (q, noisy_q))
    log_p, log_q = (x - np.logaddexp.reduce(x, -1, keepdims=True) for x in both)
    total: np.ndarray = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return total
