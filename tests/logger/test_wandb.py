"""Weights & Biases: offline without an account, silent, and nothing at all where it is disabled."""

import logging
import os
import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from rltrain.logger.wandb import Wandb
from rltrain.types import Clock
from tests.conftest import ROOT
from tests.helpers import full, python


def made(folder, mode="offline", **options):
    """The logger of a run, as ``conf/logger/wandb.yaml`` makes it."""
    config = {"seed": 1, "choices": {"algo": "vdn", "env": "lbf"}}
    given = {"project": "rltrain", "group": None, "tags": None, **options}
    return Wandb(run_dir=folder, config=config, mode=mode, **given)


def finish(logger, **summary):
    logger.summarize(summary)
    logger.close()


@pytest.mark.slow
def test_without_a_key_a_run_is_recorded_offline(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    logger = made(tmp_path, "online")
    logger.write(Clock(1), 0.1, {"test/return_mean": 12.5})
    finish(logger)


class FakeWandb:
    """In place of the package; ``init`` waits until it is let go."""

    errors = SimpleNamespace(CommError=ConnectionError)
    run = None
    Settings = staticmethod(lambda **settings: settings)

    def __init__(self, failure: Exception | None = None) -> None:
        self.go, self.failure = Event(), failure
        self.rows, self.inits, self.finished, self.summary = [], [], False, {}
        self.axes = {}

    def init(self, **options):
        self.go.wait(10)
        self.inits.append(options)
        if self.failure is not None and options["mode"] != "offline":
            raise self.failure
        return self

    def define_metric(self, name, step_metric=None):
        self.axes[name] = step_metric

    def log(self, row):
        self.rows.append(row.get("test/return_mean", row))

    def finish(self):
        self.finished = True


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr("rltrain.logger.wandb.kill_children", lambda name: None)
    monkeypatch.setattr("rltrain.logger.wandb.OPEN", {})

    def install(failure=None, waits=False):
        wandb = FakeWandb(failure)
        if not waits:
            wandb.go.set()
        monkeypatch.setitem(sys.modules, "wandb", wandb)
        monkeypatch.setenv("WANDB_API_KEY", "a key")
        return wandb

    return install


def write(logger, *returns):
    for step, value in enumerate(returns):
        logger.write(Clock(step), 0.1, {"test/return_mean": value})


def start(logger):
    """Write a row and wait for it."""
    started = Event()
    write(logger, 1)
    logger._send(started.set)
    assert started.wait(60)


def test_rows_written_while_it_starts_are_logged_in_order(fake, tmp_path):
    wandb, logger = fake(waits=True), made(tmp_path)
    write(logger, 1, 2)
    assert not wandb.inits  # and write has returned
    wandb.go.set()
    write(logger, 3)
    finish(logger)
    assert (wandb.rows, wandb.inits[0]["project"]) == ([1, 2, 3], "rltrain")
    assert wandb.finished
    assert wandb.axes == {"env_steps": None, "*": "env_steps"}


def test_a_run_has_the_folder_s_name_group_and_id_and_its_summary(fake, tmp_path):
    wandb, logger = fake(), made(tmp_path / "2026_sweep/0_seed-1", entity="team")
    write(logger, 1)
    finish(logger, status="finished", best={"env_steps": 5, "test/return_mean": 9.0}, final=None)
    (options,) = wandb.inits
    assert options["name"] == "0_seed-1"
    assert options["id"].startswith("2026_sweep-0_seed-1-")
    assert (options["group"], options["tags"]) == ("2026_sweep", ["vdn", "lbf"])
    assert (options["entity"], options["config"]["seed"]) == ("team", 1)
    best = {"best/env_steps": 5, "best/test/return_mean": 9.0}
    assert wandb.summary == {"status": "finished", "final": None, **best}


def test_runs_in_folders_of_one_name_are_two_and_a_resumed_one_stays_one(tmp_path):
    """Defect: trial 0 of a study continued trial 0 of the study before."""
    folders = [tmp_path / study / ("s" * 99) / ("0" * 99) for study in ("a", "b")]
    one, two, moved = map(made, (*folders, tmp_path / "c"))
    assert one.own_id != two.own_id
    assert len(one.own_id) == 128
    moved.load_state_dict(one.state_dict())
    assert moved.own_id == one.own_id


@pytest.mark.parametrize("name", ["lr,seed", "a#b", "a:b;c", "what?", "it's", "a b=c"])
def test_the_id_of_a_run_is_one_of_wandb_whatever_its_folder_is_named(tmp_path, name):
    """Defect: nothing was recorded."""
    for folder in (tmp_path / name / "run", tmp_path / "runs" / name):
        assert not set(made(folder).own_id) & set(":;,#?/'")


def test_a_video_is_logged_once_it_has_started(fake, tmp_path):
    wandb, logger = fake(waits=True), made(tmp_path)
    wandb.Video = lambda path, format: (path, format)
    logger.video(Clock(40), tmp_path / "a.gif")
    wandb.go.set()
    finish(logger)
    (row,) = wandb.rows
    assert row["test/video"] == (str(tmp_path / "a.gif"), "gif")
    assert row["env_steps"] == 40


def test_group_and_tags_can_be_typed(fake, tmp_path):
    options = made(tmp_path, group="mine", tags=["a"]).options
    assert (options["group"], options["tags"]) == ("mine", ["a"])


def test_closing_waits_for_the_start(fake, tmp_path):
    wandb, logger = fake(waits=True), made(tmp_path)
    write(logger, 1, 2)
    wandb.go.set()
    finish(logger)
    assert (wandb.rows, wandb.finished) == ([1, 2], True)


def test_without_a_row_it_never_starts(fake, tmp_path):
    wandb, logger = fake(), made(tmp_path)
    finish(logger)
    assert not wandb.inits


def test_a_start_that_fails_is_reported_once_and_the_run_goes_on(fake, tmp_path, caplog):
    wandb, logger = fake(ValueError("no such entity")), made(tmp_path, "online")
    with caplog.at_level(logging.WARNING):
        write(logger, 1, 2)
        finish(logger)
    assert [r.getMessage() for r in caplog.records] == [
        "wandb could not start (no such entity); the run continues without it"
    ]
    assert wandb.rows == []
    assert logger.calls.empty()  # rows of a long run would fill the memory


def test_a_server_that_does_not_answer_means_offline(fake, tmp_path):
    wandb, logger = fake(ConnectionError()), made(tmp_path, "online")
    write(logger, 1)
    finish(logger)
    assert [(options["mode"], options["resume"]) for options in wandb.inits] == [
        ("online", "allow"),
        ("offline", None),
    ]
    assert wandb.rows == [1]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "warnings"), [("offline", 0), ("online", 1), ("disabled", 0)])
def test_a_run_of_somebody_without_an_account(small, own_folder, mode, warnings):
    overrides = [w for w in small if not w.startswith("logger.")]
    overrides += [f"logger.wandb.mode={mode}", "hydra.run.dir=run"]
    without_account = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    without_account["NETRC"] = str(own_folder / "none")
    done = python("-m", "rltrain", *overrides, env=without_account)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, warnings)
    assert len(list(own_folder.glob("run/wandb/offline-run-*"))) == (mode != "disabled")
    card = (own_folder / "run/README.md").read_text()
    assert ("wandb sync run/wandb/offline-run-*" in card) == (mode != "disabled")
    assert done.stdout.count("wandb") == 1  # the banner's line


def test_a_service_that_does_not_answer_costs_no_more_than_the_time_to_close(
    fake, tmp_path, caplog, monkeypatch
):
    wandb, logger = fake(), made(tmp_path)
    answered, ended = Event(), []
    monkeypatch.setattr(logger, "CLOSING", 0.01)
    monkeypatch.setattr(logger, "abandon", lambda: ended.append(True))
    wandb.log = lambda row: answered.wait(10)
    write(logger, 1, 2)
    finish(logger)
    answered.set()
    assert ended == [True]
    warning = "wandb did not answer in time; the run ends without it"
    assert [r.getMessage() for r in caplog.records] == [warning]


def test_a_service_that_was_killed_is_reported_once(fake, tmp_path, caplog):
    """wandb raises ConnectionResetError from then on."""

    def gone(*row):
        raise ConnectionResetError("gone")

    wandb, logger = fake(), made(tmp_path)
    wandb.log = wandb.finish = gone
    write(logger, 1, 2, 3, 4)
    finish(logger)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warnings == ["wandb could not write a row (gone); the run continues"]


def test_the_service_of_a_run_that_has_ended_lives_as_long_as_another_needs_it(fake, tmp_path):
    """Defect: a run that could not be closed ended the service for the other runs of a process."""
    package, ended = fake(), []
    package.teardown = lambda: ended.append(True)
    broken, other = made(tmp_path / "a"), made(tmp_path / "b")
    for logger in (broken, other):
        start(logger)
    broken.run = SimpleNamespace(finish=full, summary={})
    finish(broken)
    assert not ended
    write(other, 2)
    finish(other)
    assert package.rows == [1, 1, 2]
    assert ended == [True]


def test_a_start_that_never_ends_does_not_keep_the_run_from_ending(fake, tmp_path, monkeypatch):
    """Defect: what ends the service waited for the start."""
    package, ended = fake(waits=True), []
    package.teardown = lambda: ended.append(True)
    logger = made(tmp_path)
    monkeypatch.setattr(logger, "CLOSING", 0.05)
    write(logger, 1)
    finish(logger)
    assert ended == [True]
    package.go.set()
    logger.thread.join()
    assert package.finished


def test_a_run_that_could_not_start_needs_no_service(fake, tmp_path):
    package, ended = fake(ValueError("no")), []
    package.teardown = lambda: ended.append(True)
    broken, other = made(tmp_path / "a", "online"), made(tmp_path / "b")
    write(broken, 1)
    finish(broken)
    start(other)
    other.run = SimpleNamespace(finish=full, summary={})
    finish(other)
    assert ended == [True]


def log_two_runs():
    """Two trainers of a process, the second of which begins later."""
    loggers = [made(Path(name)) for name in ("a", "b")]
    for logger in loggers:
        start(logger)
    assert loggers[0].run is not loggers[1].run
    for logger in loggers:
        finish(logger)


@pytest.mark.slow
def test_two_trainers_of_a_process_have_a_run_each(tmp_path):
    """Defect: the rows of the second one went to the run of the first, as wandb returned it."""
    program = "from tests.logger import test_wandb; test_wandb.log_two_runs()"
    there = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}  # no dead service
    there |= {"WANDB_MODE": "offline", "PYTHONPATH": str(ROOT)}
    python("-c", program, cwd=tmp_path, env=there).check_returncode()
    assert all(len([*tmp_path.glob(f"{name}/wandb/offline-run-*")]) == 1 for name in ("a", "b"))
