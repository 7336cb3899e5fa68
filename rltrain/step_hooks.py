"""Episodes and steps told one by one to the callbacks that ask for them: replayed from the
collected ``Steps`` in training, watched in tests. Nothing here runs unless such a hook is defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.interfaces import VectorEnv
from rltrain.types import (
    Episode,
    Steps,
    StepView,
    Trajectory,
)

if TYPE_CHECKING:
    from rltrain.trainer import Trainer


class TrainingMoments:
    """Replays collects slot by slot, copy by copy; knows how far every copy's open episode is.

    Episodes that were open before anybody watched begin for the hooks where the watching begins.
    """

    def __init__(self) -> None:
        self.open = np.zeros(0, np.bool_)  # [E] an episode has begun
        self.begun = np.zeros(0, np.int64)  # [E] episodes begun so far
        self.t = np.zeros(0, np.int64)  # [E] transitions of the open episode

    def tell(self, trainer: Trainer, steps: Steps) -> None:
        """Call the hooks of every slot, in the order of time, then those of every trajectory."""
        n_slots, n_envs = steps.last.shape
        if len(self.open) != n_envs:
            self.open = np.zeros(n_envs, np.bool_)
            self.begun, self.t = np.zeros((2, n_envs), np.int64)
        self.open[steps.lost] = False
        parts = list(trajectories(steps, self.open, self.begun))
        ended = iter(steps.episodes)
        for slot in range(n_slots):
            for copy in range(n_envs):
                self._slot(trainer, steps, slot, copy, ended)
        for part in parts:
            trainer.callbacks.on_trajectory(trainer, part)

    def _slot(
        self, trainer: Trainer, steps: Steps, slot: int, copy: int, ended: Iterator[Episode]
    ) -> None:
        hooks, begins = trainer.callbacks, not self.open[copy]
        if begins:
            self.open[copy], self.t[copy] = True, 0
            self.begun[copy] += 1
        moment = StepView(
            test=False,
            copy=copy,
            number=int(self.begun[copy]) - 1,
            t=int(self.t[copy]),
            obs=steps.obs[slot, copy],
            avail_actions=steps.avail_actions[slot, copy],
            state=steps.state[slot, copy],
        )
        if begins:
            hooks.on_episode_start(trainer, moment)
        if steps.last[slot, copy]:
            self.open[copy] = False
            hooks.on_episode_end(trainer, replace(moment, episode=next(ended)))
            return
        self.t[copy] += 1
        happened = steps.action[slot, copy], steps.reward[slot, copy]
        hooks.on_step(trainer, stepped(moment, *happened, steps.terminated[slot, copy]))

    def state_dict(self) -> dict[str, Any]:
        return {"open": self.open.copy(), "begun": self.begun.copy(), "t": self.t.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` said; from nothing, start afresh."""
        for name in ("open", "begun", "t") if state else ():
            setattr(self, name, np.array(state[name]))


def stepped(moment: StepView, action: np.ndarray, reward: np.ndarray, terminated: bool) -> StepView:
    """The same moment with what its step brought."""
    return replace(moment, action=action, reward=reward, terminated=bool(terminated))


def trajectories(steps: Steps, is_open: np.ndarray, begun: np.ndarray) -> Iterator[Trajectory]:
    """The slots of every episode in ``steps``, copy by copy, as views.

    Args:
        is_open: [E], the copy is in an episode already.
        begun: [E], episodes it began before these steps.
    """
    n_slots, n_envs = steps.last.shape
    for copy in range(n_envs):
        cuts = [0, *(np.flatnonzero(steps.last[:, copy]) + 1).tolist(), n_slots]
        begins, number = not is_open[copy], int(begun[copy]) - int(is_open[copy])
        for first, stop in pairwise(cuts):
            if first == stop:
                continue
            part = slice(first, stop)
            yield Trajectory(
                copy=copy,
                number=number,
                begins=begins,
                ends=bool(steps.last[stop - 1, copy]),
                obs=steps.obs[part, copy],
                avail_actions=steps.avail_actions[part, copy],
                state=steps.state[part, copy],
                last=steps.last[part, copy],
                action=steps.action[part, copy],
                reward=steps.reward[part, copy],
                terminated=steps.terminated[part, copy],
            )
            begins, number = True, number + 1


class TestMoments:
    """Watches the ``n`` episodes of a test and tells them to the hooks."""

    __test__ = False  # its name looks like a test to pytest

    def __init__(self, trainer: Trainer, n: int) -> None:
        self.trainer, self.n = trainer, n
        self.env: VectorEnv | None = None
        self.t: dict[int, int] = {}  # by copy, transitions of the episode it is in
        self.now: dict[int, StepView] = {}  # by copy, the slot from which it is about to step

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Look at the current slot of every copy that plays an episode which counts."""
        self.env, hooks = env, self.trainer.callbacks
        self.now.clear()
        for copy, number in enumerate(numbers):
            if number >= self.n:
                continue
            moment = StepView(
                test=True,
                copy=copy,
                number=number,
                t=self.t.get(copy, 0),
                obs=env.obs[copy].copy(),
                avail_actions=env.avail_actions[copy].copy(),
                state=env.state[copy].copy(),
            )
            if copy not in self.t:
                hooks.on_episode_start(self.trainer, moment)
            if copy in finished:
                self.t.pop(copy, None)
                hooks.on_episode_end(self.trainer, replace(moment, episode=finished[copy]))
            else:
                self.now[copy], self.t[copy] = moment, moment.t + 1

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """What the step from that slot brought; a copy that crashed begins its episode anew."""
        lost = getattr(self.env, "lost", None)
        for copy, moment in self.now.items():
            if lost is not None and lost[copy]:
                self.t.pop(copy)
                continue
            happened = stepped(moment, action[copy], reward[copy], terminated[copy])
            self.trainer.callbacks.on_step(self.trainer, happened)
