"""Examples of the documents, and those of examples/, run as they are pasted, and reach what is said
of them.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys

import pytest
import yaml
from gymnasium.utils.env_checker import check_env

import rltrain
from rltrain.api import settings_from
from rltrain.common.files import get_json
from rltrain.config.command_line import read
from rltrain.config.compose import compose_single
from rltrain.config.node import FACTS
from rltrain.mode.tune.space import read_space
from tests.helpers import without
from tests.marks import slow_except
from tests.pages import DOCS, ROOT, blocks, read_page


def run_block(code, scope):
    """Run an example, with few steps."""
    run_whole(re.sub(r'(total_env_steps"?(?:: |=))[\d_]+', r"\g<1>60", code), scope)


def run_whole(code, scope):
    exec(compile(code, "example", "exec"), scope)


@pytest.mark.slow
@pytest.mark.parametrize("run", [run_block, run_whole])
def test_the_class_of_own_environment_can_be_pasted_and_learns_what_the_page_says(run, capsys):
    scope = {"__name__": __name__}
    pasted = blocks("own_environment.md", "python")[:2]
    for code in pasted:
        run(code, scope)
    assert check_env(scope["Row"]()) is None
    assert len(pasted[0].splitlines()) <= 20
    if run is run_whole:
        assert scope["result"].metrics["test/return_mean"] > 0.7
        assert "[2, 2, 0, 0]" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("run", [run_block, run_whole])
def test_the_pasted_team_learns_what_the_page_says(run, capsys):
    scope = {"__name__": "rock"}
    rock, use = blocks("team_environment.md", "python")
    assert len([line for line in rock.splitlines() if line.strip()]) <= 30
    run_whole(rock, scope)
    run(use, scope)
    assert "No problem was found." in capsys.readouterr().out
    assert run is run_block or scope["result"].metrics["test/return_mean"] > 8.5


def put_yaml(path, page):
    """Write the YAML of a page to a file below ``myconf``."""
    (text,) = blocks(page, "yaml")
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.slow
def test_the_team_environment_can_be_pasted_into_yaml(own_folder, command):
    (own_folder / "rock.py").write_text(blocks("team_environment.md", "python")[0])
    put_yaml(own_folder / "myconf/env/rock.yaml", "team_environment.md")
    overrides = ["env=rock", "hydra.searchpath=[myconf]"]
    few = ["total_env_steps=20", "hardware.n_envs=2", "hardware.threads=1", "test.episodes=2"]
    assert command("mode=doctor", *overrides) == 0
    assert command("algo=vdn", *overrides, *few, "logger.wandb.mode=disabled") == 0


@pytest.mark.slow
def test_the_examples_of_the_readme_run(capsys):
    (code,) = blocks("../README.md", "python")
    run_block(code, {"__name__": __name__})


def test_a_logger_of_one_s_own(command, small, own_folder, capsys):
    (code,) = blocks("loggers.md", "python")
    (own_folder / "my_module.py").write_text(code)
    put_yaml(own_folder / "myconf/logger/printed.yaml", "loggers.md")
    words = ["logger=[printed]", "total_env_steps=20", "test.episodes=1"]
    assert command("--config-dir=myconf", *without(small, "logger.wandb"), *words) == 0
    assert "metrics 0 {'test/return_mean'" in capsys.readouterr().out


@pytest.mark.parametrize("lr", ["0.0012", "2.5e-4"])
def test_the_command_of_an_agent_of_wandb_composes(lr):
    (sweep,) = [yaml.safe_load(text) for text in blocks("sweeps.md", "yaml")]
    chosen = {"algo.optimizer.lr": lr, "algo.batch_size": 64}
    assert set(sweep["parameters"]) == set(chosen)
    program, *words = sweep["command"]
    assert (program, words.pop()) == ("rltrain", "${args_no_hyphens}")
    settings = settings_from(read([*words, *(f"{k}={v}" for k, v in chosen.items())]).overrides)
    assert settings.algo.batch_size == 64
    assert settings.nodes["algo.optimizer"].kwargs["lr"] == float(lr)
    assert settings.nodes["logger.wandb"].kwargs["mode"] == "online"


def test_the_slurm_job_requeues_itself_when_the_runs_have_saved(own_folder):
    (script,) = [text for text in blocks("sweeps.md", "bash") if "#SBATCH" in text]
    saves = own_folder / "saves.py"  # in place of the command: saves on SIGUSR1
    saves.write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *about: sys.exit(85))\n"
        "os.kill(os.getppid(), signal.SIGUSR1)\n"
        "signal.pause()\n"
    )
    command = next(line for line in script.splitlines() if "rltrain -m" in line)
    script = script.replace(command, f"{sys.executable} {saves} &")
    scontrol = own_folder / "scontrol"
    scontrol.write_text('#!/bin/bash\necho "$@" > requeued\n')
    scontrol.chmod(0o755)
    env = {**os.environ, "PATH": f"{own_folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, timeout=60)
    assert (done.returncode, (own_folder / "requeued").read_text()) == (0, "requeue 7\n")


OWN_PARTS = read_page(DOCS / "own_parts.md")
TRAINING = [
    shlex.split(line)[1:]
    for line in OWN_PARTS.splitlines()
    if line.startswith("rltrain ") and "resume" not in line
]


@pytest.mark.parametrize("overrides", slow_except(TRAINING[:2], TRAINING), ids=lambda w: w[-1])
def test_a_command_of_the_page_on_own_parts_trains(single, tmp_path, monkeypatch, overrides):
    (tmp_path / "mine.py").write_text("\n\n".join(blocks("own_parts.md", "python")), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {word.partition("=")[0] for word in overrides}
    kept = without(single, "env=", "buffer.", "algo.exploration.")
    kept = [word for word in kept if word.partition("=")[0] not in given]
    kept += ["algo.learning_starts=10"] if "algo=dqn" in overrides else []
    trainer = rltrain.make_trainer([*kept, *overrides], run_dir=tmp_path / "run")
    trainer.run(100)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0
    assert rltrain.load_policy(trainer.export(tmp_path / "policy"), trust=["mine"]).step >= 100


def test_the_page_on_own_parts_names_what_constructors_may_ask_for():
    rows = dict(re.findall(r"^\| `([\w.*]+)` \| (.*) \|$", OWN_PARTS, re.MULTILINE))
    facts = {part: tuple(re.findall(r"`(\w+)`", names)) for part, names in rows.items()}
    assert facts == {p: f for p, f in FACTS.items() if p not in ("test.env", "algo")}


REPORTS = "".join(read_page(DOCS / name) for name in ("reports.md", "tuning.md"))
COMMANDS = re.findall(r"^rltrain (mode=.*?)(?:  +#.*)?$", REPORTS, re.MULTILINE)
SETTINGS = re.findall(r"`(report\.\w+=[^`…]+)`", REPORTS)
COMMANDS += [f"mode=report runs=outputs '{s}'" for s in SETTINGS if "FOLDER" not in s]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_settings_of_reports_and_searches_are_valid(command):
    compose_single(shlex.split(command))


def test_the_search_space_is_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", REPORTS, re.DOTALL)
    assert len(read_space(yaml.safe_load(text)["space"])) == 4


EXAMPLES = ROOT / "examples"


def test_the_team_environment_of_the_examples_has_no_problems():
    corridor = runpy.run_path(str(EXAMPLES / "team.py"))["Corridor"]
    assert rltrain.check_env(corridor).problems == []


REACHED = {
    "cartpole": lambda found: found > 450,
    "team": lambda found: found["qmix"] > 0.7 and found["vdn"] > 0.5,
    "mixer": lambda found: found == {"vdn": 7, "weighted": 7, "qmix": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REACHED)
def test_an_example_reaches_what_its_comments_say(name, monkeypatch):
    """From another working directory, offline and with one thread."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.delitem(sys.modules, name, raising=False)
    found = __import__(name).main()
    assert REACHED[name](found), found


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom():
    cells = get_json(EXAMPLES / "quickstart.ipynb")["cells"]
    assert len(cells) == 10
    names: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["total"] > 100
