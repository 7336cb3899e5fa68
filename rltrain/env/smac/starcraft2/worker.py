"""One game of StarCraft II in its own process: SMAC's environment behind a pipe to ``games.py``.

This module runs in the child and imports little. An answer is ``(kind, value)`` with the kinds
``ready`` (sizes), ``frame`` (a ``GameStep``), ``value`` (of a call), ``error`` (a failed call),
``crash`` (this game has crashed) and ``broken`` (the package cannot make a game).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rltrain.common.machine.child_processes import end_with_parent
from rltrain.common.machine.install import installed_version
from rltrain.errors import reason

CLASSES = {
    "smac": ("smac.env", "StarCraft2Env"),
    "smacv2": ("smacv2.env.starcraft2.wrapper", "StarCraftCapabilityEnvWrapper"),
}
RESET_TRIES = 10
"""SMACv2's reset returns None if it places the units a second time."""


@dataclass(frozen=True)
class Recipe:
    """The package of a game, and the keywords of its class."""

    package: Literal["smac", "smacv2"]
    options: Mapping[str, Any]


class GameStep(NamedTuple):
    """The outputs of a game's reset or step."""

    obs: np.ndarray  # [A, O] float32
    avail: np.ndarray  # [A, n_actions] uint8
    state: np.ndarray  # [S] float32
    reward: float
    terminated: bool
    info: Mapping[str, Any]


class GameOver(Exception):
    """The game's own process died; SMAC has replaced it in the middle of an episode."""


class Game:
    """SMAC's or SMACv2's environment, with workarounds for its bugs."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        use_python_protobuf()
        module, name = CLASSES[recipe.package]
        options = dict(recipe.options)
        make = getattr(importlib.import_module(module), name)
        # distinguishes a time-out from a defeat
        self.env = make(seed=seed, continuing_episode=True, **options)
        self.inner = getattr(self.env, "env", self.env)
        self.extra_zero = recipe.package == "smac" and bool(options.get("obs_timestep_number"))
        self.obs_instead_of_state = bool(options.get("obs_instead_of_state"))
        self.begun = self.finished = False

    def reset(self) -> GameStep:
        """Begin an episode. Raises GameOver if the game died in the meantime."""
        for _ in range(RESET_TRIES):
            if self.begun and not self.finished:
                self.env.close()  # before its first episode's end SMAC would launch a second game
            self.begun = True
            before = self.inner.force_restarts
            shown = self.env.reset()
            if self.inner.force_restarts != before:
                raise GameOver("the game died in reset()")
            if shown is not None:
                return self.frame(0.0, False, {})
        raise GameOver(f"reset() placed no units in {RESET_TRIES} tries")

    def step(self, actions: list[int]) -> GameStep:
        """One env step. Raises GameOver if the game died: SMAC then returns (0, True, {})."""
        reward, terminated, info = self.env.step(actions)
        if terminated and not info:
            raise GameOver("the game died in step()")
        self.finished = self.finished or bool(terminated)
        return self.frame(float(reward), bool(terminated), info)

    def frame(self, reward: float, terminated: bool, info: Mapping[str, object]) -> GameStep:
        obs = np.asarray(self.env.get_obs(), np.float32)
        if self.extra_zero:  # SMAC leaves one unused zero before the timestep
            obs = np.delete(obs, -2, axis=1)
        state = obs.reshape(-1) if self.obs_instead_of_state else self.env.get_state()
        avail = np.asarray(self.env.get_avail_actions(), np.uint8)
        return GameStep(obs, avail, np.asarray(state, np.float32), reward, terminated, dict(info))

    def get_units(self) -> list[list[float]]:
        """Agents by id, then enemies: type, x, y, health, shield, cooldown in loops."""
        units = [*self.inner.agents.values(), *self.inner.enemies.values()]
        return [
            [u.unit_type, u.pos.x, u.pos.y, u.health, u.shield, u.weapon_cooldown] for u in units
        ]

    def get_stats(self) -> dict[str, float]:
        """SMAC's statistics; its own method divides by zero before the first finished battle."""
        if self.inner.battles_game == 0:
            names = ("battles_won", "battles_game", "battles_draw", "win_rate", "timeouts")
            return dict.fromkeys((*names, "restarts"), 0)
        return dict(self.env.get_stats())

    def save_replay(self, folder: str, prefix: str) -> list[str]:
        """Write a .SC2Replay file of all episodes since the game was launched; returns its path."""
        self.inner.replay_dir, self.inner.replay_prefix = folder, prefix
        before = set(Path(folder).glob("*.SC2Replay"))
        try:
            self.env.save_replay()
        except Exception:
            for half_written in set(Path(folder).glob("*.SC2Replay")) - before:
                half_written.unlink()
            raise
        return sorted(str(p) for p in set(Path(folder).glob("*.SC2Replay")) - before)

    def call(self, method: str, *args: object) -> Any:
        return getattr(self if hasattr(self, method) else self.env, method)(*args)


def use_python_protobuf() -> None:
    """The game's messages were generated for protobuf 3; later versions read them only in pure
    Python."""
    version = installed_version("protobuf")
    if version is not None and int(version.partition(".")[0]) >= 4:
        os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")


def play(connection: Connection, recipe: Recipe, seed: int) -> None:
    """The worker: make the game, then answer until the pipe closes."""
    end_with_parent()
    try:
        game = Game(recipe, seed)
        connection.send(("ready", dict(game.env.get_env_info())))
    except Exception as error:
        connection.send(("broken", reason(error)))
        return
    try:
        while True:
            connection.send(answer(game, *connection.recv()))
    except (EOFError, OSError):
        game.env.close()


def answer(game: Game, method: str, *args: object) -> tuple[str, Any]:
    """Carry out one message."""
    episode = method in ("reset", "step")
    try:
        value = game.call(method, *args)
    except Exception as error:
        return ("crash" if episode else "error"), reason(error)
    return ("frame" if episode else "value"), value
