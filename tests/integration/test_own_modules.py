"""Classes and environments of one's own, in a module beside the user: typed names are found, names
in a run's folder only if they are trusted.
"""

import json
import os
import subprocess
import sys

import pytest

from rltrain.errors import CheckpointError, RltrainError, UsageError

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
def my_line(own_folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(own_folder))])
    (own_folder / "my_line.py").write_text(MODULE)
    yield own_folder
    sys.modules.pop("my_line", None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("refused", REFUSED)
def test_no_target_of_a_refused_command_is_called(command, own_folder, refused):
    (own_folder / "called_one.py").write_text(CALLED)
    (own_folder / "my.yaml").write_text("callbacks: [{_target_: called_one.make, a: 1}]\n")
    with pytest.raises(RltrainError):
        command(
            *("algo=dqn", "env=cartpole", "total_env_steps=60", "experiment=./my.yaml"),
            *(o for o in SHORT if o.partition("=")[0] not in str(REFUSED[refused])),
            *REFUSED[refused],
        )
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
    assert json.loads((my_line / "run/run.json").read_text())["status"] == "finished"
