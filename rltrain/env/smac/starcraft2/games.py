"""``Games``: E games of StarCraft II with the interface of ``Battles``, each in its own process.

A game that crashes or hangs is launched again; its episode is marked lost and restarts, so that a
crash never looks like a defeat.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from rltrain.battles.engine.battles import IllegalAction, check_shape
from rltrain.common.machine.child_processes import EXIT_TIMEOUT, kill_group, without_main
from rltrain.env.smac.starcraft2.worker import GameStep, Recipe, play
from rltrain.errors import EnvError
from rltrain.types import EnvSpec, Info, StateDict

log = logging.getLogger("rltrain")
HOUR = 3600.0
IMPORT_TIMEOUT = 300.0
"""Seconds that a worker may take to import the package; the game is launched later, by reset."""
SEED_BITS = 31  # the game's seed is a signed 32-bit number


class Games:
    """Arrays obs [E, A, O], avail [E, A, n_actions], state [E, S], reward [E] hold the current step
    of E games; ``lost`` [E] marks episodes restarted in the last step.

    Args:
        recipe: the environment that every worker makes.
        spec: the sizes that the game must have.
        max_restarts: crashes within an hour, over all environments, before giving up.
        timeout_s: maximum seconds of a reset or a step.
        about: the package and the version of the game, for records.
    """

    exact = False  # state_dict has no running battles

    def __init__(
        self,
        *,
        recipe: Recipe,
        spec: EnvSpec,
        n_envs: int,
        max_restarts: int,
        timeout_s: float,
        about: Mapping[str, str],
    ) -> None:
        self.recipe, self.spec, self.n_envs = recipe, spec, n_envs
        self.max_restarts, self.timeout_s, self.about = max_restarts, timeout_s, about
        agents, actions = spec.n_agents, spec.n_actions
        self.obs = np.zeros((n_envs, agents, *spec.obs_shape), np.float32)
        self.avail = np.zeros((n_envs, agents, actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.reward = np.zeros(n_envs)
        self.ended = np.zeros(n_envs, np.bool_)
        self.timeout = np.zeros(n_envs, np.bool_)
        self.lost = np.zeros(n_envs, np.bool_)
        self.restarts = np.zeros(n_envs, np.int64)
        self._info: list[Mapping[str, Any]] = [{} for _ in range(n_envs)]
        self._seed = [0] * n_envs  # of each environment's episode
        self._crashes: list[float] = []  # times, within the last hour
        self._games: dict[int, GameProcess] = {}  # launched at the first reset
        weakref.finalize(self, _kill_all, self._games)

    def start(self, seeds: Mapping[int, int]) -> None:
        """Begin an episode in the environments e of ``seeds``. A new game gets its seed;
        a running game continues its random stream.
        """
        cores = os.cpu_count() or 1
        if not self._games and self.n_envs > cores:
            log.warning(
                "launching %d games of StarCraft II on %d cores; fewer environments start sooner "
                "and need less memory (hardware.n_envs, test.n_envs)",
                self.n_envs,
                cores,
            )
        self.lost[:] = False
        self._begin(seeds)

    def step(
        self,
        action: np.ndarray,
        restarts: Mapping[int, int] | None = None,
        other_action: np.ndarray | None = None,
    ) -> None:
        """One env step with action [E, A]; environments in ``restarts`` (e to seed) begin an
        episode instead. The game commands the other side.

        Raises:
            IllegalAction: an action is not available; nothing was changed.
            EnvError: more crashes than ``max_restarts`` within an hour.
        """
        begin = dict(restarts or {})
        playing = [e for e in range(self.n_envs) if e not in begin and not self.ended[e]]
        check_shape(action, self.avail)
        for e in playing:
            for agent, chosen in enumerate(action[e].tolist()):
                legal = np.flatnonzero(self.avail[e, agent]).tolist()
                if chosen not in legal:
                    raise IllegalAction.of(e, agent, chosen, legal)
        self.lost[:], self.reward[:] = False, 0.0
        frames, crashes = self._ask({e: ("step", action[e].tolist()) for e in playing})
        for e, frame in frames.items():
            self._show(e, frame)
        for e, crash in crashes.items():
            self._drop(e, crash)
            self.lost[e], begin[e] = True, self._seed[e]
        self._begin(begin)

    def results(self, envs: Sequence[int]) -> list[Info]:
        """Results of these episodes so far: won, dead allies and enemies, timed out; and restarts
        of the environment's game."""
        return [
            {
                "win": bool(info.get("battle_won", False)),
                "dead_allies": int(info.get("dead_allies", 0)),
                "dead_enemies": int(info.get("dead_enemies", 0)),
                "timeout": bool(self.timeout[e]),
                "restarts": restarts,
                **({"metrics": {"restarts": restarts}} if restarts else {}),
            }
            for e, info, restarts in ((e, self._info[e], int(self.restarts[e])) for e in envs)
        ]

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of SMAC's environment in every game; ``get_stats`` counts the restarts."""
        return [self.call_one(e, method, *args) for e in range(self.n_envs)]

    def call_one(self, e: int, method: str, *args: object) -> Any:
        """Call a method of SMAC's environment in game e.

        Raises:
            RuntimeError: no game runs yet, or it failed.
        """
        if e not in self._games:
            raise RuntimeError(f"{method}: no game runs before the first reset")
        answers, crashes = self._ask({e: (method, *args)})
        for crash in crashes.values():
            raise RuntimeError(f"{method} failed in environment {e}: {crash}")
        if method == "get_stats":
            answers[e]["restarts"] += int(self.restarts[e])
        return answers[e]

    def render(self, envs: Sequence[int]) -> NoReturn:
        """Refuse: StarCraft II draws its own window."""
        raise RuntimeError("render: the game is drawn by itself; record its .SC2Replay files")

    def save_replay(self, e: int, folder: str, prefix: str) -> list[str]:
        """Make game e write ``<prefix>_<date>.SC2Replay`` to a folder and return its path. OSError
        if it fails.
        """
        try:
            return list(self.call_one(e, "save_replay", folder, prefix))
        except RuntimeError as error:
            raise OSError(str(error)) from error

    def scripted(self, name: str) -> NoReturn:
        """Refuse: scripted policies need the state of the built-in engine."""
        raise ValueError(
            "scripted policies read the built-in engine's battles: type "
            "env.backend=native, or algo.policy=random."
        )

    def state_dict(self) -> StateDict:
        """A marker: a running game cannot be saved."""
        return {"exact": False}

    def resume(self, state: StateDict, seeds: Mapping[int, int]) -> None:
        """Launch the games again with the seeds of these episodes."""
        self.close()
        self.start(seeds)

    def close(self) -> None:
        """End every game."""
        for game in self._games.values():
            game.connection.close()
        until = time.monotonic() + EXIT_TIMEOUT
        for game in self._games.values():
            game.process.join(max(0.0, until - time.monotonic()))
        _kill_all(self._games)

    def _begin(self, seeds: Mapping[int, int]) -> None:
        """Begin an episode in each environment, launching missing games."""
        at_once = max(1, os.cpu_count() or 1)  # a launch keeps a core busy for a while
        envs = sorted(seeds)
        for i in range(0, len(envs), at_once):
            waiting = envs[i : i + at_once]
            while waiting:
                self._launch([(e, seeds[e]) for e in waiting if e not in self._games])
                ready = {e: ("reset",) for e in waiting if e in self._games}
                frames, crashes = self._ask(ready)
                for e, frame in frames.items():
                    self._seed[e] = seeds[e]
                    self._show(e, frame)
                    waiting.remove(e)
                for e, crash in crashes.items():
                    self._drop(e, crash)

    def _launch(self, envs: list[tuple[int, int]]) -> None:
        """Start a process per (e, seed).

        Raises:
            EnvError: the package fails to make the environment, or its sizes differ.
        """
        for e, seed in envs:
            self._games[e] = GameProcess(self.recipe, seed % (1 << SEED_BITS))
        until = time.monotonic() + IMPORT_TIMEOUT
        for e, _ in envs:
            try:
                kind, value = self._games[e].receive(until)
            except Crash as crash:
                self._drop(e, crash)
                continue
            if kind == "broken":
                self.close()
                raise EnvError(
                    f"The {self.recipe.package} package cannot make its environment: {value}. "
                    "Type rltrain mode=doctor to see what is missing, or env.backend=native to "
                    "play on the built-in engine."
                )
            self._check_sizes(value)

    def _check_sizes(self, info: Info) -> None:
        spec = self.spec
        given = tuple(int(info[k]) for k in ("n_agents", "n_actions", "obs_shape", "state_shape"))
        expected = (spec.n_agents, spec.n_actions, *spec.obs_shape, spec.state_dim)
        if given != expected:
            self.close()
            raise EnvError(
                f"The installed {self.recipe.package} package has different sizes than its "
                f"reference: expected agents, actions, observation, state {expected}, got {given}. "
                "Install the package's newest version, or type env.backend=native."
            )

    def _ask(
        self, messages: Mapping[int, tuple[object, ...]]
    ) -> tuple[dict[int, Any], dict[int, Crash]]:
        """Send each game its message and wait; returns answers and crashes by environment."""
        answers: dict[int, Any] = {}
        crashes: dict[int, Crash] = {}
        for e, message in messages.items():
            try:
                self._games[e].send(*message)
            except Crash as crash:
                crashes[e] = crash
        until = time.monotonic() + self.timeout_s
        for e in [e for e in messages if e not in crashes]:
            try:
                _, answers[e] = self._games[e].receive(until)
            except Crash as crash:
                crashes[e] = crash
        return answers, crashes

    def _show(self, e: int, frame: GameStep) -> None:
        self.obs[e], self.avail[e], self.state[e] = frame.obs, frame.avail, frame.state
        self.reward[e], self.ended[e] = frame.reward, frame.terminated
        self.timeout[e] = frame.terminated and bool(frame.info.get("episode_limit", False))
        self._info[e] = frame.info

    def _drop(self, e: int, why: Crash) -> None:
        """End a crashed game and count it; the next episode launches it again.

        Raises:
            EnvError: more than ``max_restarts`` crashes.
        """
        self._games.pop(e).kill()
        self.restarts[e] += 1
        now = time.monotonic()
        self._crashes = [then for then in self._crashes if now - then < HOUR] + [now]
        if len(self._crashes) > self.max_restarts:
            self.close()
            raise EnvError(
                f"StarCraft II crashed {len(self._crashes)} times within an hour, more than "
                f"env.max_restarts={self.max_restarts} allows; the last time in environment {e}: "
                f"{why}. Fewer environments need less memory (hardware.n_envs, test.n_envs); "
                "env.backend=native plays on the built-in engine."
            )
        level = logging.WARNING if self.restarts.sum() == 1 else logging.INFO
        log.log(
            level,
            "the game of environment %d crashed (%s) and is launched again; its open episode is "
            "forgotten, not counted as a defeat (restart %d; later ones are in train.log only)",
            *(e, why, self.restarts.sum()),
        )


def _kill_all(games: dict[int, GameProcess]) -> None:
    while games:
        games.popitem()[1].kill()


class Crash(Exception):
    """A game crashed, hung or ended; the message is the reason."""


class GameProcess:
    """A worker process and the connection to it."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        context = get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=play, args=(theirs, recipe, seed), daemon=True)
        with without_main():
            self.process.start()
        theirs.close()

    def send(self, *message: object) -> None:
        """Raises Crash if the worker is gone."""
        try:
            self.connection.send(message)
        except OSError as error:
            raise Crash("its process died") from error

    def receive(self, until: float) -> tuple[str, Any]:
        """The next answer, before the monotonic time ``until``. Raises Crash, also if a call
        failed."""
        try:
            if not self.connection.poll(max(0.0, until - time.monotonic())):
                raise Crash("it did not answer in time")
            kind, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise Crash("its process died") from error
        if kind in ("crash", "error"):
            raise Crash(value)
        return kind, value

    def kill(self) -> None:
        """End the worker and the game it launched, which is in the same process group."""
        self.connection.close()
        kill_group(self.process)
