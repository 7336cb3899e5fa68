"""Which sweep a command continues."""

import itertools
import json
import shlex
import shutil
from dataclasses import replace

import pytest

from rltrain.config.compose import compose_checked
from rltrain.config.hydra_sweep import in_any_folder, job_overrides
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.sweep import run as sweep_run
from rltrain.mode.sweep.plan import SweepJob, plan_for, read_plan, require_own_datasets
from rltrain.mode.sweep.run import Local, begin, locked, resume_sweep
from tests.helpers import put_record, stopped

TYPED = ["env=two_step", "seed=1,2"]


@pytest.fixture(scope="module")
def settings():
    return [compose_checked(["env=two_step", f"seed={n}"]).settings() for n in (1, 2)]


def begun(plan, *statuses):
    """The plan as written by a sweep whose jobs have these statuses."""
    names = [f"{n}_seed-{n + 1}" for n in range(plan.n_jobs)]
    plan = plan.with_jobs(SweepJob(plan.folder / name, (f"seed={name[-1]}",)) for name in names)
    plan.write()
    for job, status in zip(plan.jobs, statuses, strict=False):
        put_record(job.folder, status=status)
    return plan


def test_a_plan_is_read_as_it_was_written(own_folder, settings):
    plan = begun(plan_for(TYPED, settings, None)[0])
    assert read_plan(plan.folder) == plan
    assert read_plan(own_folder) is None


@pytest.mark.parametrize(
    "typed",
    [
        TYPED,
        TYPED[::-1],
        [*TYPED, "sweep.jobs=1", "sweep.retries=0"],
        [*TYPED, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
    ],
)
def test_an_unfinished_sweep_of_the_same_overrides_is_continued(own_folder, settings, typed):
    plan = begun(plan_for(TYPED, settings, None)[0], "finished", "failed")
    assert plan_for(typed, settings, None) == plan_for(typed, settings[::-1], None) == (plan, True)


@pytest.mark.parametrize("named", ["{n}_seed-{n}", "run{n}", "{n}"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_sweep_is_finished_when_all_of_its_own_jobs_are(own_folder, settings, named, listed):
    """Defect: copies of a job counted, and jobs in folders of other names did not."""
    plan = plan_for(TYPED, settings, own_folder / "s")[0]
    jobs = [SweepJob(plan.folder / named.format(n=n), (f"seed={n}",)) for n in (0, 1)]
    plan = plan.with_jobs(jobs) if listed else plan
    for job, status in zip(jobs, ("finished", "interrupted"), strict=True):
        put_record(job.folder, status=status)
    if listed or "_" in named:
        shutil.copytree(jobs[0].folder, plan.folder / f"{jobs[0].name}.bak")
    assert [job.folder for job in plan.known_jobs] == [job.folder for job in jobs]
    assert (plan.n_finished, plan.finished) == (1, False)
    put_record(jobs[1].folder, status="finished")
    assert plan.finished


@pytest.mark.slow
def test_keys_in_another_order_continue_with_the_same_jobs(own_folder, monkeypatch):
    """Defect: the order of the keys that are swept over began a second sweep."""
    launched = []
    monkeypatch.setattr(Local, "run", lambda self, jobs: launched.append(list(jobs)))
    for typed in itertools.permutations(["env=two_step", "algo=vdn,iql", "seed=1,2"]):
        begin(typed, [compose_checked(job).settings() for job in job_overrides(typed)])
    assert len(list(own_folder.glob("outputs/multirun/*"))) == 1
    assert all(jobs == launched[0] for jobs in launched)


@pytest.mark.parametrize(
    "how", [(), ("sweep.jobs=1",), ("hydra/launcher=basic",), ("hydra/sweeper=basic",)], ids=str
)
def test_resume_reopens_a_sweep_of_any_launcher(command, own_folder, monkeypatch, capfd, how):
    words, launched = ["-m", "seed=2,1", "env=two_step", *how], []
    monkeypatch.setattr("rltrain.mode.sweep.job.run_in_process", stopped)
    monkeypatch.setattr(Local, "run", stopped)
    assert command(*words) == 130
    (folder,) = own_folder.glob("outputs/multirun/*")
    facts = json.loads((folder / "sweep.json").read_text())
    assert facts["typed"] == words[1:]
    assert facts["overrides"] == sorted({*words[1:]} - {"sweep.jobs=1", "hydra/launcher=basic"})
    monkeypatch.setattr(Local, "run", lambda _, jobs, others=(): launched.extend(jobs))
    if chosen := "hydra/sweeper=basic" in how:  # it alone knows the jobs that have not begun
        with pytest.raises(UsageError, match="another sweeper chooses them, and none has begun"):
            command(f"resume={folder}")
        settings = compose_checked(words[2:3]).settings()
        (folder / "0_seed-2/config.json").write_text(json.dumps(settings.record))
        put_record(folder / "0_seed-2", status="interrupted", exit_code=130)
    capfd.readouterr()
    assert command(f"resume={folder}", "sweep.jobs=2") == 130
    assert [job.name for job in launched] == ["0_seed-2", "1_seed-1"][: 1 if chosen else 2]
    printed = capfd.readouterr().out
    assert ("continue as processes of this machine" in printed) == ("hydra/" in str(how))
    if "hydra/" in str(how):
        (again,) = (line for line in printed.splitlines() if line.startswith("  rltrain -m "))
        assert command(*shlex.split(again)[1:]) == 130
        assert "Continuing the sweep" in capfd.readouterr().out


def test_the_finished_run_of_another_sweep_does_not_count(own_folder, settings):
    """Defect: the sweep was said to be finished."""
    begun(plan_for(TYPED, settings, None)[0], "finished", "finished")
    assert not plan_for(TYPED, settings, None)[1]  # left alone
    folder = own_folder / "s"
    plan = begun(plan_for(TYPED, settings, folder)[0], "finished", "finished")
    (plan.folder / "1_seed-2/config.json").write_text('{"seed": 7}')
    with pytest.raises(CheckpointError, match=r"1_seed-2 holds another run: .* seed=7"):
        plan_for(TYPED, settings, folder)


def test_the_newest_of_several_unfinished_sweeps_is_continued(own_folder, settings):
    old = plan_for(TYPED, settings, None)[0]
    new = replace(old, folder=old.folder.with_name("new"))
    begun(replace(old, started="2030"))
    begun(replace(new, started="2031"))
    assert plan_for(TYPED, settings, None)[0].folder == new.folder


def test_other_overrides_or_other_yaml_files_begin_a_new_sweep(own_folder, settings, caplog):
    begun(plan_for(TYPED, settings, None)[0])
    assert not plan_for([*TYPED, "log.interval=5"], settings, None)[1]
    assert not caplog.records
    assert not plan_for(TYPED, settings[:1], None)[1]
    assert "files of the configuration have changed" in caplog.text


def test_a_typed_folder_is_begun_or_continued_but_never_shared(own_folder, settings):
    folder = own_folder / "s"
    plan, continues = plan_for(TYPED, settings, folder)
    assert (plan.folder, continues) == (folder, False)
    begun(plan, "finished", "interrupted")
    assert plan_for(TYPED, settings, folder)[1]
    with pytest.raises(UsageError, match=r"holds another sweep \(env=two_step seed=1,2\)"):
        plan_for([*TYPED, "log.interval=5"], settings, folder)
    begun(replace(plan, folder=own_folder / "t"), "finished", "finished")
    with pytest.raises(UsageError, match="all of its runs are finished"):
        plan_for(TYPED, settings, own_folder / "t")


def test_a_folder_of_other_runs_is_refused(own_folder, settings):
    (own_folder / "s/run").mkdir(parents=True)
    (own_folder / "s/run/run.json").touch()
    with pytest.raises(UsageError, match="already holds runs"):
        plan_for(TYPED, settings, own_folder / "s")


def test_two_jobs_never_share_a_folder(own_folder, settings):
    plan = begun(plan_for(TYPED, settings, None)[0])
    with pytest.raises(UsageError, match=r"belongs to another job of this sweep \(seed=1\)"):
        plan.with_jobs([SweepJob(plan.jobs[0].folder, ("seed=7",))])


DAMAGE = {
    "empty": "",
    "cut": '{"overrides": ["seed=1',
    "no UTF-8": b"\xff\xfe",
    "list": "[]",
    "deep": "[" * 100_000,
    "no keys": "{}",
    "overrides": {"overrides": "seed=1"},
    "typed": {"typed": "seed=1"},
    "not typed": {"typed": None},
    "number": {"n_jobs": "2"},
    "negative": {"n_jobs": -1},
    "job": {"jobs": [3]},
    "a folder twice": {"n_jobs": 2, "jobs": [{"folder": "0", "overrides": []}] * 2},
    "fewer than listed": {"n_jobs": 0, "jobs": [{"folder": "0", "overrides": []}]},
    **{
        f"folder {name}": {"jobs": [{"folder": name, "overrides": []}]}
        for name in ("../elsewhere", "/tmp", "..", "", 3)
    },
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_list_of_jobs_is_named(own_folder, settings, name):
    plan = begun(plan_for(TYPED, settings, None)[0])
    file, damage = plan.folder / "sweep.json", DAMAGE[name]
    if isinstance(damage, dict):
        damage = json.dumps(json.loads(file.read_text()) | damage)
    file.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    with pytest.raises(CheckpointError, match=r"cannot be read as the list.*type resume=FOLDER"):
        read_plan(plan.folder)
    assert not plan_for(TYPED, settings, None)[1]  # passed over


def test_a_folder_in_the_place_of_the_results_is_named_before_a_job_begins(own_folder, settings):
    plan = begun(plan_for(TYPED, settings, None)[0])
    (plan.folder / "results.csv").mkdir()
    for continued in (lambda: resume_sweep(plan.folder, []), lambda: begin(TYPED, settings)):
        with pytest.raises(UsageError, match=r"results\.csv is a folder"):
            continued()


def test_the_dataset_that_two_jobs_would_write_is_named():
    written = [
        compose_checked(["env=two_step", f"dataset.write={folder}"]).settings()
        for folder in ("a", "b", "b")
    ]
    require_own_datasets(written[:2])
    with pytest.raises(UsageError, match=r"dataset\.write=b: 2 jobs cannot"):
        require_own_datasets(written)


def test_a_path_of_configuration_may_be_written_otherwise(own_folder, settings, monkeypatch):
    """Defect: the command that was printed worked in one folder only."""
    typed = [*TYPED, "hydra.searchpath=['my conf',pkg://mine]"]
    here = [in_any_folder(override) for override in typed]
    plan = begun(plan_for(here, settings, own_folder / "s")[0])
    same = [*TYPED, f"hydra.searchpath=['{own_folder}/my conf',pkg://mine]"]
    (own_folder / "other").mkdir()
    monkeypatch.chdir("other")
    assert plan_for(same, settings, own_folder / "s") == (plan, True)
    assert all(override in shlex.split(plan.command) for override in same)
    there = [in_any_folder(override) for override in typed]
    with pytest.raises(UsageError, match="holds another sweep"):
        plan_for(there, settings, own_folder / "s")


def test_the_command_and_the_jobs_of_a_sweep_hold_in_other_folders(
    command, own_folder, monkeypatch
):
    """Defect: relative paths of presets, checkpoints and the like were others there."""
    launched = []
    monkeypatch.setattr(Local, "run", lambda _, jobs, others=(): launched.append(list(jobs)))
    (own_folder / "my preset.yaml").write_text("name: mine\n")
    (own_folder / "a=b,c").mkdir()
    paths = ["experiment=my preset.yaml", "checkpoint=a=b,c", "dataset.read=a=b,c"]
    assert command("-m", "algo=dqn", "env=cartpole", "seed=1,2", *paths) == 130
    (folder,) = own_folder.glob("outputs/multirun/*")
    (own_folder / "other").mkdir()
    monkeypatch.chdir("other")
    plan = read_plan(folder)
    assert command(*shlex.split(plan.command)[1:]) == 130
    assert launched[1] == launched[0]
    assert read_plan(folder) == plan
    settings = compose_checked(launched[0][0].overrides).settings()
    assert settings.run.checkpoint == settings.run.dataset.read == str(own_folder / "a=b,c")


@pytest.mark.parametrize("resumed", [False, True])
def test_a_plan_that_another_command_has_changed_is_not_replaced(
    own_folder, settings, monkeypatch, resumed
):
    """Defect: what had been read before the lock was taken was written, or carried out."""
    folder = own_folder / "s"
    other = plan_for(["env=two_step", "seed=1,2,3"], settings, folder)[0]
    if resumed:
        begun(plan_for(TYPED, settings, folder)[0])

    def late(at):
        other.write()
        return locked(at)

    monkeypatch.setattr(sweep_run, "locked", late)
    with pytest.raises(UsageError, match="Another command has changed the sweep in s meanwhile"):
        resume_sweep(folder, []) if resumed else begin([*TYPED, "hydra.sweep.dir=s"], settings)
    assert read_plan(folder) == other
