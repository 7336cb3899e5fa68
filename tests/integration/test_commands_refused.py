"""Commands, files and disks that cannot work are refused, and nothing half-written is left."""

import pytest

import rltrain
from rltrain.errors import RltrainError, StorageError, UsageError
from rltrain.mode import init, report
from tests.integration.test_own_parts_refused import CARTPOLE


def test_an_export_replaces_no_other(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path / "run")
    folder = trainer.export(tmp_path / "agent")
    with pytest.raises(UsageError, match=r"already exists and may .* pass replace=True"):
        trainer.export(tmp_path / "agent")
    assert trainer.export(tmp_path / "agent", replace=True) == folder
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        trainer.export(tmp_path / "file")
    with pytest.raises(OSError, match="file"):  # a snapshot beside training: the run continues
        trainer.export(tmp_path / "file", replace=True)
    with pytest.raises(UsageError, match="A checkpoint is full or weights, got 'mine'"):
        trainer.save("mine")


@pytest.mark.parametrize("place", ["file/data", "/proc/data"])
def test_a_dataset_that_cannot_be_written_is_refused_before_the_run(own_folder, place):
    (own_folder / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written.*dataset\.write=FOLDER"):
        rltrain.train([*CARTPOLE, f"dataset.write={place}"])
    assert not list(own_folder.glob("outputs"))


WHICH = r"win_rate/\w+: no map of env\.maps and no opponent of test is named \w+"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["-m", "seed=1,2,1"], r"Two jobs of this sweep are the same, .*seed=1: .*Leave one out"),
        (["-m", "seed=1,2", "seed=3"], r"Two jobs of this sweep are the same"),
        (["-m", "seed=1,1.0"], r"Two jobs of this sweep are the same"),
        (["-m", "env=cartpole,'cartpole'"], r"Two jobs of this sweep are the same"),
        (["-m", "seed=1,2", "hydra.run.dir=x"], r"Type hydra\.sweep\.dir=FOLDER"),
        (["mode=tune", "tune.metric=test/foo"], r"tune\.metric=test/foo: expected a metric"),
        (["stop.metric=auto", "stop.value=1"], r"stop\.metric=auto: expected a metric"),
        (["mode=tune", "tune.metric=return_mean"], r"Type tune\.metric=test/return_mean"),
        (
            ["mode=tune", "tune.metric=train/return_mean"],
            r"of tests.*tune\.metric=test/return_mean",
        ),
        (["mode=tune", "tune.metric=learn/loss"], r"metric of tests, such as test/return_mean"),
        (["mode=tune", "tune.metric=offline/is_return"], r"metric of tests"),
        (["mode=tune", "tune.metric=time/env_share"], r"metric of tests"),
        (["mode=tune", "tune.metric=episode_reward_mean"], r"Type tune\.metric=test/return_mean"),
        (["stop.metric=test/win_rate/3m", "stop.value=1"], WHICH),
        (["stop.metric=train/retrun_mean", "stop.value=1"], r"mean stop\.metric=train/return_mean"),
        (["resume=file.py"], "there is a file, which is not a run folder, at"),
    ],
    ids=lambda x: str(x),
)
def test_a_command_that_would_come_to_nothing_is_refused(own_folder, command, overrides, said):
    (own_folder / "file.py").touch()
    with pytest.raises(RltrainError, match=said):
        command(*([] if "resume" in overrides[0] else CARTPOLE), *overrides)


def test_a_project_says_where_it_lies(own_folder):
    assert "make -C 'a/b c' train" in init.write_project(own_folder / "a/b c", "gymnasium")


def full(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_half_a_project(own_folder, command, monkeypatch):
    monkeypatch.setattr(init, "put_text", full)
    with pytest.raises(StorageError, match=r"No space left on device\. Free disk space"):
        command("mode=init", "init.folder=project")
    assert not list((own_folder / "project").iterdir())


def test_a_result_stands_where_a_run_folder_is_expected(own_folder):
    result = rltrain.train(CARTPOLE)
    assert rltrain.load_policy(result).step >= 60
    assert rltrain.evaluate(result, episodes=1).metrics


def test_a_report_on_a_full_disk_says_so(own_folder, command, monkeypatch):
    rltrain.train(CARTPOLE)
    monkeypatch.setattr(report, "draw_all", full)
    with pytest.raises(StorageError, match=r"report done cannot be written: .*Free disk space"):
        command("mode=report", "runs=outputs", "report.dir=done")
