"""GIFs written frame by frame, read back by Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rltrain.video.gif import Gif


def field(x: int, y: int) -> np.ndarray:
    """A gray image [20, 30, 3] with a red pixel."""
    image = np.full((20, 30, 3), 60, np.uint8)
    image[y, x] = (250, 60, 40)
    return image


def written(frames: list[np.ndarray], path: Path, seconds: float = 0.08) -> Image.Image:
    gif = Gif(frames[0])
    for frame in frames:
        gif.add(frame, seconds)
    gif.write(path)
    return Image.open(path)


def test_frames_with_the_first_ones_colors_are_stored_exactly(tmp_path):
    frames = [field(3, 4), field(25, 4), field(25, 18)]
    video = written(frames, tmp_path / "a.gif")
    assert (video.n_frames, video.size) == (3, (30, 20))
    for k, frame in enumerate(frames):
        video.seek(k)
        np.testing.assert_array_equal(np.asarray(video.convert("RGB")), frame)


def test_unchanged_frame_keeps_its_duration(tmp_path):
    video = written([field(3, 4)] * 3, tmp_path / "a.gif", seconds=0.5)
    durations = []
    for k in range(video.n_frames):
        video.seek(k)
        durations.append(video.info["duration"])
    assert durations == [500, 500, 500]


def test_new_colors_are_approximated(tmp_path):
    later = field(3, 4)
    later[0, :] = np.random.default_rng(0).integers(0, 256, (30, 3))
    video = written([field(3, 4), later], tmp_path / "a.gif")
    video.seek(1)
    error = np.asarray(video.convert("RGB")).astype(int) - later
    assert np.abs(error).max() <= 48  # half a step of the cube of colors, and some rounding


def test_video_repeats_for_ever(tmp_path):
    assert written([field(1, 1), field(2, 2)], tmp_path / "a.gif").info["loop"] == 0


def test_frame_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"\(20, 29, 3\): expected \(20, 30, 3\)"):
        Gif(field(1, 1)).add(field(1, 1)[:, :29], 0.1)


def test_palette_of_many_colors_has_256():
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    gif = Gif(noise)
    assert len(gif._palette.getpalette()) == 768
