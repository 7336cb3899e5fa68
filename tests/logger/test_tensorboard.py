"""TensorBoard events, with the names of metrics.jsonl."""

import importlib.util

import pytest

from rltrain.errors import UsageError
from rltrain.logger.loggers import Loggers
from rltrain.logger.tensorboard import TensorBoard
from rltrain.types import Clock
from tests.helpers import no_room


def made(folder, **config):
    """The logger of a run."""
    pytest.importorskip("tensorboardX")
    return TensorBoard(run_dir=folder, config=config)


def add(logger, value, *steps):
    """Rows with one metric."""
    for step in steps:
        logger.write(Clock(step), 0.5, {"a": value})


def events(folder):
    """The files of a run as TensorBoard itself reads them."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reader.EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return found


def scalars(folder, name):
    """Env steps and values of one metric."""
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


@pytest.mark.slow
def test_metrics_keep_their_names_over_env_steps(tmp_path):
    logger = made(tmp_path, seed=1)
    logger.write(Clock(10, 2, 1), 0.5, {"test/return_mean": 1.5, "learn/loss": float("nan")})
    logger.write(Clock(20, 4, 2), 1.5, {"test/return_mean": 2.5})
    logger.close()
    assert scalars(tmp_path, "test/return_mean") == [(10, 1.5), (20, 2.5)]
    assert scalars(tmp_path, "updates") == [(10, 1.0), (20, 2.0)]
    tags = events(tmp_path).Tags()
    assert "learn/loss" not in tags["scalars"]
    assert tags["tensors"] == ["config/text_summary"]


def test_a_resumed_run_replaces_what_came_after_its_checkpoint(tmp_path):
    for steps in ((10, 20, 30), (20, 40)):
        logger = made(tmp_path)
        add(logger, float(len(steps)), *steps)
        logger.close()
    assert scalars(tmp_path, "a") == [(10, 3.0), (20, 2.0), (40, 2.0)]


def test_nothing_stays_of_what_a_run_abandoned(tmp_path):
    """Defect: rows between the checkpoint and the first row after the resume stayed."""
    abandoned = made(tmp_path)
    add(abandoned, 1.0, 10)
    state = abandoned.state_dict()
    add(abandoned, 1.0, 11, 12, 13)
    abandoned.close()
    resumed = made(tmp_path)
    resumed.load_state_dict(state)
    add(resumed, 2.0, 20)
    resumed.close()
    assert scalars(tmp_path, "a") == [(10, 1.0), (20, 2.0)]


def test_rows_keep_any_name_and_are_there_before_the_run_ends(tmp_path):
    """Defect: those of the last two minutes were lost where a run was killed after a checkpoint."""
    logger = made(tmp_path)
    logger.write(Clock(10), 0.5, {"test/win_rate/3m vs. 8m": 0.5})
    Loggers([logger]).state_dict()
    assert scalars(tmp_path, "test/win_rate/3m vs. 8m") == [(10, 0.5)]


def test_rows_for_which_the_disk_had_no_room_are_left_out(tmp_path):
    """Defect: the run waited forever."""
    logger = made(tmp_path)
    add(logger, 1.0, 10)
    for step in (20, 30):
        with no_room(logger.path.stat().st_size + 9):
            add(logger, 1.0, step)
    add(logger, 1.0, 40)
    assert scalars(tmp_path, "a") == [(10, 1.0), (40, 1.0)]


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_a_package_that_is_missing_is_named_before_anything_is_written(
    command, small, own_folder, monkeypatch, name
):
    found = importlib.util.find_spec
    missing = {"tensorboard": "tensorboardX"}.get(name, name)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda module, *a: None if module == missing else found(module)
    )
    others = [word for word in small if not word.startswith("logger.wandb")]
    with pytest.raises(UsageError, match=rf"logger=\[{name}\] needs {missing}.*pip install"):
        command(*others, f"logger=[{name}]")
    assert not list(own_folder.iterdir())


def test_a_video_is_an_animated_image(tmp_path):
    gif = tmp_path / "a.gif"
    gif.write_bytes(b"GIF89a" + bytes([30, 0, 20, 0]) + bytes(20))
    logger = made(tmp_path)
    logger.video(Clock(40), gif)
    logger.close()
    (image,) = events(tmp_path).Images("test/video")
    assert (image.step, image.width, image.height) == (40, 30, 20)
    assert image.encoded_image_string == gif.read_bytes()
