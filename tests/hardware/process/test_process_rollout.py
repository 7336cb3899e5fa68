"""Rollouts in worker processes: the data of one process, whatever happens to a worker."""

import signal
from contextlib import closing
from multiprocessing import forkserver

import psutil
import pytest
import torch

import rltrain
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.exploration.interface import Exploration
from rltrain.errors import EnvError, UsageError
from tests.hardware.process import faults
from tests.helpers import require_same
from tests.marks import slow_except

SMALL = [
    *("algo=dqn", "tuned=none", "hardware.threads=1", "hardware.n_envs=5", "test.episodes=2"),
    *("test.interval=1000000", "algo.learning_starts=32", "algo.batch_size=8"),
    *("algo.exploration.env_steps=100", "algo.network.hidden_sizes=[16]", "total_env_steps=200"),
]
PROCESS = ["hardware=process", "hardware.n_workers=2"]


@pytest.fixture
def faults_folder(tmp_path, monkeypatch):
    """Workers have the environment variables of the server that forks them, so a new one starts."""
    monkeypatch.setenv("FAULTS", str(tmp_path))
    forkserver._forkserver._stop()


def test_a_signal_to_all_processes_of_a_run_is_left_to_the_run(tmp_path):
    """Defect: those of a cluster ended the workers, and what the run saved was without them."""
    forkserver._forkserver._stop()
    run = [*SMALL, *PROCESS, "env=cartpole"]
    with closing(rltrain.make_trainer(run, run_dir=tmp_path)) as trainer:
        trainer.run(50)
        server = psutil.Process(forkserver._forkserver._forkserver_pid)
        workers = server.children()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT):
            for process in (server, *workers):
                process.send_signal(number)
        trainer.run(150)
        assert (len(workers), trainer.rollout.state_dict()["replaced"]) == (2, 0)
        assert server.children() == workers


class Counting(EpsilonGreedy):
    """Epsilon falls with every call."""

    calls, metrics = 0, Exploration.metrics

    def epsilon(self, clock):
        self.calls += 1
        return max(0.1, 1 - self.calls / 50)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def trained(overrides, folder, resume=False):
    """Learner, buffer and what the exploration counted after a whole run."""
    with closing(rltrain.make_trainer(overrides, run_dir=folder)) as trainer:
        if resume:
            trainer.restore(folder)
        trainer.train()
        return {
            "learner": trainer.learner.state_dict(),
            "buffer": trainer.buffer.state_dict(),
            "exploration": trainer.actor.exploration.state_dict(),
        }


def resumed(overrides, folder):
    """Learner and buffer after a run that was interrupted."""
    with closing(rltrain.make_trainer(overrides, run_dir=folder)) as trainer:
        trainer.run(120)
        trainer.save()
    return trained(overrides, folder, resume=True)


def require_whole_episodes(trainer):
    """Every stored transition leads from a step of an episode to its next one."""
    stored = trainer.buffer
    batch = stored.sample(512, trainer.clock)
    number, t = batch.obs[:, :, 0, 0].numpy(), batch.obs[:, :, 0, 1].numpy()
    real = batch.mask.numpy()
    assert real.any()
    assert (number[1:] == number[:-1])[real].all()
    assert (t[1:] == t[:-1] + 1)[real].all()


APEX = [
    *(word for word in SMALL if not word.startswith("algo.exploration")),
    *("buffer=prioritized", "buffer.initial_priority=td_error", "algo/exploration=per_env"),
    *("algo.loss.n_step=3", "algo.network.dueling=true"),
]

NORMALIZED = [*SMALL, "algo.network.normalize_obs=true"]
BOTH = [*APEX, "algo.network.normalize_obs=true"]
COUNTING = [
    *SMALL,
    f"algo.exploration._target_={__name__}.Counting",
    *("algo.exploration.start=1", "algo.exploration.end=0.1"),
]


@pytest.mark.parametrize(
    "words",
    slow_except([BOTH, COUNTING], [NORMALIZED, APEX, BOTH, COUNTING]),
    ids=["dqn", "apex", "both", "counting"],
)
def test_workers_collect_what_one_process_collects(tmp_path, words):
    """Five environments of two workers, to the last bit; a resumed run as well."""
    words = [*words, "env=cartpole"]
    local = trained(words, tmp_path / "local")
    require_same(local, resumed([*words, *PROCESS], tmp_path / "process"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "env", "more"),
    [
        ("dqn", "cartpole", []),
        ("c51", "cartpole", []),
        ("r2d2", "cartpole", []),
        ("vdn", "two_step", []),
        ("qmix", "smac", ["env.backend=native"]),
        ("dqn", "cartpole", [*APEX[-5:-2], "buffer.capacity=30000"]),
        ("r2d2", "cartpole", ["buffer.initial_priority=td_error", "algo/exploration=per_env"]),
        ("qmix", "smac", ["env.backend=native", "algo.network.normalize_obs=true"]),
        ("iql", "two_step", ["algo.network.groups=[[0],[1]]"]),
        ("dqn", "cartpole", ["algo.network._target_=tests.hardware.process.networks.hooked"]),
    ],
    ids=[
        *("dqn", "c51", "r2d2", "vdn", "qmix", "apex", "distributed_r2d2"),
        *("normalized_qmix", "groups", "hooked"),
    ],
)
def test_every_method_collects_the_same_for_20_000_env_steps(tmp_path, algo, env, more):
    kept = [word for word in SMALL if not word.startswith(("algo=", "algo.network", "total"))]
    if "algo/exploration=per_env" in more:
        kept = [word for word in kept if not word.startswith("algo.exploration")]
    words = [*kept, f"algo={algo}", f"env={env}", "total_env_steps=20000", *more]
    words += [] if env == "cartpole" else ["buffer.capacity=100", "algo.learning_starts=0"]
    words += ["algo.updates_per_episode=0.5", "algo.updates_per_env_step=null", "save.interval=1e6"]
    local = trained(words, tmp_path / "local")
    require_same(local, trained([*words, *PROCESS], tmp_path / "process"))


@pytest.mark.slow
@pytest.mark.usefixtures("faults_folder")
@pytest.mark.parametrize("env", [faults.Dies, faults.Hangs, faults.Raises])
def test_a_lost_worker_is_replaced_and_its_open_episodes_dropped(tmp_path, env):
    words = [*SMALL, *PROCESS, "hardware.n_envs=4", "env.timeout=5", "log.interval=50"]
    with closing(rltrain.make_trainer(words, run_dir=tmp_path / "run", env=env)) as trainer:
        trainer.rollout.call("set_task", {"mark": 3})
        result = trainer.train()
        assert trainer.clock.env_steps >= 200
        assert result["time/env_restarts"] == 2
        assert trainer.rollout.call("get_mark") == [3] * 4
        require_whole_episodes(trainer)


@pytest.mark.slow
@pytest.mark.usefixtures("faults_folder")
def test_a_worker_that_cannot_make_its_environment_is_a_lost_one(tmp_path):
    words = [*SMALL, *PROCESS, "hardware.n_workers=1", "total_env_steps=20"]
    with closing(rltrain.make_trainer(words, tmp_path / "a", env=faults.PortAtLast)) as trainer:
        trainer.train()
        assert trainer.clock.env_steps >= 20
    trainer = rltrain.make_trainer(words, tmp_path / "b", env=faults.NoPort)
    said = r"lost 3 times in a row.*port 5000 is in use"
    with closing(trainer), pytest.raises(EnvError, match=said) as caught:
        trainer.train()
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_an_error_in_every_worker_leaves_no_answers_behind(tmp_path):
    """Defect: the next question got the answers to the last one."""
    with closing(rltrain.make_trainer([*SMALL, *PROCESS], run_dir=tmp_path / "run")) as trainer:
        with pytest.raises(AttributeError, match="no_such_method"):
            trainer.rollout.call("no_such_method")
        assert len(trainer.rollout.call("get_avail_actions")) == 5
        trainer.iterate()


@pytest.mark.slow
def test_a_broken_environment_ends_the_run_with_its_state_saved(tmp_path):
    words = [*SMALL, *PROCESS, "hardware.n_workers=1", "hardware.max_restarts=1"]
    with (
        closing(rltrain.make_trainer(words, tmp_path / "run", env=faults.Broken)) as trainer,
        pytest.raises(EnvError, match=r"broken for good.*max_restarts") as caught,
    ):
        trainer.train()
    assert caught.value.exit_code == 4
    env_steps = trainer.clock.env_steps
    with closing(rltrain.make_trainer(words, tmp_path / "run", env=faults.Numbered)) as trainer:
        trainer.restore(tmp_path / "run")
        assert trainer.clock.env_steps == env_steps > 0
        trainer.train()
        require_whole_episodes(trainer)


def test_an_environment_that_cannot_be_sent_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot be sent to worker processes.*hardware=auto"):
        rltrain.make_trainer([*SMALL, *PROCESS], tmp_path / "run", env=lambda: faults.Numbered())


def always(trainer, action):
    """Let the agents prefer one of two actions in every state."""
    with torch.no_grad():
        for parameter in trainer.learner.online.agents.parameters():
            parameter.zero_()
        parameter[action] = 1.0  # the last one is the bias of the action values


@pytest.mark.slow
def test_overlapping_workers_act_with_weights_of_one_iteration_before(tmp_path):
    words = [w for w in SMALL if not w.startswith("algo.exploration")]
    words += [*PROCESS, "hardware.overlap=true", "algo/exploration=greedy", "env=cartpole"]
    shown = []
    with closing(rltrain.make_trainer(words, run_dir=tmp_path / "run")) as trainer:
        for action in (0, 1, 0, 0):
            always(trainer, action)
            steps = trainer.rollout.collect(1, trainer.clock)
            shown.append(set(steps.action[~steps.last].ravel().tolist()))
    assert shown == [{0}, {0}, {1}, {0}]


@pytest.mark.slow
@pytest.mark.parametrize("words", [SMALL, APEX], ids=["dqn", "apex"])
def test_an_overlapping_run_resumes_exactly(tmp_path, words):
    words = [*words, *PROCESS, "hardware.overlap=true", "env=cartpole"]
    require_same(trained(words, tmp_path / "whole"), resumed(words, tmp_path / "run"))


def test_a_worker_that_is_lost_after_a_resume_begins_no_episode_again(tmp_path):
    overrides = [*SMALL, *PROCESS, "env=cartpole"]
    with closing(rltrain.make_trainer(overrides, run_dir=tmp_path / "one")) as one:
        for _ in range(120):
            one.rollout.collect(1, one.clock)
        begun, state = list(one.rollout._workers.episodes), one.rollout.state_dict()
    assert min(begun) > 1
    with closing(rltrain.make_trainer(overrides, run_dir=tmp_path / "two")) as two:
        two.rollout.load_state_dict(state)
        assert two.rollout._workers.episodes == [each["episodes"] for each in state["workers"]]
        two.rollout.abandon(30)
        assert two.rollout._workers.episodes == [30, 30]
