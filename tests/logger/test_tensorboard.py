"""TensorBoard events, with the names of metrics.jsonl."""

import importlib.util

import pytest

from rltrain.logger.loggers import Loggers
from rltrain.logger.tensorboard import TensorBoard
from rltrain.types import Clock
from tests.helpers import no_room


def written(folder):
    """What TensorBoard itself reads: env steps and values by name."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    scalars = {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }
    return scalars, events.Tags()["tensors"]


@pytest.mark.slow
def test_metrics_keep_their_names_over_env_steps(tmp_path):
    pytest.importorskip("tensorboardX")
    logger = TensorBoard(run_dir=tmp_path, config={"seed": 1})
    logger.write(Clock(10, 2, 1), 0.5, {"test/return_mean": 1.5, "learn/loss": float("nan")})
    logger.write(Clock(20, 4, 2), 1.5, {"test/return_mean": 2.5})
    logger.close()
    scalars, tensors = written(tmp_path / "tensorboard")
    assert scalars["test/return_mean"] == [(10, 1.5), (20, 2.5)]
    assert scalars["updates"] == [(10, 1.0), (20, 2.0)]
    assert "learn/loss" not in scalars
    assert tensors == ["config/text_summary"]


def test_a_resumed_run_replaces_what_came_after_its_checkpoint(tmp_path):
    pytest.importorskip("tensorboardX")
    for steps in ((10, 20, 30), (20, 40)):
        logger = TensorBoard(run_dir=tmp_path, config={})
        for step in steps:
            logger.write(Clock(step), 0.5, {"a": float(len(steps))})
        logger.close()
    scalars, _ = written(tmp_path / "tensorboard")
    assert scalars["a"] == [(10, 3.0), (20, 2.0), (40, 2.0)]


def test_nothing_stays_of_what_a_run_abandoned(tmp_path):
    """Defect: rows between the checkpoint and the first row after the resume stayed."""
    pytest.importorskip("tensorboardX")
    abandoned = TensorBoard(run_dir=tmp_path, config={})
    abandoned.write(Clock(10), 0.5, {"a": 1.0})
    state = abandoned.state_dict()
    for step in (11, 12, 13):
        abandoned.write(Clock(step), 0.5, {"a": 1.0})
    abandoned.close()
    resumed = TensorBoard(run_dir=tmp_path, config={})
    resumed.load_state_dict(state)
    resumed.write(Clock(20), 0.5, {"a": 2.0})
    resumed.close()
    assert written(tmp_path / "tensorboard")[0]["a"] == [(10, 1.0), (20, 2.0)]


def test_rows_keep_any_name_and_are_there_before_the_run_ends(tmp_path):
    """Defect: those of the last two minutes were lost where a run was killed after a checkpoint."""
    pytest.importorskip("tensorboardX")
    logger = TensorBoard(run_dir=tmp_path, config={})
    logger.write(Clock(10), 0.5, {"test/win_rate/3m vs. 8m": 0.5})
    Loggers([logger]).state_dict()
    assert written(tmp_path / "tensorboard")[0]["test/win_rate/3m vs. 8m"] == [(10, 0.5)]


def test_rows_for_which_the_disk_had_no_room_are_left_out(tmp_path):
    """Defect: the run waited forever."""
    pytest.importorskip("tensorboardX")
    logger = TensorBoard(run_dir=tmp_path, config={})
    logger.write(Clock(10), 0.5, {"a": 1.0})
    for step in (20, 30):
        with no_room(logger.path.stat().st_size + 9):
            logger.write(Clock(step), 0.5, {"a": 1.0})
    logger.write(Clock(40), 0.5, {"a": 1.0})
    assert written(tmp_path / "tensorboard")[0]["a"] == [(10, 1.0), (40, 1.0)]


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
    from rltrain.errors import UsageError

    with pytest.raises(UsageError, match=rf"logger=\[{name}\] needs {missing}.*pip install"):
        command(*others, f"logger=[{name}]")
    assert not list(own_folder.iterdir())


def test_a_video_is_an_animated_image(tmp_path):
    pytest.importorskip("tensorboardX")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    gif = tmp_path / "a.gif"
    gif.write_bytes(b"GIF89a" + bytes([30, 0, 20, 0]) + bytes(20))
    logger = TensorBoard(run_dir=tmp_path, config={})
    logger.video(Clock(40), gif)
    logger.close()
    events = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    (image,) = events.Images("test/video")
    assert (image.step, image.width, image.height) == (40, 30, 20)
    assert image.encoded_image_string == gif.read_bytes()
