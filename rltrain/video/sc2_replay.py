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

    ``files`` names them, by episode, none where ``disk`` has no folder for them; ``remarks`` says
    what a person should know about them.
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
        game: Any = env  # with the method ``save_replay``
        for e in finished:
            number = numbers[e]
            if number < self.n_episodes:
                self.files[number] = []
                make = partial(self.folder.mkdir, parents=True, exist_ok=True)
                if self.disk.attempt("a replay of the game", make):
                    folder = str(self.folder.absolute())
                    paths = game.save_replay(e, folder, f"episode-{number:03d}")
                    self.files[number] = [Path(path) for path in paths]
