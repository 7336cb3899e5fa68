"""Videos of episodes: which episodes, which files, what cannot be recorded; and their GIFs."""

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from rltrain.env.games.matrix import MatrixGames, TwoStepGames
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError, UsageError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock
from rltrain.video.ffmpeg import find_ffmpeg
from rltrain.video.recorder import HOLD, Gif, Recorder, require_drawable
from tests.env.games.two_step import TwoStep
from tests.env.scripted import Zeros


class Drawn(TwoStep):
    """Two steps; one image at the first step, three after each step."""

    frames_per_second = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.n_drawn = 0

    def render(self) -> np.ndarray | list[np.ndarray]:
        self.n_drawn += 1
        image = np.full((21, 31, 3), 80 * self._state % 256, np.uint8)
        return image if self._state == self.FIRST else [image // 3, image // 2, image]


def rollout(n_envs: int) -> Rollout:
    env = SyncVectorEnv(make=Drawn, n_envs=n_envs)
    return Rollout(env=env, policy=Zeros())


@pytest.fixture
def recorded(no_ffmpeg, tmp_path):
    recorder = Recorder(tmp_path / "videos", 3)
    rollout(2).run_episodes(3, 0, Clock(), [recorder])
    return recorder


def test_every_episode_has_a_video_and_two_frames(recorded):
    assert sorted(recorded.files) == [0, 1, 2]
    names = ["episode-001.gif", "episode-001-first.png", "episode-001-last.png"]
    assert [path.name for path in recorded.files[1]] == names
    assert len(list(recorded.folder.iterdir())) == 9


def test_video_has_every_image_and_holds_the_last(recorded):
    video = Image.open(recorded.files[0][0])
    assert (video.n_frames, video.size, video.info["duration"]) == (1 + 3 + 3, (31, 21), 100)
    video.seek(6)
    assert video.info["duration"] == HOLD * 1000


def test_frames_are_the_first_and_the_last(recorded):
    first, last = (np.asarray(Image.open(path)) for path in recorded.files[2][1:])
    assert (first[0, 0].tolist(), last[0, 0].tolist()) == ([0, 0, 0], [240, 240, 240])


def test_only_the_first_n_episodes_are_drawn(no_ffmpeg, tmp_path):
    played = rollout(4)
    played.run_episodes(2, 0, Clock(), [Recorder(tmp_path / "videos", 2)])
    assert [copy.n_drawn for copy in played.env.envs] == [3, 3, 0, 0]


def test_recording_does_not_change_episodes(no_ffmpeg, tmp_path):
    watched = rollout(2).run_episodes(5, 0, Clock(), [Recorder(tmp_path / "videos", 5)])
    assert watched == rollout(2).run_episodes(5, 0, Clock())


def test_without_ffmpeg_no_mp4_is_written_and_a_remark_is_kept(recorded):
    (remark,) = recorded.remarks
    assert remark.startswith("No MP4 was written: there is no ffmpeg. Type ")
    assert "-m pip install 'imageio-ffmpeg>=" in remark


def test_ffmpeg_of_imageio_is_found(monkeypatch, tmp_path):
    fake_ffmpeg(tmp_path / "bin", "exit 1")
    own = SimpleNamespace(get_ffmpeg_exe=lambda: str(tmp_path / "bin/ffmpeg"))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", own)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert find_ffmpeg() == str(tmp_path / "bin/ffmpeg")


def fake_ffmpeg(folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "ffmpeg").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ffmpeg").chmod(0o755)


def test_with_ffmpeg_an_mp4_is_written_too(monkeypatch, tmp_path):
    fake_ffmpeg(tmp_path / "bin", 'for last; do :; done\necho "$@" > "$last"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    recorder = Recorder(tmp_path / "videos", 1)
    rollout(1).run_episodes(1, 0, Clock(), [recorder])
    gif, mp4 = recorder.files[0][:2]
    assert mp4 == tmp_path / "videos" / "episode-000.mp4"
    assert f"-i {gif}" in mp4.read_text()
    assert recorder.remarks == []


def test_failing_ffmpeg_leaves_the_gif(monkeypatch, tmp_path):
    fake_ffmpeg(tmp_path / "bin", "echo no such encoder >&2\nexit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    recorder = Recorder(tmp_path / "videos", 2)
    rollout(2).run_episodes(2, 0, Clock(), [recorder])
    assert recorder.remarks == ["No MP4 was written: ffmpeg failed (no such encoder)."]
    assert len(list(recorder.folder.iterdir())) == 6


def test_env_that_cannot_be_drawn_is_refused():
    with pytest.raises(UsageError, match="env 'two_step' cannot be drawn"):
        require_drawable(TwoStepGames(n_envs=1), "two_step")
    with pytest.raises(UsageError, match="Type record=false"):
        require_drawable(MatrixGames(game="climbing", length=1, n_envs=1), "matrix")
    require_drawable(SyncVectorEnv(make=Drawn, n_envs=1), "drawn")
    for name in ("own", "gymnasium", "pettingzoo"):
        with pytest.raises(UsageError, match="a custom one takes a keyword render_mode"):
            require_drawable(TwoStepGames(n_envs=1), name)


@pytest.mark.parametrize("nth", range(3))
def test_of_a_video_that_does_not_fit_nothing_is_left_and_the_others_are_written(
    tmp_path, no_ffmpeg, monkeypatch, nth
):
    numbers, save, write = itertools.count(), Image.Image.save, Gif.write

    def failing(writer, image, path, **options):
        if next(numbers) == nth:
            Path(path).write_bytes(b"x")
            raise OSError(28, "No space left on device")
        writer(image, path, **options)

    monkeypatch.setattr(Image.Image, "save", lambda *a, **k: failing(save, *a, **k))
    monkeypatch.setattr(Gif, "write", lambda *a, **k: failing(write, *a, **k))
    recorder = Recorder(tmp_path / "videos", 3)
    rollout(1).run_episodes(3, 0, Clock(), [recorder])
    assert [len(recorder.files[number]) for number in range(3)] == [0, 3, 3]
    assert {*recorder.folder.iterdir()} == {*recorder.files[1], *recorder.files[2]}


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
