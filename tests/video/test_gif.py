"""GIFs written frame by frame, read back by Pillow."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rltrain.errors import EnvError
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
    with pytest.raises(EnvError, match=r"\(20, 29, 3\): expected \(20, 30, 3\)"):
        Gif(field(1, 1)).add(field(1, 1)[:, :29], 0.1)


def test_transparency_is_no_color_of_an_image(tmp_path):
    rng = np.random.default_rng(0)
    first, later = (rng.integers(0, 256, (60, 80, 3), np.uint8) for _ in range(2))
    later[:8] = 0  # black, which unused entries of a palette are
    later[30:] = first[30:]
    video = written([first, later], tmp_path / "a.gif")
    video.seek(1)
    shown = np.asarray(video.convert("RGB")).astype(int)
    assert np.abs(shown - later).max() <= 48  # none is transparent, where ``first`` would show


RAMP = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (8, 1, 3))


@pytest.mark.parametrize(
    ("later", "error"),
    [(RAMP, 8), (RAMP[:, ::2], 0), (np.stack([RAMP[..., 0], *[RAMP[..., 1] // 2] * 2], -1), 8)],
    ids=["grays", "few", "tinted"],
)
def test_colors_that_the_first_frame_lacks_are_kept(later, error, tmp_path):
    """Defect: after a black first frame, a ramp of grays had five levels."""
    video = written([np.zeros_like(later), later, later], tmp_path / "a.gif")
    video.seek(1)
    shown = np.asarray(video.convert("RGB")).astype(int)
    assert np.abs(shown - later).max() <= error


def test_unchanged_pixels_take_no_room(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    later = noise.copy()
    later[0, 0] = later[-1, -1] = 255 - noise[0, 0]  # the changed rectangle is the whole image
    written([noise], tmp_path / "one.gif")
    video = written([noise, later], tmp_path / "two.gif")
    sizes = [(tmp_path / name).stat().st_size for name in ("one.gif", "two.gif")]
    assert sizes[1] - sizes[0] < 300
    video.seek(1)
    shown = np.asarray(video.convert("RGB")).astype(int)
    assert np.abs(shown[0, 0] - later[0, 0]).max() <= 48
    video.seek(0)
    np.testing.assert_array_equal(
        shown[1:-1], np.asarray(video.convert("RGB"))[1:-1], "the rest is as it was"
    )
