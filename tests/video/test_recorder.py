"""Videos of episodes: which episodes, which files, and what cannot be recorded."""

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from rltrain.env.games.matrix import MatrixGames, TwoStepGames
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import UsageError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock
from rltrain.video.ffmpeg import find_ffmpeg
from rltrain.video.gif import Gif
from rltrain.video.recorder import HOLD, Recorder, require_drawable
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
