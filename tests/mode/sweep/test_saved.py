"""``sweep.json`` is untrusted data: what its jobs may name, and the command of each job."""

import json
from pathlib import Path

import pytest

from rltrain.common.machine.places import SWEEP
from rltrain.config.compose import compose_checked
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.run import Local
from rltrain.mode.sweep.saved import job_command, saved_jobs
from tests.helpers import put_record

OWN = "callbacks=[{_target_: tests.helpers.Failing}]"


def plan(*overrides):
    job = SweepJob(Path("s/0_seed-1"), ("env=two_step", *overrides))
    return SweepPlan(Path("s"), (), "", 1, "", (job,))


def begun(job, status="interrupted", **changes):
    """Write the files of a run that has started."""
    settings = compose_checked([o for o in job.overrides if o != OWN]).settings()
    put_record(job.folder, status=status)
    (job.folder / "config.json").write_text(json.dumps({**settings.record, **changes}))
    return settings


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (OWN, r"names the class tests\.helpers\.Failing.*trust=\[tests\]"),
        ("test.function=evil.function", r"names the class evil\.function"),
        ("algo.optimizer={_target_: os.system}", r"names the class os\.system"),
        ("hydra.run.dir=/elsewhere", "hydra.run.dir=.* is not taken from a file"),
        ("hydra.searchpath=[pkg://evil.conf]", "is not taken from a file"),
        ("algo.loss.gamma=${oc.env:HOME}", "is not taken from a file"),
        ("--config-dir=/x", "is not taken from a file"),
        ("a=[", "is not taken from a file"),
        (f"algo.lr_factors=[{'1,' * 50_000}1]", "is not taken from a file"),
    ],
)
def test_a_job_that_has_not_begun_names_trusted_classes_only(own_folder, override, message):
    with pytest.raises(CheckpointError, match=message):
        saved_jobs(plan(override), [])


def test_what_the_file_trusts_does_not_count_and_what_is_typed_does(own_folder):
    with pytest.raises(CheckpointError, match=r"trust=\[tests\]"):
        saved_jobs(plan(OWN, "trust=[tests]"), [])
    ((job, settings),) = saved_jobs(plan(OWN), ["trust=[tests]"]).items()
    assert job.overrides[-1] == "trust=[tests]"
    assert settings.callbacks[0].target == "tests.helpers.Failing"


def test_a_run_that_has_begun_names_trusted_classes_only(own_folder):
    found = plan("seed=1")
    begun(found.jobs[0], callbacks=[{"_target_": "tests.helpers.Failing"}])
    with pytest.raises(CheckpointError, match=r"trust=\[tests\]"):
        saved_jobs(found, [])
    assert list(saved_jobs(found, ["trust=[tests]"])) == list(found.jobs)


def test_a_finished_run_goes_on_only_if_an_override_changes_it(own_folder):
    found = plan("seed=1", "total_env_steps=100")
    begun(found.jobs[0], "finished")
    assert saved_jobs(found, []) == {}
    assert saved_jobs(found, ["total_env_steps=100"]) == {}
    (settings,) = saved_jobs(found, ["total_env_steps=200"]).values()
    assert settings.run.total_env_steps == 200
    with pytest.raises(UsageError, match="keeps its seed"):
        saved_jobs(found, ["seed=3"])


def test_a_job_begins_in_its_folder_and_goes_on_with_the_classes_that_were_typed(own_folder):
    (job,) = plan("seed=1").jobs
    settings = compose_checked([*job.overrides, OWN]).settings()
    threads = ["hardware.threads=1"]
    words = ["env=two_step", "seed=1", *threads, "hydra.run.dir=s/0_seed-1"]
    assert job_command(job, settings, [], threads) == words
    begun(job)
    assert job_command(job, settings, [], threads) == ["resume=s/0_seed-1", "trust=[tests]"]
    typed = ["trust=[tests,other]"]
    assert job_command(job, settings, typed, threads) == ["resume=s/0_seed-1", *typed]


JOBS = [
    (("seed=1",), ("seed=2",)),
    (("algo.loss.gamma=0.9",), ("algo.loss.gamma=0.95",)),
    (("algo=qmix",), ("algo=vdn",)),
    (("algo=qmix", "algo/network=gru"), ("algo=qmix", "algo/network=mlp")),
    (("algo.lr_factors=[[0,1],[9,2]]",), ("algo.lr_factors=[[0,1],[9,3]]",)),
    (("algo.lr_factors=[[0,1],[9,2]]",), ("algo.lr_factors=null",)),
]


def two_jobs(folder, first, second):
    common = ("env=two_step", "trust=[tests]", "name=x", "logger.console=False", "save.keep_last=2")
    jobs = [
        SweepJob(folder / f"{n}_x", (*common, *words)) for n, words in enumerate((first, second))
    ]
    return SweepPlan(folder, ("env=two_step",), "", 2, "", tuple(jobs))


@pytest.mark.parametrize("status", ["interrupted", "finished"])
@pytest.mark.parametrize(("first", "second"), JOBS)
def test_the_run_of_another_job_is_refused_by_name(own_folder, first, second, status):
    """Defect: of folders that had been swapped, each run counted as the other one."""
    found = two_jobs(own_folder / "s", first, second)
    for job in found.jobs:
        begun(job, status, save={"keep_last": 7})  # which a resume may have changed
    settings = compose_checked([]).settings().run.sweep
    sweep = [(job.overrides, job.folder) for job in found.jobs]
    assert len(saved_jobs(found, [])) == (0 if status == "finished" else 2)
    Local(found, settings).list_jobs(sweep)
    written = (found.folder / SWEEP).read_bytes()
    one, other = (job.folder for job in found.jobs)
    one.rename(own_folder / "aside")
    other.rename(one)
    (own_folder / "aside").rename(other)
    for go_on in (lambda: saved_jobs(found, []), lambda: Local(found, settings).list_jobs(sweep)):
        with pytest.raises(CheckpointError, match=r"s/0_x holds another run: .*move it away"):
            go_on()
    assert (found.folder / SWEEP).read_bytes() == written


@pytest.mark.parametrize("harm", ["missing", "{", "[]", "a folder"])
def test_without_its_configuration_what_to_type_is_said(own_folder, harm):
    found = plan("seed=1")
    begun(found.jobs[0])
    (found.jobs[0].folder / "checkpoints").mkdir()
    config = found.jobs[0].folder / "config.json"
    config.unlink()
    if harm == "a folder":
        config.mkdir()
    elif harm != "missing":
        config.write_text(harm)
    with pytest.raises(CheckpointError, match=r"config\.json.*0_seed-1 away.* resume=s begins"):
        saved_jobs(found, [])
