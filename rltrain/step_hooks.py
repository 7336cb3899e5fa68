"""Per-step and per-episode hooks: replayed from the collected ``Steps`` in training, called during
tests. Nothing here runs unless a callback defines such a hook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.common.number_types import require_range
from rltrain.interfaces import VectorEnv, Watch
from rltrain.types import STEP_FIELDS, Episode, StateDict, Steps, StepView, Trajectory


class TrainingStepHooks:
    """Calls the hooks for collected steps and keeps track of each environment's open episode.

    For the hooks, an episode that was open before the first call begins at that call.
    """

    def __init__(self) -> None:
        self.open = np.zeros(0, np.bool_)  # [E] an episode has started
        self.begun = np.zeros(0, np.int64)  # [E] episodes begun so far
        self.t = np.zeros(0, np.int64)  # [E] transitions of the open episode

    def replay(self, trainer: Training, hooks: Callback, steps: Steps) -> None:
        """Call the hooks of every time step in temporal order, then those of every trajectory."""
        n_steps, n_envs = steps.last.shape
        if len(self.open) != n_envs:
            self.open = np.zeros(n_envs, np.bool_)
            self.begun, self.t = np.zeros((2, n_envs), np.int64)
        self.open[steps.lost] = False
        parts = list(trajectories(steps, self.open, self.begun))
        ended = iter(steps.episodes)
        for step, e in np.ndindex(n_steps, n_envs):
            begins = not self.open[e]
            if begins:
                self.open[e], self.t[e] = True, 0
                self.begun[e] += 1
            view = StepView(
                test=False,
                env=e,
                number=int(self.begun[e]) - 1,
                t=int(self.t[e]),
                obs=steps.obs[step, e],
                avail_actions=steps.avail_actions[step, e],
                state=steps.state[step, e],
            )
            if begins:
                hooks.on_episode_start(trainer, view)
            if steps.last[step, e]:
                self.open[e] = False
                hooks.on_episode_end(trainer, replace(view, episode=next(ended)))
            else:
                self.t[e] += 1
                outcome = steps.action[step, e], steps.reward[step, e], steps.terminated[step, e]
                hooks.on_step(trainer, stepped(view, *outcome))
        for part in parts:
            store(part, hooks.on_trajectory(trainer, part))

    def state_dict(self) -> StateDict:
        return {"open": self.open.copy(), "begun": self.begun.copy(), "t": self.t.copy()}

    def load_state_dict(self, state: StateDict) -> None:
        """Load what ``state_dict`` returned."""
        for name in ("open", "begun", "t"):
            saved = np.array(state[name])
            fits = saved.ndim == 1 and (name == "open" or len(saved) == len(self.open))
            if not fits or saved.dtype != getattr(self, name).dtype:
                raise TypeError(f"step_hooks.{name} is no array of a number per environment")
            require_range(f"step_hooks.{name}", saved, 0)
            setattr(self, name, saved)


def store(part: Trajectory, given: Trajectory) -> None:
    """Put the arrays that hooks returned in place of those of ``part``, which are views.

    Raises:
        ValueError: an array of a different shape; names it.
    """
    for name in STEP_FIELDS:
        own, other = getattr(part, name), np.asarray(getattr(given, name))
        if other.shape != own.shape:
            raise ValueError(
                f"on_trajectory returned {name} of the shape {other.shape}: expected {own.shape}."
            )
        if other is not own:
            own[...] = other


def stepped(view: StepView, action: np.ndarray, reward: np.ndarray, terminated: Any) -> StepView:
    """The view with the outcome of its step."""
    return replace(view, action=action, reward=reward, terminated=bool(terminated))


def trajectories(steps: Steps, is_open: np.ndarray, begun: np.ndarray) -> Iterator[Trajectory]:
    """The time steps of every episode in ``steps``, environment by environment, as views.

    Args:
        is_open: [E], whether the environment is within an episode.
        begun: [E], episodes it began before these steps.
    """
    n_steps, n_envs = steps.last.shape
    for e in range(n_envs):
        cuts = [0, *(np.flatnonzero(steps.last[:, e]) + 1).tolist(), n_steps]
        begins, number = not is_open[e], int(begun[e]) - int(is_open[e])
        for first, stop in pairwise(cuts):
            if first == stop:
                continue
            part = slice(first, stop)
            yield Trajectory(
                env=e,
                number=number,
                begins=begins,
                ends=bool(steps.last[stop - 1, e]),
                **{name: getattr(steps, name)[part, e] for name in STEP_FIELDS},
            )
            begins, number = True, number + 1


class TestStepHooks(Watch):
    """Calls the hooks for the ``n`` episodes of a test."""

    __test__ = False  # its name looks like a test to pytest

    def __init__(self, trainer: Training, hooks: Callback, n: int) -> None:
        self.trainer, self.hooks, self.n = trainer, hooks, n
        self.env: VectorEnv | None = None
        self.t: dict[int, int] = {}  # by environment, transitions of the episode it is in
        self.now: dict[int, StepView] = {}  # by environment, the current time step

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Call the hooks for the current time step of every episode that counts."""
        self.env, hooks = env, self.hooks
        self.now.clear()
        for e, number in enumerate(numbers):
            if number >= self.n:
                continue
            view = StepView(
                test=True,
                env=e,
                number=number,
                t=self.t.get(e, 0),
                obs=env.obs[e].copy(),
                avail_actions=env.avail_actions[e].copy(),
                state=env.state[e].copy(),
            )
            if e not in self.t:
                hooks.on_episode_start(self.trainer, view)
            if e in finished:
                self.t.pop(e, None)
                hooks.on_episode_end(self.trainer, replace(view, episode=finished[e]))
            else:
                self.now[e], self.t[e] = view, view.t + 1

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """Call the hooks for the step just made; a crashed environment restarts its episode."""
        lost = None if self.env is None else self.env.lost
        for e, view in self.now.items():
            if lost is not None and lost[e]:
                self.t.pop(e)
                continue
            self.hooks.on_step(self.trainer, stepped(view, action[e], reward[e], terminated[e]))
