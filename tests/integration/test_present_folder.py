"""Modules in the current folder: classes and environments whose names are typed are found there,
others are someone else's, and no process of any command imports them. No command on a stranger's
run looks for any there, whatever its environment lacks. test_sweep.py says so of jobs.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from rltrain import main as entry
from rltrain.common.files import get_json
from rltrain.common.imports import SAFE_PATH, import_path
from rltrain.config.compose import compose_checked
from rltrain.config.trust import PUBLISHED
from rltrain.env.team.make_pettingzoo import find_maker
from rltrain.errors import CheckpointError, RltrainError, UsageError
from tests.helpers import foreign_modules, forged, over, python
from tests.marks import slow_except

LACKED = ("chess", "rlcard", "pymunk", "Box2D", "ale_py", "minatar", "coverage", "colorama")
"""Packages that environments, or what they import, try to import."""
IDS = [f"{package}.{name}" for package, names in PUBLISHED.items() for name in names.split()]
COMMANDS = (
    *("mode=evaluate checkpoint=run", "mode=watch checkpoint=run", "mode=export checkpoint=run"),
    *("resume=run total_env_steps=160", "config=run total_env_steps=10", "mode=report runs=run"),
    *("mode=push checkpoint=run hub.repo=a/b", "mode=match checkpoints=[run,closest]"),
    *("mode=doctor config=run", "resume=sweep", "env=two_step checkpoint=run total_env_steps=10"),
)
KINDS = {
    **{name: [f"env={name}"] for name in ("mpe", "magent", "lbf", "rware", "atari", "minatar")},
    "Box2D": ["env=gymnasium", "env.id=LunarLander-v3"],
    "MuJoCo": ["env=gymnasium", "env.id=Ant-v5"],
    **{name: ["env=pettingzoo", f"env.id={name}"] for name in IDS},
}
"""What is typed for every kind of environment that a file may name."""
CHESS = "pettingzoo.classic.chess_v6"
FAST_KINDS = [kind for kind in KINDS if kind not in IDS or kind in {*IDS[::6], CHESS}]
TRIED = [(COMMANDS[0], kind) for kind in KINDS] + [(each, CHESS) for each in COMMANDS[1:]]
FAST = [(words, kind) for words, kind in TRIED[:-2] if kind in FAST_KINDS]


class Looking:
    """A finder that writes down what is looked for while the current folder is on the path."""

    def __init__(self, folder):
        self.folder, self.names = str(folder), []

    def find_spec(self, name, path=None, target=None):
        if path is None and self.folder in sys.path:
            self.names.append(name)


@pytest.fixture
def not_on_the_path(own_folder, monkeypatch):
    """The current folder, as where a command is typed."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(own_folder))])


@pytest.fixture
def looked_for(own_folder, not_on_the_path, monkeypatch):
    """Names of modules that were looked for in the current folder."""
    looking = Looking(own_folder)
    monkeypatch.setattr(sys, "meta_path", [looking, *sys.meta_path])
    for name in LACKED:
        (own_folder / f"{name}.py").write_text("open('EXECUTED', 'w').close()")
    yield looking.names
    assert not (own_folder / "EXECUTED").exists()


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize("tried", slow_except(FAST, TRIED), ids=" ".join)
def test_no_command_imports_from_there_for_a_strangers_run(
    command, trained_once, own_folder, looked_for, tried
):
    words, typed = tried[0], KINDS[tried[1]]
    shutil.copytree(trained_once, "run")
    forged(own_folder / "run", env=compose_checked([*typed, "algo=iql"]).plain["env"])
    jobs = [{"folder": "0", "overrides": [*typed, "algo=iql", "total_env_steps=10", "logger=[]"]}]
    plan = {"config_sha256": "0", "n_jobs": 1, "started": "", "jobs": jobs}
    plan |= {key: ["seed=1"] for key in ("overrides", "typed")}
    (own_folder / "sweep").mkdir()
    (own_folder / "sweep/sweep.json").write_text(json.dumps(plan))
    with suppress(RltrainError):  # the weights are of another environment
        command(*words.split(), *(["test.episodes=1"] if "mode=" in words else []))
    assert looked_for == []


@pytest.mark.parametrize("id", IDS)
def test_a_published_environment_is_of_an_installed_package_even_if_that_is_missing(
    own_folder, looked_for, monkeypatch, id
):
    package, _, module = id.rpartition(".")
    folder = own_folder.joinpath(*package.split("."))
    folder.mkdir(parents=True)
    for path in (own_folder / package.partition(".")[0] / "__init__.py", folder / f"{module}.py"):
        path.write_text("open('EXECUTED', 'w').close()\nenv = print")
    for name in [*sys.modules]:
        if name.partition(".")[0] == package.partition(".")[0]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" not in p])
    with pytest.raises(ValueError, match=f"env.id={id}"):
        find_maker(id)
    assert looked_for == []


SCRIPT = "from rltrain.__main__ import command\nif __name__ == '__main__':\n    command()\n"
TRAINING = "import sys, rltrain\nrltrain.train(sys.argv[1:])\n"
WORKERS = ["hardware=process", "hardware.n_workers=1", "test.n_workers=1"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
STARTS = {
    "workers": (SCRIPT, WORKERS),
    "workers of a script": (TRAINING, WORKERS),
    "ray": (SCRIPT, ["hardware=ray", "hardware.n_workers=1"]),
    "trials": (SCRIPT, ["mode=tune", "tune.trials=2", "tune.jobs=2"]),
    "joblib": (SCRIPT, ["-m", "seed=1,2", *JOBLIB]),
}
"""What starts processes of Python: a script, and what is typed after it."""


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_no_process_imports_from_the_present_folder_but_what_is_typed(tmp_path, small, start):
    if start in ("ray", "joblib"):
        pytest.importorskip(start)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    executed = foreign_modules(here)
    (here / "mine.py").write_text("from rltrain.callback import Callback as Mine")
    elsewhere.mkdir()
    script = elsewhere / "script.py"  # whose folder is on the path, as that of the command is
    text, overrides = STARTS[start]
    script.write_text(text)
    line = [str(script), *small, "callbacks=[{_target_: mine.Mine}]", *overrides]
    env = {k: v for k, v in os.environ.items() if k != SAFE_PATH}
    result = python(*line, cwd=here, env=env)
    assert not executed.exists(), executed.read_text()
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("chosen", [True, False])
def test_processes_of_a_command_search_the_present_folder_only_if_the_user_chose_it(
    own_folder, monkeypatch, capsys, chosen
):
    monkeypatch.setattr(sys, "path", [""] * chosen + [p for p in sys.path if p])
    monkeypatch.setattr(sys, "argv", ["rltrain", "--version"])
    monkeypatch.setattr(entry.signal, "signal", lambda *_: None)
    monkeypatch.setenv(SAFE_PATH, "")
    with pytest.raises(SystemExit):
        entry.main()
    assert bool(os.environ[SAFE_PATH]) != chosen
    assert import_path() == ({} if chosen else {SAFE_PATH: "1"})


MODULE = """
import gymnasium
from rltrain.callback import Callback

class Counting(Callback):
    def __init__(self, *, key: int) -> None:
        self.key = key

    def on_train_end(self, trainer, value=None):
        (trainer.run_dir / "counted").write_text(str(self.key))
        return value

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.low, {}

    def step(self, action):
        self.t += 1
        return self.observation_space.high, float(action), self.t == 5, False, {}

gymnasium.register("MyLine-v0", entry_point="my_line:Line")
"""
LINE = ["algo=dqn", "env=gymnasium", "env.id=my_line:MyLine-v0", "total_env_steps=40"]
SHORT = [
    *("test.episodes=2", "test.n_envs=2", "hardware.n_envs=2", "hardware.threads=1"),
    *("algo.learning_starts=8", "logger.wandb.mode=disabled", "logger.console=false"),
]
COUNTING = "callbacks=[{_target_: my_line.Counting, key: 3}]"


CALLED = """
def make(**_):
    open("called", "w").close()
"""
CALLING = ["algo=dqn", "env=cartpole", "total_env_steps=60", "experiment=./my.yaml"]
REFUSED = {
    "no such key": ["algo.nothing=1"],
    "a wrong value": ["total_env_steps=-1"],
    "no sweep": ["seed=1,2"],
    "a job of a sweep": ["-m", "seed=1,-1"],
    "another mode": ["mode=evaluate"],
    "no such dataset": ["dataset.read=nowhere"],
    "parts that do not fit": ["buffer.capacity=100", "algo.learning_starts=1000"],
    "no such weights": ["checkpoint=nowhere"],
}


@pytest.fixture
def my_line(own_folder, not_on_the_path):
    (own_folder / "my_line.py").write_text(MODULE)
    return own_folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize("refused", REFUSED)
def test_no_target_of_a_refused_command_is_called(command, own_folder, refused):
    (own_folder / "called_one.py").write_text(CALLED)
    (own_folder / "my.yaml").write_text("callbacks: [{_target_: called_one.make, a: 1}]\n")
    with pytest.raises(RltrainError):
        command(*over([*CALLING, *SHORT], *REFUSED[refused]))
    assert not (own_folder / "called").exists()


def test_typed_classes_and_environments_lie_beside_the_user(command, my_line):
    assert command(*LINE, *SHORT, COUNTING, "hydra.run.dir=run") == 0
    assert (my_line / "run/counted").read_text() == "3"
    sys.modules.pop("my_line")
    with pytest.raises(CheckpointError, match=r"my_line.*trust=\[my_line\]"):
        command("mode=evaluate", "checkpoint=run", "test.episodes=2")
    assert "my_line" not in sys.modules
    assert command("mode=evaluate", "checkpoint=run", "test.episodes=2", "trust=[my_line]") == 0
    assert command("resume=run", "total_env_steps=60", "trust=[my_line]") == 0


@pytest.mark.slow
def test_jobs_of_a_sweep_find_them_too(command, my_line):
    assert command("-m", *LINE, *SHORT, COUNTING, "seed=1,2", "hydra.sweep.dir=s") == 0
    assert len(list(my_line.glob("s/*/counted"))) == 2


def test_their_values_are_checked_like_ours(command, my_line):
    with pytest.raises(UsageError, match=r"callbacks\[0\]\.key=x: expected a whole number"):
        command(*LINE, *SHORT, "callbacks=[{_target_: my_line.Counting, key: x}]")
    with pytest.raises(UsageError, match="my_lime"):
        command(*LINE, *SHORT, "callbacks=[{_target_: my_lime.Counting}]")


@pytest.mark.slow
def test_the_console_script_finds_them(my_line):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    script = os.path.join(os.path.dirname(sys.executable), "rltrain")
    command = [script, *LINE, *SHORT, COUNTING, "hydra.run.dir=run"]
    subprocess.run(command, env=environment, check=True)
    assert get_json(my_line / "run/run.json")["status"] == "finished"
