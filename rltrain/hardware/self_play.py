"""Self-play: past weights of the agents that learn, as opponents of a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from torch import nn

from rltrain.common.number_types import require_range, saved_array
from rltrain.common.seeding import weighted_index
from rltrain.interfaces import SidePolicy
from rltrain.types import Clock, StateDict

Sampling = Literal["uniform", "latest", "prioritized"]


class SnapshotPolicy(SidePolicy, Protocol):
    """A policy of the other side whose weights are replaced."""

    @property
    def agents(self) -> nn.Module: ...


@dataclass(kw_only=True, eq=False, repr=False)
class SelfPlay:
    """A pool of snapshots of the agents' weights.

    Args:
        agents: those that learn.
        make: makes a policy for a snapshot.
        pool_size: snapshots that are kept; the oldest one goes first.
        interval: env steps between snapshots.
        sampling: which plays an episode: any, the newest, or with a probability that grows with the
            square of how often it wins (Vinyals et al., 2019).
    """

    agents: nn.Module
    make: Callable[[], SnapshotPolicy]
    pool_size: int
    interval: int
    sampling: Sampling

    def __post_init__(self) -> None:
        self.pool: list[int] = []  # env steps of snapshots, oldest first
        self.policies: dict[int, SnapshotPolicy] = {}  # those, and older ones that still play
        self.results: dict[int, list[float]] = {}  # battles of each, and how many it won

    def update(self, clock: Clock, playing: Sequence[int]) -> None:
        """Take a snapshot if one is due, and drop the oldest that are not ``playing``."""
        if self.pool and clock.env_steps // self.interval <= self.pool[-1] // self.interval:
            return
        self._add(clock.env_steps, self.agents.state_dict())
        self.pool = [*self.pool, clock.env_steps][-self.pool_size :]
        self.results[clock.env_steps] = [0.0, 0.0]
        for step in set(self.policies) - {*self.pool, *playing}:
            del self.policies[step], self.results[step]

    def draw(self, rng: np.random.Generator) -> int:
        """The snapshot that plays an episode."""
        if self.sampling == "latest":
            return self.pool[-1]
        weights = np.ones(len(self.pool))
        if self.sampling == "prioritized":  # one of two battles won before the first
            results = [self.results[step] for step in self.pool]
            weights = np.array([((won + 1) / (played + 2)) ** 2 for played, won in results])
        return self.pool[weighted_index(weights, rng)]

    def count(self, step: int, info: Mapping[str, object]) -> None:
        """Count a battle of a snapshot by its result for the agents."""
        result = self.results[step]
        result[0] += 1
        result[1] += 0.5 if info.get("draw", "win" not in info) else float(not info["win"])

    def state_dict(self) -> StateDict:
        """The pool with its weights, and what the policies remember."""
        return {
            "pool": list(self.pool),
            "results": {str(step): list(result) for step, result in self.results.items()},
            "weights": {str(n): dict(p.agents.state_dict()) for n, p in self.policies.items()},
            "policies": {str(n): p.state_dict() for n, p in self.policies.items()},
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``."""
        self.carry_on(state)
        for step, policy in self.policies.items():
            policy.load_state_dict(state["policies"][str(step)])

    def carry_on(self, state: StateDict) -> None:
        """Load only what outlives an episode.

        Raises:
            ValueError: snapshots without weights or results, or with numbers that none has.
        """
        pool = [int(step) for step in state["pool"]]
        results, weights = (
            {int(step): x for step, x in state[name].items()} for name in ("results", "weights")
        )
        held = set(weights)
        if set(results) != held or not set(pool) <= held or sorted(set(pool)) != pool:
            raise ValueError(f"self_play.pool is {pool}, results and weights of {[*results]}")
        for step, result in results.items():
            saved_array(f"self_play.results.{step}", np.array(result, float), np.zeros(2), 0)
            for name, weight in weights[step].items():
                require_range(f"self_play.weights.{step}.{name}", np.asarray(weight.cpu()))
        self.pool, self.policies = pool, {}
        self.results = {step: [*map(float, r)] for step, r in results.items()}
        for step, own in weights.items():
            self._add(step, own)

    def _add(self, step: int, weights: Mapping[str, object]) -> None:
        policy = self.make()
        policy.agents.load_state_dict(weights)
        self.policies[step] = policy


class NewestSnapshot(SelfPlay):
    """The newest snapshot of another pool, for rollouts of tests."""

    def __init__(self, of: SelfPlay, make: Callable[[], SnapshotPolicy]) -> None:
        super().__init__(agents=of.agents, make=make, pool_size=1, interval=1, sampling="latest")
        self.of = of
        self._copied: SnapshotPolicy | None = None  # the policy of the other pool

    def draw(self, rng: np.random.Generator) -> int:
        """The newest snapshot, of which the first test makes the first one."""
        if not self.of.pool:
            self.of.update(Clock(), ())
        newest = self.of.pool[-1]
        policy = self.of.policies[newest]
        if self.pool != [newest] or self._copied is not policy:  # a restored pool has others
            self.pool, self.policies, self.results = [newest], {}, {newest: [0.0, 0.0]}
            self._add(newest, policy.agents.state_dict())
            self._copied = policy
        return newest
