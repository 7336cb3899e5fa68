"""MinAtar (Young and Tian, 2019): five small arcade games on a 10 x 10 grid, from the MinAtar
package. Only the games are imported, which need only numpy.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rltrain.common.machine.install import install_extra
from rltrain.common.number_types import Count, Flag, Probability, saved_array, saved_number
from rltrain.env.vector import Env, Observation, SyncVectorEnv
from rltrain.types import EnvSpec, Info, StateDict

CONSTANT = ("channels", "action_map", "random", "ramping")  # not the state of a game
NUMBERS = (-10, 10_000)  # positions, directions and timers of a game are between these
CELL = 32  # pixels per grid cell in videos
COLORS = np.array(
    [
        [16, 16, 24],  # empty
        [86, 156, 214],
        [230, 190, 80],
        [110, 110, 120],
        [200, 90, 70],
        [120, 200, 120],
        [190, 130, 210],
        [90, 200, 200],
        [240, 150, 110],
        [170, 170, 90],
        [250, 250, 250],
    ],
    np.uint8,
)
"""Colors of channels in videos; the last of several set channels is shown."""


class MinAtarGame(Env):
    """One game; observations are its channels [C, 10, 10] as 0 and 1.

    Episodes equal those of the package's ``Environment`` after ``seed`` and ``reset``.

    Args:
        game: the game's class in the package.
        sticky_action_prob: probability of repeating the previous action.
        difficulty_ramping: games become harder over time.
        minimal_action_set: only the actions with an effect, instead of all six.
        max_episode_steps: env steps after which an episode is truncated; None: never.
    """

    frames_per_second = 15.0

    def __init__(
        self,
        game: Any,
        *,
        sticky_action_prob: float,
        difficulty_ramping: bool,
        minimal_action_set: bool,
        max_episode_steps: int | None,
    ) -> None:
        self.game = game(ramping=difficulty_ramping)
        self.sticky_action_prob, self.limit = sticky_action_prob, max_episode_steps
        n_all = len(self.game.action_map)
        self._actions = self.game.minimal_action_set() if minimal_action_set else list(range(n_all))
        height, width, channels = self.game.state_shape()
        self.spec = EnvSpec(
            n_agents=1,
            n_actions=len(self._actions),
            obs_shape=(channels, height, width),
            max_steps=max_episode_steps,
            obs_dtype="uint8",
        )
        self._all, self._nothing = np.ones((1, len(self._actions)), np.uint8), np.zeros(0)
        self._t, self._last_action = 0, 0

    def reset(self, seed: int) -> Observation:
        self.game.random.seed(seed % 2**32)
        self.game.reset()
        self._t, self._last_action = 0, 0
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        chosen = self._actions[action[0]]
        if self.game.random.rand() < self.sticky_action_prob:
            chosen = self._last_action
        self._last_action = chosen
        reward, terminated = self.game.act(chosen)
        self._t += 1
        cut_off = not terminated and self._t == self.limit
        return self._observation(), np.array([reward], np.float32), bool(terminated), cut_off, {}

    def render(self) -> np.ndarray:
        """The grid, one color per channel: uint8 [H, W, 3]."""
        seen = self.game.state()
        top = (seen * np.arange(1, seen.shape[-1] + 1)).max(-1)  # [10, 10]
        return COLORS[top].repeat(CELL, 0).repeat(CELL, 1)

    def state_dict(self) -> StateDict:
        random = self.game.random.get_state(legacy=False)["state"]
        return {
            "game": plain({k: v for k, v in vars(self.game).items() if k not in CONSTANT}),
            "random": {"key": random["key"].astype(np.int64), "pos": random["pos"]},
            "t": self._t,
            "last_action": self._last_action,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``; ValueError, IndexError or TypeError for no state of it."""
        given, own = plain(state["game"]), self.state_dict()["game"]
        if other := sorted(given.keys() ^ own.keys()):
            raise ValueError(f"env.game has other values than the game: {', '.join(other):.80}")
        for name, value in own.items():
            require_values(f"env.{name}", given[name], value)
        vars(self.game).update(given)
        self.game.state()
        deepcopy(self.game).act(0)  # an exception for what lies elsewhere or lacks a part
        like = np.zeros(624, np.int64)
        words = saved_array("env.random", state["random"]["key"], like, 0, 2**32 - 1)
        place = saved_number("env.random.pos", state["random"]["pos"], 0, len(words))
        self.game.random.set_state(("MT19937", words.astype(np.uint32), place))
        self._t = saved_number("env.t", state["t"])
        last = len(self.game.action_map) - 1
        self._last_action = saved_number("env.last_action", state["last_action"], 0, last)

    def close(self) -> None:
        """Nothing to close."""

    def _observation(self) -> Observation:
        return Observation(self.game.state().transpose(2, 0, 1)[None], self._all, self._nothing)


def require_values(name: str, saved: object, own: object) -> None:
    """ValueError unless a game that has ``own`` in a place may have a saved value there: an array
    of 0 and 1 of the same form, a list of numbers, lists and None, or a whole number.
    """
    if isinstance(own, np.ndarray):
        saved_array(name, saved, own, 0, 1)
    elif isinstance(own, list) and isinstance(saved, list):
        for each in saved:
            if each is not None:
                require_values(name, each, [] if isinstance(each, list) else 0)
    else:
        saved_number(name, int(saved) if isinstance(saved, bool) else saved, *NUMBERS)


def plain(value: Any) -> Any:
    """Copy nested dicts and lists, with numbers as Python types and arrays as NumPy arrays."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, type(None))) else np.array(value)


def game_class(game: str) -> Any:
    """The class of a game, loaded from its file: the package itself imports plotting.

    Raises:
        ValueError: the package is missing.
    """
    package = importlib.util.find_spec("minatar")
    if package is None or not package.submodule_search_locations:  # another file of that name
        raise ValueError(
            "env=minatar needs the package MinAtar, which is not installed. "
            f"Type {install_extra('minatar')}"
        )
    path = Path(package.submodule_search_locations[0]) / "environments" / f"{game}.py"
    spec = importlib.util.spec_from_file_location(f"minatar_{game}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Env


def minatar_env(
    *,
    game: Literal["breakout", "asterix", "freeway", "seaquest", "space_invaders"],
    n_envs: int,
    sticky_action_prob: Probability,
    difficulty_ramping: Flag,
    minimal_action_set: Flag,
    time_limit: Literal["bootstrap", "terminal"],
    max_episode_steps: Count | None,
) -> SyncVectorEnv:
    """``n_envs`` environments of a game.

    Raises:
        ValueError: the package is missing.
    """
    make = partial(
        MinAtarGame,
        game_class(game),
        sticky_action_prob=sticky_action_prob,
        difficulty_ramping=difficulty_ramping,
        minimal_action_set=minimal_action_set,
        max_episode_steps=max_episode_steps,
    )
    return SyncVectorEnv(make=make, n_envs=n_envs, time_limit=time_limit)
