"""Opponents: policies of a rollout that play the other side of its environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rltrain.common.checkpoint.opponent_files import SELF
from rltrain.common.number_types import MOST_COUNTED, saved_array
from rltrain.hardware.self_play import SelfPlay
from rltrain.interfaces import OtherSide, SidePolicy
from rltrain.types import Clock, Info, StateDict

Draw = Callable[[np.random.Generator], str]
"""Who plays an episode, by name."""
Explore = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], None]
"""Replaces actions [1, N], by available ones [1, N, A], with a probability."""


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
