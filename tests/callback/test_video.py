"""Videos of tests while a run trains: which tests, for which loggers, and nothing else changes."""

import errno
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.callback import SaveSnapshots
from rltrain.callback.video import RecordVideo
from rltrain.common.failures import Disk
from rltrain.env.games.matrix import TwoStepGames
from rltrain.logger.loggers import Logger, Loggers
from rltrain.types import Clock
from rltrain.video import episode_recorder
from rltrain.video.recorder import Gif
from tests.helpers import full, nothing_written, weights
from tests.video.viewer import read_page

TINY = [
    *("env=cartpole", "total_env_steps=60", "test.interval=20", "test.episodes=2"),
    *("log.interval=20", "algo.learning_starts=8", "algo.batch_size=4", "hardware.n_envs=1"),
    *("hardware.threads=1", "logger=[]"),
]


def trained(folder, *overrides, start=TINY):
    trainer = rltrain.make_trainer([*start, *overrides], run_dir=folder)
    trainer.train()
    trainer.close()
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [
        {k: v for k, v in json.loads(line).items() if k != "seconds" and "time/" not in k}
        for line in lines
    ]
    return rows, weights(trainer)


@pytest.mark.slow
def test_videos_are_made_at_their_interval_and_change_nothing(tmp_path, no_ffmpeg):
    rows, parameters = trained(tmp_path / "with", "test.video_interval=30")
    assert sorted(p.name for p in (tmp_path / "with/recordings").iterdir()) == ["0", "40", "60"]
    assert (tmp_path / "with/recordings/40/episode-000.gif").stat().st_size > 500
    expected, untouched = trained(tmp_path / "without")
    assert not (tmp_path / "without/recordings").exists()
    assert rows == expected
    assert torch.equal(parameters, untouched)


@pytest.mark.parametrize("record", ["video", "html"])
def test_a_run_goes_on_without_videos_that_do_not_fit(tmp_path, monkeypatch, no_ffmpeg, record):
    def half(gif, path):
        path.write_bytes(b"GIF")
        full()

    monkeypatch.setattr(Gif, "write", half)
    monkeypatch.setattr(episode_recorder, "put_text", full)
    trained(tmp_path / "run", "test.video_interval=30", f"test.record={record}")
    assert not [path for path in (tmp_path / "run/recordings").rglob("*") if path.is_file()]
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert (record["status"], record["degraded"]) == ("finished", True)


class Seen(Logger):
    def __init__(self):
        self.videos = []

    def video(self, clock, path):
        self.videos.append((clock.env_steps, path.name))


class Run:
    """As much of a trainer as the callback uses."""

    def __init__(self, run_dir):
        self.clock, self.run_dir, self.tests = Clock(), run_dir, SimpleNamespace(clock=Clock())
        self.disk, self.test_rollout = Disk(), SimpleNamespace(env=TwoStepGames(n_envs=1))


def test_a_test_is_not_recorded_on_a_disk_that_is_gone(tmp_path, monkeypatch):
    def gone(*args, **kwargs):
        raise OSError(errno.ESTALE, "Stale file handle")

    run = Run(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", gone)
        patched.setattr(Path, "stat", gone)
        RecordVideo(interval=100, loggers=Loggers([])).on_test_start(run)
    assert (run.tests.recorder, run.disk.degraded) == (None, True)


def test_an_interrupted_test_is_recorded_again(tmp_path):
    seen = Seen()
    callback = RecordVideo(interval=100, loggers=Loggers([seen]))
    run = Run(tmp_path)
    callback.on_test_start(run)  # and no end
    resumed = RecordVideo(interval=100, loggers=Loggers([seen]))
    resumed.load_state_dict(callback.state_dict())
    resumed.on_test_start(run)
    run.tests.recorder.files[0] = [tmp_path / "episode-000.gif", tmp_path / "episode-000.mp4"]
    resumed.on_test_end(run, {})
    assert seen.videos == [(0, "episode-000.gif")]
    resumed.on_test_start(run)
    assert run.tests.recorder is None, "the next one is due at 100"


def test_a_deleted_run_folder_is_not_made_again(tmp_path):
    """Defect: the run then went on in a folder that nothing could resume."""
    callback = RecordVideo(interval=1, loggers=Loggers([]))
    run, image = Run(tmp_path / "deleted"), np.zeros((4, 4, 3), np.uint8)
    callback.on_test_start(run)
    assert run.tests.recorder is None
    (tmp_path / "deleted").mkdir()
    callback.on_test_start(run)
    shutil.rmtree(tmp_path / "deleted")
    with pytest.raises(FileNotFoundError):
        run.tests.recorder._write(0, Gif(image), image)
    with pytest.raises(FileNotFoundError):
        SaveSnapshots(interval=1, pool_size=1).write(run, run.run_dir / "pool")
    assert not (tmp_path / "deleted").exists()


def test_an_environment_without_pictures_is_refused(command, small, tmp_path):
    with pytest.raises(rltrain.errors.UsageError, match=r"video_interval=50: env 'two_step'"):
        command(*small, "test.video_interval=50")
    assert nothing_written(tmp_path)


HUNT = (
    *("algo=vdn", "env=stag_hunt", "env.max_episode_steps=9", "algo.batch_size=4"),
    *("test.n_envs=2", "test.episodes=2", "test.interval=20", "test.record=html"),
    *("hardware.n_envs=1", "hardware.threads=1", "logger=[]", "total_env_steps=60"),
)


def test_pages_of_tests_hold_the_first_episode_and_values_of_the_team(tmp_path):
    trained(tmp_path, "test.video_interval=30", start=HUNT)
    pages = sorted((tmp_path / "recordings").iterdir())
    assert [page.name for page in pages] == [f"episodes-{n}.html" for n in (1, 2, 3)]
    page = read_page(pages[-1].read_text())
    (episode,) = page["episodes"]
    assert page["title"].startswith("vdn on stag_hunt, seed 0, env step ")
    q, action = episode["arrays"]["q"], episode["arrays"]["action"].astype(int)
    chosen = np.take_along_axis(q, action[..., None], -1)[..., 0]
    assert np.abs(episode["arrays"]["q_tot"] - chosen.sum(-1)).max() < 1e-2


def test_a_page_of_what_cannot_be_drawn_is_refused(command, small, tmp_path):
    with pytest.raises(rltrain.errors.UsageError, match=r"test.record=html: env 'two_step' does"):
        command(*small, "test.video_interval=50", "test.record=html")
    with pytest.raises(rltrain.errors.UsageError, match=r"Type test.video_interval=100_000"):
        command(*small, "test.record=html")
    with pytest.raises(rltrain.errors.UsageError, match=r"record=film: expected .*html"):
        command(*small, "mode=evaluate", "record=film")
    assert nothing_written(tmp_path)
