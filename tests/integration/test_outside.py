"""Keys of a saved run that reach outside: asked for, left out, or copied into the run."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

import rltrain
from rltrain import main as entry
from rltrain.battles.data.map_file import SHIPPED
from rltrain.common.checkpoint.run_checkpoints import seal, stored_manifest
from rltrain.common.files import get_json
from rltrain.config.overrides import put
from rltrain.config.saved_config import load_config
from rltrain.errors import CheckpointError, NotTypedError, UsageError
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.saved import job_command, saved_jobs

TRADING = [
    *("algo=dqn", "env=trading", "env.prices=my prices.csv", "env.episode_length=10"),
    *("env.window=3", "total_env_steps=60", "test.interval=30", "test.episodes=2"),
    *("test.n_envs=2", "save.interval=30", "algo.batch_size=4", "buffer.capacity=100"),
    *("algo.learning_starts=20", "hardware.n_envs=2", "hardware.threads=1", "logger=[]"),
    "logger.console=false",
]


@pytest.fixture(scope="module")
def traded_once(tmp_path_factory):
    """A folder with prices and a run on them, ``run``."""
    folder = tmp_path_factory.mktemp("traded")
    lines = "\n".join(str(100 + i % 7) for i in range(200))
    (folder / "my prices.csv").write_text(f"close\n{lines}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert entry.run([*TRADING, "hydra.run.dir=run"]) == 0
    return folder


@pytest.fixture
def prices(traded_once, own_folder):
    """The prices that ``run`` was trained on, in the current folder."""
    shutil.copytree(traded_once, own_folder, dirs_exist_ok=True)
    return own_folder / "my prices.csv"


def forged(run_dir, **changes):
    """Set keys (``__`` for a dot) in the configuration of a run and of its checkpoints."""
    config = get_json(run_dir / "config.json")
    for key, value in changes.items():
        put(config, key.replace("__", "."), value)
    text = json.dumps(config)
    (run_dir / "config.json").write_text(text)
    for folder in (run_dir / "checkpoints").glob("*/"):
        (folder / "config.json").write_text(text)
        seal(folder, stored_manifest(folder)["kind"])


def asked(command, *words):
    """The command that is printed in place of one that must be completed."""
    with pytest.raises(UsageError) as refused:
        command(*words)
    first, printed = str(refused.value).split("\n")
    assert "is not taken from a file" in first
    assert printed.startswith("  rltrain ")
    return shlex.split(printed)[1:]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"buffer__folder": "/outside/steps", "buffer__storage": "disk"}, "buffer.folder"),
        ({"logger__wandb__settings": {"a": [1, "x y"]}}, "logger.wandb.settings.a"),
        ({"logger__wandb__entity": "my team"}, "logger.wandb.entity"),
        ({"logger__wandb__notes": "a='b', {c} $d"}, "logger.wandb.notes"),
        ({"algo__optimizer__foreach": "a.b"}, "algo.optimizer.foreach"),
    ],
)
def test_a_resume_prints_the_command_with_the_keys_typed(command, trained, changes, key):
    forged(trained, **changes)
    words = asked(command, f"resume={trained}", "total_env_steps=200")
    assert words[:2] == [f"resume={trained}", "total_env_steps=200"]
    (typed,) = words[2:]
    assert typed.partition("=")[0] == key
    assert key != "buffer.folder" or typed == "buffer.folder=/outside/steps"
    assert command("mode=evaluate", f"checkpoint={trained}", "test.episodes=1") == 0
    if "wandb" in key:
        assert command(*words) == 0  # pasted, it goes on
        assert asked(command, f"resume={trained}", "total_env_steps=250")  # and asks again


def test_another_value_than_that_of_the_file_is_no_answer(command, trained):
    forged(trained, dataset__write="/outside/data")
    assert asked(command, f"resume={trained}")[-1] == "dataset.write=/outside/data"
    with pytest.raises(UsageError, match=r"keeps its dataset\.write"):
        command(f"resume={trained}", "dataset.write=elsewhere")
    assert asked(command, f"config={trained}", "hydra.run.dir=new")[-1].startswith("dataset.write=")
    assert not Path("new").exists()


def test_project_name_group_tags_and_mode_of_a_logger_are_kept(command, trained):
    kept = {"project": "/a b", "tags": ["x/y"], "name": "n/m", "group": "../g"}
    forged(trained, **{f"logger__wandb__{key}": value for key, value in kept.items()})
    assert command(f"resume={trained}", "total_env_steps=200") == 0


@pytest.mark.slow
def test_a_map_of_ones_own_is_copied_into_the_run(command, own_folder, capsys):
    own = own_folder / "mine.yaml"
    shutil.copy(SHIPPED / "chokepoint.yaml", own)
    small = ["algo=qmix", "env=smac", "env.map_file=mine.yaml", *TRADING[5:8], "save.interval=30"]
    small += ["algo.batch_size=2", "buffer.capacity=10", "hardware.n_envs=2", "logger=[]"]
    assert command("mode=doctor", "env=smac", "env.map_file=mine.yaml") == 0
    assert "6 agents, 16 actions" in capsys.readouterr().out
    assert command(*small, "hydra.run.dir=run") == 0
    assert "qmix on smac mine.yaml, seed 0" in capsys.readouterr().out
    shutil.move("run", "moved")
    assert Path("moved/files/env.map_file").read_bytes() == own.read_bytes()
    own.unlink()
    assert command("mode=evaluate", "checkpoint=moved", "test.episodes=2", "record=html") == 0
    assert list(Path("moved").rglob("*.html"))
    assert command("mode=export", "checkpoint=moved") == 0
    assert command("resume=moved", "total_env_steps=90") == 0


def test_control_characters_are_not_printed_for_pasting(command, trained):
    forged(trained, logger__wandb__entity="\x1b[31mx")
    said = r"control characters in 'logger\.wandb\.entity'"
    with pytest.raises(CheckpointError, match=said) as refused:
        command(f"resume={trained}")
    assert refused.value.exit_code == 3


@pytest.mark.slow
def test_the_weights_that_a_run_started_from_are_asked_for_until_it_has_its_own(command, trained):
    forged(trained, checkpoint=str(trained))
    assert command(f"resume={trained}", "total_env_steps=200") == 0
    shutil.copytree(trained, "unsaved")
    shutil.rmtree("unsaved/checkpoints")
    words = asked(command, "resume=unsaved")
    assert words[-1].startswith("checkpoint=")
    assert command(*words, "total_env_steps=220") == 0


@pytest.mark.slow
def test_the_files_of_an_environment_are_copied_into_the_run(command, own_folder, prices):
    kept = Path("moved/files/env.prices")
    shutil.move("run", "moved")
    assert kept.read_bytes() == prices.read_bytes()
    prices.unlink()
    assert command("mode=evaluate", "checkpoint=moved", "test.episodes=2") == 0
    assert command("resume=moved", "total_env_steps=90") == 0
    shutil.copytree("moved", "copied")
    assert command("resume=copied", "total_env_steps=90") == 0  # only config.json is new
    shutil.move("copied", "renamed")
    assert command("resume=renamed", "total_env_steps=100") == 0
    assert command("config=moved", "hydra.run.dir=again") == 0
    assert Path("again/files/env.prices").read_bytes() == kept.read_bytes()
    kept.rename(own_folder / "elsewhere.csv")
    kept.symlink_to(own_folder / "elsewhere.csv")
    for words in (["resume=moved"], ["mode=evaluate", "checkpoint=moved"]):
        with pytest.raises(CheckpointError, match=r"env\.prices is a link to .*elsewhere\.csv"):
            command(*words)


@pytest.mark.usefixtures("prices")
def test_the_configuration_of_a_resumed_run_names_the_file_that_was_typed(command):
    named = []
    for env_steps in (60, 70):
        named.append(get_json(Path("run/config.json"))["env"]["prices"])
        assert command("resume=run", f"total_env_steps={env_steps}") == 0
    assert named[0] == named[1]


@pytest.mark.parametrize("where", ["run", "moved"])
@pytest.mark.usefixtures("prices")
def test_a_run_does_not_go_on_with_another_file_in_the_place_of_its_copy(command, where):
    """Defect: the rest of the run had other prices, exit code 0."""
    shutil.move("run", where) if where != "run" else None
    kept = Path(where, "files/env.prices")
    text = kept.read_text()
    kept.write_text(text.replace("103", "105"))
    before = Path(where, "run.json").read_bytes()
    with pytest.raises(CheckpointError, match=r"files/env\.prices is damaged, or another"):
        command(f"resume={where}", "total_env_steps=90")
    assert Path(where, "run.json").read_bytes() == before
    kept.write_text(text)
    assert command(f"resume={where}", "total_env_steps=90") == 0


def test_a_resume_reads_the_prices_that_its_run_was_played_with(command, prices):
    """Defect: where their path was typed again it read the edited file, without a message."""
    typed, kept = "env.prices=my prices.csv", Path("run/files/env.prices")
    text = prices.read_text()
    prices.write_text(text.replace("103", "105"))
    for resumes, read in ((True, str(kept)), (False, "my prices.csv")):
        tree = load_config(Path("run/config.json"), [typed], learns=True, resumes=resumes)[0]
        assert tree["env"]["prices"] == read
    shutil.rmtree(kept.parent)
    with pytest.raises(CheckpointError, match=r"my prices\.csv is damaged, or another env\.prices"):
        command("resume=run", typed, "total_env_steps=90")
    assert not kept.exists()
    prices.write_text(text)
    assert command("resume=run", typed, "total_env_steps=90") == 0
    assert kept.read_text() == text


def test_a_run_keeps_the_prices_of_its_tests_that_were_typed_last(command, prices):
    """Defect: it kept the first ones, and a later resume was tested with them."""
    kept = Path("run/files/test.env.prices")
    for env_steps, word in ((70, "+test.env.prices=first.csv"), (80, "test.env.prices=second.csv")):
        Path(word.partition("=")[2]).write_text(f"{prices.read_text()}\n{env_steps}")
        assert command("resume=run", word, f"total_env_steps={env_steps}") == 0
        assert kept.read_text().endswith(f"\n{env_steps}")
    kept.write_text(prices.read_text())
    with pytest.raises(CheckpointError, match=r"files/test\.env\.prices is damaged, or another"):
        command("resume=run", "total_env_steps=90")


def test_a_sweep_types_for_its_jobs_what_its_command_had(command, trained):
    forged(trained, logger__wandb__entity="my team")
    job = SweepJob(trained, ("env=two_step", "+logger.wandb.entity='my team'"))
    plan = SweepPlan(trained.parent, ("env=two_step", "seed=1,2"), "", 1, "", (job,))
    with pytest.raises(UsageError, match=r"Run the command of the sweep again.*\n  rltrain -m env"):
        saved_jobs(plan, ["total_env_steps=300"])
    typed = ["total_env_steps=300", "logger.wandb.entity='my team'"]
    ((_, settings),) = saved_jobs(plan, typed).items()
    words = job_command(job, settings, [], [])
    assert words == [f"resume={trained}", "logger.wandb.entity='my team'"]
    assert command(*words, "total_env_steps=200") == 0


def test_a_sweep_with_files_of_ones_own_is_typed_again(own_folder):
    searched = "hydra.searchpath=[my conf]"
    job = SweepJob(own_folder / "0", ("env=two_step", "experiment=mine", searched))
    plan = SweepPlan(own_folder, ("experiment=mine", searched, "seed=1,2"), "", 1, "", (job,))
    with pytest.raises(Exception, match="is not taken from a file") as refused:
        saved_jobs(plan, [])
    printed = shlex.split(str(refused.value).split("\n")[-1])
    assert printed == ["rltrain", "-m", *plan.overrides, f"hydra.sweep.dir={own_folder}"]


def test_from_python_the_message_names_the_keys(trained):
    forged(trained, logger__wandb__entity="team")
    with pytest.raises(NotTypedError, match=r"as well: overrides=\['logger\.wandb\.entity=team'\]"):
        rltrain.resume(trained)
    assert rltrain.resume(trained, 200, overrides={"logger.wandb.entity": "team"}).metrics


@pytest.mark.slow
@pytest.mark.usefixtures("prices")
def test_keys_of_an_evaluation_are_typed_in_python_as_in_a_command():
    """Defect: ``rltrain.evaluate`` asked for keys that could not be given to it."""
    before = rltrain.evaluate("run").metrics
    shutil.rmtree("run/files")
    said = r"as well: overrides=\[.env\.prices='my prices.csv'"
    with pytest.raises(NotTypedError, match=said) as asks:
        rltrain.evaluate("run")
    assert rltrain.evaluate("run", overrides=asks.value.overrides).metrics == before
    typed = {"env.prices": "my prices.csv"}
    assert rltrain.evaluate("run", load_step="all", overrides=typed)[60].metrics == before
    shorter = rltrain.evaluate("run", 1, overrides={**typed, "env.episode_length": 4})
    assert shorter.metrics["test/episode_length_mean"] == 4
    with pytest.raises(UsageError, match="epsiode_length"):
        rltrain.evaluate("run", overrides={**typed, "env.epsiode_length": 4})


@pytest.mark.slow
def test_the_command_at_the_end_of_a_run_has_the_keys_a_resume_asks_for(command, trained, capsys):
    forged(trained, logger__wandb__entity="my team", logger__wandb__mode="disabled")
    words = asked(command, f"resume={trained}", "total_env_steps=200")
    capsys.readouterr()
    assert command(*words, "logger.console=true") == 0
    printed = capsys.readouterr().out.splitlines()
    (line,) = [shlex.split(line) for line in printed if line.startswith("  rltrain resume=")]
    assert line[3:] == words[2:] == ["logger.wandb.entity='my team'"]
    assert command(*line[1:]) == 0
