"""Videos of test episodes: an animated GIF, an MP4 where ffmpeg is found, and the first and last
frame as PNG. Any environment that can be drawn can be recorded. Of episodes that were played in
StarCraft II, ``.SC2Replay`` files to watch in the game.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import GifImagePlugin, Image

from rltrain.common.failures import Disk
from rltrain.common.machine.torch_settings import EnvContext
from rltrain.errors import EnvError, UsageError
from rltrain.interfaces import VectorEnv, Watch
from rltrain.types import Episode
from rltrain.video.ffmpeg import write_mp4

HOLD = 2.0  # seconds that the last frame is shown
COLORS = 255  # of a palette, next to transparency


def require_drawable(
    env: VectorEnv, name: str, typed: str = "record=video", instead: str = "record=false"
) -> None:
    """UsageError, with what to type ``instead``, for an environment without pictures, unless
    StarCraft II itself plays.
    """
    if env.frames_per_second is None:
        is_own = name in ("gymnasium", "pettingzoo", "own")
        custom = (
            " (a custom one takes a keyword render_mode, and its render() returns an image "
            "[height, width, 3] for render_mode='rgb_array')"
        )
        raise UsageError(
            f"{typed}: env '{name}' cannot be drawn. Expected an environment with pictures, such "
            f"as env=smac or env=cartpole{custom if is_own else ''}. Type {instead}."
        )


def make_recorder(env: VectorEnv, folder: Path, n_episodes: int) -> Recording:
    """Return a recorder of the first episodes: of the game where it plays, else of drawn frames."""
    kind = GameReplays if env.about.get("backend") == "sc2" else Recorder
    return kind(folder, n_episodes)


@dataclass
class Recording(Watch):
    """A recorder of episodes in files.

    Attributes:
        n_episodes: episodes from this number on are not recorded.
        files: by episode, none where ``disk`` cannot write them.
        remarks: what could not be made, and what else the user should know.
    """

    folder: Path
    n_episodes: int
    files: dict[int, list[Path]] = field(default_factory=dict, kw_only=True)
    remarks: list[str] = field(default_factory=list, kw_only=True)
    disk: Disk = field(default_factory=Disk, kw_only=True)


class Gif:
    """An animated GIF, compressed frame by frame: of each only the rectangle that differs from the
    frame before, in which unchanged pixels are transparent, with its own palette. Recording takes
    little memory.

    Args:
        first: uint8 [H, W, 3], of the size of all frames.
    """

    def __init__(self, first: np.ndarray) -> None:
        self.first, self.shape = first, first.shape
        self._last = np.full(first.shape, -1, np.int16)  # nothing yet
        self._parts: list[bytes] = []

    def add(self, frame: np.ndarray, seconds: float) -> None:
        """The next frame, to be seen for so long (GIF counts hundredths).

        Raises:
            EnvError: a frame of a different size than the first.
        """
        if frame.shape != self.shape:
            raise EnvError(
                f"An image of an episode has the shape {frame.shape}: expected {self.shape}, the "
                "shape of the episode's first image."
            )
        red, green, blue = np.moveaxis(frame != self._last, -1, 0)
        differs = red | green | blue
        differs[0, 0] |= not differs.any()  # at least one pixel, for its time
        rows, columns = (np.flatnonzero(differs.any(axis)) for axis in (1, 0))
        top, left = int(rows[0]), int(columns[0])
        drawn = differs[top : rows[-1] + 1, left : columns[-1] + 1]
        new = Image.fromarray(frame[differs][None])
        few = new.getcolors(COLORS) is not None  # median cut keeps them; for many it takes long
        new = new.quantize(COLORS, Image.Quantize.MEDIANCUT if few else Image.Quantize.FASTOCTREE)
        palette = new.getpalette() or []
        clear = len(palette) // 3
        indexed = np.full(drawn.shape, clear, np.uint8)
        indexed[drawn] = np.asarray(new)[0]
        image = Image.fromarray(indexed, "P")
        image.putpalette([*palette, 0, 0, 0])
        hundredths = max(2, round(seconds * 100))  # viewers slow down what is faster
        options = {"duration": 10 * hundredths, "transparency": clear, "include_color_table": True}
        self._parts += GifImagePlugin.getdata(image, (left, top), **options)
        self._last = frame

    def write(self, path: Path) -> None:
        """Write the video, which repeats forever."""
        height, width = self.shape[:2]
        with path.open("wb") as file:
            file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0x70, 0, 0))
            file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")
            file.writelines(self._parts)
            file.write(b";")


@dataclass
class Recorder(Recording):
    """Draws the environments of a rollout at every time step and writes an episode's files when it
    is over.
    """

    show: Callable[[int, Sequence[np.ndarray]], None] | None = None  # (episode, its next images)
    _videos: dict[int, Gif] = field(default_factory=dict)  # of running episodes, by environment

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Render the current time step; ``finished`` are, by environment, the episodes that end at
        it.
        """
        assert env.frames_per_second is not None, "this environment cannot be rendered"
        recorded = [e for e, number in enumerate(numbers) if number < self.n_episodes]
        with EnvContext("render"):
            drawn = env.render(recorded)
        for e, images in zip(recorded, drawn, strict=True):
            if e not in self._videos:
                self._videos[e] = Gif(images[0])
            if self.show is not None:
                self.show(numbers[e], images)
            video, seconds = self._videos[e], 1 / env.frames_per_second
            for image in images[:-1]:
                video.add(image, seconds)
            video.add(images[-1], HOLD if e in finished else seconds)
            if e in finished:
                self.files[numbers[e]] = []
                video = self._videos.pop(e)
                with self.disk.attempt("a video"):
                    self._write(numbers[e], video, images[-1])

    def _write(self, number: int, video: Gif, last: np.ndarray) -> None:
        """Write the files of an episode, none of them if one does not fit."""
        gif = self.folder / f"episode-{number:03d}.gif"
        pictures = {
            gif.with_name(f"{gif.stem}-first.png"): video.first,
            gif.with_name(f"{gif.stem}-last.png"): last,
        }
        try:
            self.folder.mkdir(exist_ok=True)
            video.write(gif)
            for path, image in pictures.items():
                Image.fromarray(image).save(path, compress_level=3)
        except OSError:
            for path in (gif, *pictures):
                path.unlink(missing_ok=True)
            raise
        try:
            videos = [gif, write_mp4(gif)]
        except (RuntimeError, OSError) as error:
            videos, remark = [gif], f"No MP4 was written: {error}"
            self.remarks += [remark] if remark not in self.remarks else []
        self.files[number] = [*videos, *pictures]


@dataclass
class GameReplays(Recording):
    """Has the game write a file when an episode is over, before the next one begins."""

    remarks: list[str] = field(
        default_factory=lambda: [
            "A .SC2Replay holds all episodes since its game was launched, the named one last."
        ]
    )

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Save the replays of episodes that end at the current time step."""
        for e in finished:
            if numbers[e] < self.n_episodes:
                self.files[numbers[e]] = []
                with self.disk.attempt("a replay of the game"):
                    self._save(env, e, numbers[e])

    def _save(self, game: Any, e: int, number: int) -> None:
        """Save the replay of an episode, of a ``game`` with the method ``save_replay``."""
        self.folder.mkdir(exist_ok=True)
        paths = game.save_replay(e, str(self.folder.absolute()), f"episode-{number:03d}")
        self.files[number] = [Path(path) for path in paths]
