"""Rollout: a policy acting in a vector environment."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rltrain.common.env_values import array_forms, read_outcome, require_ended, require_fields
from rltrain.common.machine.torch_settings import EnvContext
from rltrain.common.number_types import MOST_COUNTED, require_range, saved_array, saved_form
from rltrain.common.seeding import SeedsOfTests
from rltrain.errors import DivergedError, Interrupted, require_n_envs
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout_opponents import Opponents
from rltrain.hardware.steps import step_arrays, step_layout
from rltrain.interfaces import EpisodeSeeds, RolloutPolicy, VectorEnv, Watch
from rltrain.types import Clock, Episode, StateDict, Steps

log = logging.getLogger("rltrain")

ACTING, ENV = 0, 1
"""Places of ``Rollout.seconds``."""
ENVIRONMENT, STEP = EnvContext(), EnvContext("step")
LONG = 10_000
"""Steps after which a test episode without a limit is suspected never to end."""
ENDLESS = (
    f"a test episode has not ended after {LONG:,} steps, and may never end: agents without "
    "exploration can repeat their actions forever. Set env.max_episode_steps, if the "
    "environment has it, or give it its own time limit. Ctrl-C ends the run."
)


def no_seeds(e: int, k: int) -> int:
    """The seeds of a rollout that only plays test episodes, which bring their own."""
    raise AssertionError("a rollout without seeds collects nothing")


class Rollout:
    """Acts with ``policy`` in ``env`` from the first use on; ``seeds`` are of its episodes."""

    apart = None  # tests are played in this process

    def __init__(
        self,
        *,
        env: VectorEnv,
        policy: RolloutPolicy,
        seeds: EpisodeSeeds = no_seeds,
        keeps_hidden: bool = False,
        keeps_values: bool = False,
        share: Share | None = None,
        opponents: Opponents | None = None,
    ) -> None:
        self.env, self.policy, self.seeds = env, policy, seeds
        self.keeps_hidden, self.keeps_values = keeps_hidden, keeps_values
        self.opponents = opponents
        self.share = share or Share(0, 0, env.n_envs, env.n_envs)  # the others are elsewhere
        self.about = env.about
        self.seconds = np.zeros(2)  # that collecting took: acting, in the environment
        self._started = False
        self._forms: object = ()  # shapes and types of the arrays that were checked
        self._skip = 0  # episodes whose seeds were used before
        self._returns = np.zeros((env.n_envs, env.spec.n_rewards))  # [E, R] of the open episodes
        self._lengths = np.zeros(env.n_envs, np.int64)  # [E] transitions
        self._lost = np.zeros(env.n_envs, np.bool_)  # [E] open episodes that the next Steps drop

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """The next ``n_steps`` time steps of every environment, and the episodes that end.

        Returns:
            Steps [T, E, …] with T = ``n_steps``, in arrays of their own; fewer where an environment
            lost its episode, so that the next Steps begin with the episode that replaces it.
        """
        begun, in_env = time.perf_counter(), float(self.seconds[ENV])
        if self.opponents is not None:
            self.opponents.update(clock)
        if not self._started:
            self._start(self._episode_seed)
        env = self.env
        layout = step_layout(env, n_steps, env.n_envs)
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}
        steps = Steps(**arrays, lost=self._lost.copy(), episodes=())
        self._lost[:] = False
        episodes: list[Episode] = []
        hidden: list[np.ndarray] = []
        values: list[np.ndarray] = []
        t = 0
        while t < n_steps:
            if self.keeps_hidden:
                hidden.append(self.policy.hidden)
            t = self.advance(steps, t, clock, episodes)
            if self.keeps_values:
                values.append(self.policy.acted_values)
            if self._lost.any():
                made: dict[str, Any] = {n: array[:t] for n, array in step_arrays(steps).items()}
                steps = replace(steps, **made)
                break
        in_env = float(self.seconds[ENV]) - in_env
        self.seconds[ACTING] += time.perf_counter() - begun - in_env
        return replace(
            steps,
            episodes=tuple(episodes),
            hidden=np.stack(hidden) if self.keeps_hidden else None,
            values=np.stack(values) if self.keeps_values else None,
        )

    # twin: kernels/collecting.py
    def advance(self, steps: Steps, t: int, clock: Clock, episodes: list[Episode]) -> int:
        """Make time step ``t`` of ``steps`` and add the episodes that end there; returns the next
        one.
        """
        env = self.env
        steps.obs[t], steps.avail_actions[t] = env.obs, env.avail_actions
        steps.state[t], steps.last[t] = env.state, env.last
        episodes += self._finished().values()
        steps.action[t] = self._act(steps.last[t], clock)
        steps.reward[t], steps.terminated[t] = self._step(steps.action[t], steps.last[t])
        self._count(steps.reward[t], steps.last[t])
        return t + 1

    def run_episodes(
        self,
        n: int,
        seed: int,
        clock: Clock,
        watches: Sequence[Watch] = (),
        stop: Callable[[], bool] | None = None,
        report: Callable[[int], None] | None = None,
    ) -> list[Episode]:
        """Exactly ``n`` test episodes in order: episode i has seed i of tests, environment i % E.

        Which episodes count is fixed in advance, because the first to finish would be the short
        ones. Policy and environment start from scratch, and so does a later ``collect``; the
        policy's random stream is then as it was. ``watches`` are called at every time step,
        ``report`` with the number of finished episodes.

        Raises:
            Interrupted: ``stop`` returned True; it is called in every time step.
        """
        env, n_envs = self.env, self.env.n_envs
        before = self._policies()
        try:
            self._start(SeedsOfTests(seed, self.share.total, self.share.first))
            episodes: dict[int, Episode] = {}
            played = [0] * n_envs  # episodes of each environment
            for step in itertools.count():
                if len(episodes) == n:
                    break
                if stop is not None and stop():
                    raise Interrupted
                if step >= LONG == self._lengths.max() and env.spec.max_steps is None:
                    log.warning("%s", ENDLESS)
                finished = self._finished()
                for watch in watches:
                    watch(env, [e + k * n_envs for e, k in enumerate(played)], finished)
                for e, episode in finished.items():
                    number = e + played[e] * n_envs
                    played[e] += 1
                    if number < n:
                        episodes[number] = episode
                if report is not None and finished:
                    report(len(episodes))
                last = env.last.copy()  # the step overwrites it
                action = self._act(last, clock)
                reward, terminated = self._step(action, last)
                self._count(reward, last)
                for watch in watches:
                    watch.stepped(action, reward, terminated)
            return [episodes[i] for i in range(n)]
        finally:  # the next test uses the same random numbers
            self._started = False
            self.carry_on(before)

    # twin: kernels/collecting.py
    def _act(self, last: np.ndarray, clock: Clock) -> np.ndarray:
        """The policy's actions [E, N]; opponents choose theirs."""
        try:
            action = self.policy.act(self.env.obs, self.env.avail_actions, last, clock)
        except DivergedError:
            require_fields(self.env, self._lengths, self.share.first)  # NaN from NaN
            raise
        if self.opponents is not None:
            self.opponents.act(last, clock)
        return action

    # twin: kernels/collecting.py
    def _step(self, action: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step the environments: ``action`` [E, N] to (reward [E, R], terminated [E]), where
        ``last`` [E] is not set.
        """
        before = time.perf_counter()
        with STEP:
            reward, terminated = self.env.step(action.copy())  # which it may change
        self.seconds[ENV] += time.perf_counter() - before
        if (forms := array_forms(self.env, reward, terminated)) != self._forms:
            steps, returned = self._lengths + ~last, {"reward": reward, "terminated": terminated}
            require_fields(self.env, steps, self.share.first, **returned)
            self._forms = forms
        require_ended(self.env, terminated, last, self.share.first)
        return reward, terminated

    def _policies(self) -> StateDict:
        """The states of the policies of both sides."""
        sides = {"policy": self.policy.state_dict()}
        return (
            sides if self.opponents is None else {**sides, "opponents": self.opponents.state_dict()}
        )

    def carried(self) -> StateDict:
        """State that outlives an episode, for ``carry_on``."""
        return {"env": self.carried_envs()[0], **self._policies()}

    def carry_on(self, state: StateDict) -> None:
        """Load what outlives an episode: of the environments and opponents, if it is there, and of
        the policy.
        """
        self.carry_on_envs([state.get("env", {})])
        self.policy.carry_on(state["policy"])
        if self.opponents is not None and "opponents" in state:
            self.opponents.carry_on(state["opponents"])

    def carried_envs(self) -> list[StateDict]:
        """State that outlives an episode of the environments, such as tasks."""
        with ENVIRONMENT:
            return [self.env.carried()]

    def carry_on_envs(self, states: Sequence[StateDict]) -> None:
        """Load what ``carried_envs`` returned; the next episodes begin with it."""
        if states[0]:
            with ENVIRONMENT:
                self.env.restart(states[0])

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment."""
        with ENVIRONMENT:
            return self.env.call(method, *args)

    def state_dict(self) -> StateDict:
        """The state that the next ``collect`` depends on; the environment's once it started."""
        with ENVIRONMENT:
            env = self.env.state_dict() if self._started else self.env.carried()
        return {
            "started": self._started,
            "skip": self._skip,
            "env": env,
            **self._policies(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "lost": self._lost.copy(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``; open episodes are dropped where an environment cannot
        continue: its state has ``exact: False``, or it sets ``lost``.

        Raises:
            ValueError: the state was written with a different number of environments, or holds what
                no rollout does.
        """
        n_envs = self.env.n_envs
        require_n_envs("rollout", len(state["lengths"]), n_envs)
        skip = saved_array("rollout.skip", state["skip"], np.array(0), 0, MOST_COUNTED)
        returns = saved_form("rollout.returns", state["returns"], self._returns)
        if state["started"]:  # else a broken environment may have given any reward
            require_range("rollout.returns", returns)
        lengths = saved_array("rollout.lengths", state["lengths"], self._lengths, 0, MOST_COUNTED)
        dropped = saved_array("rollout.lost", state["lost"], self._lost)
        self._started, self._skip = bool(state["started"]), int(skip)
        with ENVIRONMENT:
            if self._started:
                self.env.reset(self._episode_seed)  # sets the seeds of later episodes
                self.env.load_state_dict(state["env"])
            elif state["env"]:
                self.env.restart(state["env"])
        self.policy.load_state_dict(state["policy"])
        if self.opponents is not None:
            self.opponents.load_state_dict(state["opponents"])
        self._returns[:], self._lengths[:], self._lost[:] = returns, lengths, dropped
        if self._started:
            lost = np.zeros(n_envs, np.bool_) if self.env.lost is None else self.env.lost
            lost = lost | (not state["env"].get("exact", True))
            self._returns[lost], self._lengths[lost] = 0, 0
            self._lost |= lost
            self._forget(lost)

    def restart(self, state: StateDict, episodes: int) -> None:
        """Begin new episodes, seeded as if every environment had played ``episodes``, with what
        outlives an episode: random stream, adapted exploration, tasks of inexact environments.
        """
        if state["started"] and not state["env"].get("exact", True):
            self.load_state_dict(state)
            return
        self.carry_on(state)
        self._started, self._skip = False, episodes

    def abandon(self, episodes: int) -> None:
        """Drop the open episodes; the next ones are seeded as if ``episodes`` had been played, or
        one more than at the last call.
        """
        self._started, self._skip = False, max(episodes, self._skip + 1)
        self._lost[:] = True

    def _episode_seed(self, e: int, k: int) -> int:
        return self.seeds(e, k + self._skip)

    def close(self) -> None:
        with ENVIRONMENT:
            self.env.close()

    def _start(self, seeds: EpisodeSeeds) -> None:
        before = time.perf_counter()
        if self.opponents is not None:
            self.opponents.reset(self._skip)
        with EnvContext("reset"):
            self.env.reset(seeds)
        require_fields(self.env, first=self.share.first)
        self.seconds[ENV] += time.perf_counter() - before
        self.policy.reset()
        self._returns[:], self._lengths[:] = 0, 0
        self._started = True

    # twin: kernels/collecting.py
    def _finished(self) -> dict[int, Episode]:
        """Episodes that end at the current time step, by environment; their sums are reset."""
        episodes = {}
        for e in np.flatnonzero(self.env.last).tolist():
            read_outcome(self.env.infos[e], partial("Environment {}".format, self.share.first + e))
            episodes[e] = Episode(
                episode_return=float(self._returns[e].mean()),
                length=int(self._lengths[e]),
                info=dict(self.env.infos[e]),
            )
            if self.opponents is not None:
                self.opponents.finished(e, episodes[e].info)
            self._returns[e], self._lengths[e] = 0, 0
        return episodes

    # twin: kernels/collecting.py
    def _count(self, reward: np.ndarray, last: np.ndarray) -> None:
        """Add a step (reward [E, R], last [E]) to the open episodes; crashed ones begin again."""
        real, lost, unclipped = ~last, self.env.lost, self.env.unclipped
        self._returns += (reward if unclipped is None else unclipped) * real[:, None]
        self._lengths += real
        if lost is not None and lost.any():
            self._returns[lost], self._lengths[lost] = 0, 0
            self._lost |= lost
            self._forget(lost)

    def _forget(self, lost: np.ndarray) -> None:
        """Crashed environments, [E] bool, begin another episode."""
        self.policy.forget(lost)
        if self.opponents is not None:
            self.opponents.forget(lost)
