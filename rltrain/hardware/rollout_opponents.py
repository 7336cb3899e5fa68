"""``Opponents``: policies of a rollout that play the other side of its environments; ``SelfPlay``:
past weights of the agents that learn, as some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from torch import nn

from rltrain.common.checkpoint.opponent_files import SELF
from rltrain.common.number_types import MOST_COUNTED, require_range, saved_array
from rltrain.common.seeding import weighted_index
from rltrain.interfaces import OtherSide, SidePolicy
from rltrain.types import Clock, Info, StateDict

Sampling = Literal["uniform", "latest", "prioritized"]
Draw = Callable[[np.random.Generator], str]
"""Who plays an episode, by name."""
Explore = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], None]
"""Replaces actions [1, N], by available ones [1, N, A], with a probability."""


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


@dataclass(kw_only=True, eq=False, repr=False)
class Opponents:
    """Chooses an opponent for every episode, and acts as those that are playing.

    Args:
        side: of the environments of a rollout.
        policies: by name; None: the environment's own opponent.
        draw: chooses one for an episode.
        streams: random numbers of episode k of environment e.
        explore: replaces actions at random; None = never.
        epsilon: how likely, by name.
        self_play: the policies of the name ``self``.
    """

    side: OtherSide
    policies: Mapping[str, SidePolicy | None]
    draw: Draw
    streams: Callable[[int, int], np.random.Generator]
    explore: Explore
    epsilon: Mapping[str, float]
    self_play: SelfPlay | None = None

    def __post_init__(self) -> None:
        n_envs = self.side.n_envs
        self.names = [""] * n_envs  # who plays in each environment
        self.snapshots = [0] * n_envs  # of ``self``: the env steps of its weights
        self._episode = np.zeros(n_envs, np.int64)  # k of its episode
        self._rng = [np.random.default_rng(0) for _ in range(n_envs)]  # of its episode

    def update(self, clock: Clock) -> None:
        """Take a snapshot for self-play, if one is due."""
        if self.self_play is not None:
            self.self_play.update(clock, self.snapshots)

    def reset(self, first: int = 0) -> None:
        """All environments are about to begin episode ``first``."""
        self._episode[:] = first
        for e in range(self.side.n_envs):
            self._begin(e)

    def act(self, last: np.ndarray, clock: Clock) -> None:
        """Choose the actions of the other side for the coming step, in which new episodes begin
        where ``last`` [E] is set.
        """
        side = self.side
        side.action[:] = 0
        playing = list(zip(self.names, self.snapshots, strict=True))
        for one in dict.fromkeys(playing):
            name, policy = one[0], self._policy(*one)
            if policy is not None:
                plays = np.array([other == one for other in playing])
                action = policy.act(side.obs, side.avail_actions, last, clock)
                side.action[plays] = action[plays]
                if (epsilon := self.epsilon[name]) > 0:
                    for e in np.flatnonzero(plays).tolist():
                        available = side.avail_actions[e : e + 1].astype(np.bool_)
                        self.explore(side.action[e : e + 1], available, epsilon, self._rng[e])
                    if (before := getattr(policy, "last_action", None)) is not None:
                        goes_on = plays & ~last
                        before[goes_on] = side.action[goes_on]
        for e in np.flatnonzero(last).tolist():
            self._episode[e] += 1
            self._begin(e)

    def finished(self, e: int, info: Info) -> None:
        """Add to the ``info`` of an episode that ended who played it."""
        info["opponent"] = self.names[e]
        if self.names[e] == SELF and self.self_play is not None:
            info["snapshot"] = self.snapshots[e]
            self.self_play.count(self.snapshots[e], info)

    def forget(self, envs: np.ndarray) -> None:
        """The environments of [E] bool crashed, and begin again against the same opponents."""
        for one in set(zip(self.names, self.snapshots, strict=True)):
            if (policy := self._policy(*one)) is not None:
                policy.forget(envs)

    def state_dict(self) -> StateDict:
        """Who plays, and the states of the policies."""
        policies = {name: policy.state_dict() for name, policy in self._named()}
        return {
            "self_play": None if self.self_play is None else self.self_play.state_dict(),
            "snapshots": list(self.snapshots),
            "names": list(self.names),
            "episode": self._episode.copy(),
            "rng": [rng.bit_generator.state for rng in self._rng],
            "policies": policies,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``; the environments keep whom they play against."""
        names, snapshots, n_envs = [*state["names"]], [*state["snapshots"]], self.side.n_envs
        episode = saved_array("episode", state["episode"], self._episode, 0, MOST_COUNTED)
        if self.self_play is not None:
            self.self_play.load_state_dict(state["self_play"])
        known = {(name, 0) for name in self.policies}
        if self.self_play is not None:
            known -= {(SELF, 0)}
            known |= {(SELF, step) for step in self.self_play.policies}
        playing = list(zip(names, snapshots, strict=True))
        if len(playing) != n_envs or (
            any(names) and not known.issuperset(playing)
        ):  # "": not begun
            raise ValueError(f"opponents are {playing}: expected {n_envs} of {sorted(known)}")
        self.names[:], self._episode[:], self.snapshots[:] = names, episode, snapshots
        for rng, saved in zip(self._rng, state["rng"], strict=True):
            rng.bit_generator.state = saved
        for name, policy in self._named():
            policy.load_state_dict(state["policies"][name])

    def carry_on(self, state: StateDict) -> None:
        """Load only what outlives an episode."""
        if self.self_play is not None:
            self.self_play.carry_on(state["self_play"])
        for name, policy in self._named():
            policy.carry_on(state["policies"][name])

    def _begin(self, e: int) -> None:
        self._rng[e] = self.streams(e, int(self._episode[e]))
        self.names[e] = name = self.draw(self._rng[e])
        self.snapshots[e] = 0
        if name == SELF and self.self_play is not None:
            self.snapshots[e] = self.self_play.draw(self._rng[e])
        policy = self._policy(name, self.snapshots[e])
        self.side.commanded[e] = policy is not None
        if policy is not None:
            policy.forget(np.arange(self.side.n_envs) == e)

    def _policy(self, name: str, snapshot: int) -> SidePolicy | None:
        if name == SELF and self.self_play is not None:
            return self.self_play.policies[snapshot]
        return self.policies[name]

    def _named(self) -> list[tuple[str, SidePolicy]]:
        return [(name, policy) for name, policy in self.policies.items() if policy is not None]
