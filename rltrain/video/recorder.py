"""Films of test episodes: an animated GIF, an MP4 where ffmpeg is there, and stills of the first
and the last frame. Any environment that can be drawn can be filmed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image

from rltrain.errors import UsageError
from rltrain.interfaces import DrawnEnv, VectorEnv
from rltrain.types import Episode
from rltrain.video.gif import Gif

HOLD = 2.0  # seconds that the last frame is seen


def require_drawable(env: VectorEnv, name: str) -> None:
    """Refuse an environment without pictures.

    Raises:
        UsageError: it cannot be drawn.
    """
    if getattr(env, "frames_per_second", None) is None:
        raise UsageError(
            f"record=true: env '{name}' cannot be drawn. Expected an environment with pictures, "
            "such as env=smac or env=cartpole. Type record=false."
        )


@dataclass
class Film:
    """What is there of an episode that is not over."""

    gif: Gif
    first: np.ndarray  # [H, W, 3]


@dataclass
class Recorder:
    """Draws the copies of a rollout slot by slot and writes an episode's files when it is over.

    ``files`` names them, by episode; ``remarks`` says what could not be made.
    """

    folder: Path
    n_episodes: int  # episodes from this number on are not drawn
    files: dict[int, list[Path]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    _films: dict[int, Film] = field(default_factory=dict)

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """BattleObservation at the current slot.

        Args:
            env: a ``DrawnEnv``.
            numbers: the episode that each copy is in.
            finished: by copy, the episodes that this slot closes.
        """
        drawn = cast(DrawnEnv, env)
        copies = [copy for copy, number in enumerate(numbers) if number < self.n_episodes]
        for copy, images in zip(copies, drawn.render(copies), strict=True):
            if copy not in self._films:
                self._films[copy] = Film(Gif(images[0]), images[0])
            film, seconds = self._films[copy], 1 / drawn.frames_per_second
            for image in images[:-1]:
                film.gif.add(image, seconds)
            film.gif.add(images[-1], HOLD if copy in finished else seconds)
            if copy in finished:
                self._write(numbers[copy], self._films.pop(copy), images[-1])

    def _write(self, number: int, film: Film, last: np.ndarray) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = f"episode-{number:03d}"
        gif = self.folder / f"{stem}.gif"
        film.gif.write(gif)
        self.files[number] = [gif]
        mp4 = self._film(gif)
        if mp4 is not None:
            self.files[number].append(mp4)
        for name, image in (("first", film.first), ("last", last)):
            path = self.folder / f"{stem}-{name}.png"
            Image.fromarray(image).save(path, compress_level=3)
            self.files[number].append(path)

    def _film(self, gif: Path) -> Path | None:
        """The same film as MP4, or nothing without ffmpeg; sides become even, as codecs need."""
        ffmpeg = shutil.which("ffmpeg")
        if ffmpeg is None:
            self._remark("No MP4 was written: ffmpeg is not on the path.")
            return None
        mp4 = gif.with_suffix(".mp4")
        even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
        words = [ffmpeg, "-y", "-loglevel", "error", "-i", str(gif), "-vf", even]
        words += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", str(mp4)]
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode == 0 and mp4.exists():
            return mp4
        mp4.unlink(missing_ok=True)
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        self._remark(f"No MP4 was written: ffmpeg failed ({why}).")
        return None

    def _remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)
