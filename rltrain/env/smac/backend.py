"""Backends of ``SmacVectorEnv``: the built-in engine or StarCraft II."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rltrain.battles.native import NativeBattles
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.installation import Backend, about_game, choose_backend
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.interfaces import DecisionFunction
from rltrain.types import EnvSpec, Info, StateDict


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """The backend and its options. ``auto`` is StarCraft II if it is installed, except for
    ``scripted`` policies, which need the built-in engine."""

    backend: Backend = "native"
    scripted: Flag = False
    n_threads: Count = 1  # native
    max_restarts: Count = 20  # sc2: crashes within an hour, over all environments
    game_timeout: Positive = 300.0  # sc2: seconds that a game may take for a reset or a step


class BattleBackend(Protocol):
    """E battles in parallel. The arrays hold the current time step."""

    n_envs: int
    obs: np.ndarray  # [E, A, O] float32
    avail: np.ndarray  # [E, A, n_actions] uint8
    state: np.ndarray  # [E, S] float32
    reward: np.ndarray  # [E]
    lost: np.ndarray  # [E] bool: the last step had to restart this episode
    exact: bool  # whether state_dict includes running battles, not only the next episodes
    about: Mapping[str, str]  # for records

    @property
    def ended(self) -> np.ndarray:
        """bool [E]."""

    @property
    def timeout(self) -> np.ndarray:
        """bool [E]: ended by the time limit only."""

    def start(self, seeds: Mapping[int, int]) -> None:
        """Begin the first episode of every environment e of ``seeds``, from scratch."""

    def step(
        self,
        action: np.ndarray,
        restarts: Mapping[int, int] | None = None,
        other_action: np.ndarray | None = None,
    ) -> None:
        """One env step with action [E, A]; environments in ``restarts`` (e to seed) begin an
        episode instead. ``other_action`` is that of the other side of native battles. Raises
        IllegalAction.
        """

    def results(self, envs: Sequence[int]) -> list[Info]:
        """Results of these battles so far: won, dead allies and enemies, timed out."""

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of ``BattleView`` (``get_state_dict``, ``get_unit_by_id``, …), or of SMAC's
        environment in the game, on every battle.
        """

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images [H, W, 3] of these battles since they were last rendered."""

    def save_replay(self, e: int, folder: str, prefix: str) -> list[str]:
        """Make the game write ``<prefix>_<date>.SC2Replay`` to a folder: all episodes of the
        environment since its game was launched, the current one last. Returns the file's path.
        """

    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy. Raises ValueError for an unknown name, or
        battles in StarCraft II itself.
        """

    def state_dict(self) -> StateDict: ...

    def resume(self, state: StateDict, seed_of: Callable[[int], int]) -> None:
        """Continue where ``state_dict`` was taken, or, if it is not ``exact``, begin the episodes
        with the seeds ``seed_of(e)``.
        """

    def close(self) -> None: ...


def open_battles(
    play: BackendOptions,
    native: Callable[..., NativeBattles],
    *,
    n_envs: int,
    spec: EnvSpec,
    recipe: Recipe,
    map_file: str,
) -> BattleBackend:
    """Battles on the backend selected by ``play``; ``start`` begins their first episodes.

    Args:
        native: makes battles on the built-in engine, given ``n_envs`` and ``n_threads``.
        recipe: the same environment in StarCraft II.
        map_file: the map's file in StarCraft II.

    Raises:
        ValueError: StarCraft II is selected, and a part of it is missing.
    """
    package = recipe.package
    if choose_backend(play.backend, package, map_file, scripted=play.scripted) == "native":
        return native(n_envs=n_envs, n_threads=play.n_threads)
    return Games(
        recipe=recipe,
        spec=spec,
        n_envs=n_envs,
        max_restarts=play.max_restarts,
        timeout_s=play.game_timeout,
        about=about_game(package, recipe.options.get("game_version")),
    )
