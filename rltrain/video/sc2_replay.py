"""``.SC2Replay`` files of test episodes that were played in StarCraft II, to watch in the game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rltrain.common.failures import Disk
from rltrain.interfaces import VectorEnv, Watch
from rltrain.types import Episode


@dataclass
class GameReplays(Watch):
    """Has the game write a file when an episode is over, before the next one begins.

    ``files`` names them, by episode, none where they cannot be written; ``remarks`` says
    what the user should know about them.
    """

    folder: Path
    n_episodes: int  # episodes from this number on are not saved
    files: dict[int, list[Path]] = field(default_factory=dict)
    remarks: list[str] = field(
        default_factory=lambda: [
            "A .SC2Replay holds all episodes since its game was launched, the named one last."
        ]
    )
    disk: Disk = field(default_factory=Disk)

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Save the replays of episodes that end at the current time step."""
        for e in finished:
            if numbers[e] < self.n_episodes:
                self.files[numbers[e]] = []
                self.disk.attempt("a replay of the game", partial(self._save, env, e, numbers[e]))

    def _save(self, game: Any, e: int, number: int) -> None:
        """Save the replay of an episode, of a ``game`` with the method ``save_replay``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = game.save_replay(e, str(self.folder.absolute()), f"episode-{number:03d}")
        self.files[number] = [Path(path) for path in paths]
