"""An environment that is passed from Python: trained, remembered, played again."""

import shutil

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rltrain
from rltrain.common.files import get_json
from rltrain.env.games.matrix import TwoStepGames
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import over, without

WORDS = ["algo=dqn", "algo.learning_starts=8", "test.interval=1_000_000", "test.episodes=2"]
WORDS += ["test.n_envs=1", "hardware.n_envs=2", "hardware.threads=1", "log.interval=20"]

LIMIT = ["env=gymnasium", "env.max_episode_steps=6"]  # without it greedy agents may walk forever


class Corridor(gymnasium.Env):
    """Five places in a row; action 1 leads to the last one, where a reward of ``prize`` waits."""

    def __init__(self, prize: float = 3.0) -> None:
        self.prize = prize
        self.action_space, self.observation_space = spaces.Discrete(2), spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = max(0, min(4, self.place + (1 if action else -1)))
        there = self.place == 4
        return self.place, self.prize * there, there, False, {}


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """A run of ten episodes or so on a limited corridor."""
    folder = tmp_path_factory.mktemp("corridor") / "run"
    trainer = rltrain.make_trainer([*WORDS, *LIMIT], folder, env=Corridor)
    trainer.iterate()
    trainer.save("weights")
    trainer.close()
    return folder


@pytest.fixture
def run(run_once, tmp_path):
    return shutil.copytree(run_once, tmp_path / "run")


def test_the_keys_of_env_hold_for_it(tmp_path):
    overrides = ["env=gymnasium", "env.frame_stack=2", "env.reward_clip=1"]
    overrides += ["env.time_limit=terminal", "env.max_episode_steps=5", "+env.kwargs.prize=7"]
    trainer = rltrain.make_trainer([*WORDS, *overrides], tmp_path, env=Corridor)
    env = trainer.rollout.env
    assert (env.spec.frame_stack, env.spec.max_steps, env.time_limit) == (2, 5, "terminal")
    assert (env.reward_clip, env.envs[0].env.unwrapped.prize) == (1, 7)
    assert trainer.test_rollout.env.reward_clip is None


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["env=cartpole"], "leave out one of the two"),
        (["env=trading", "env.window=3"], "leave out one of the two"),
        (["env=gymnasium", "env.id=CartPole-v1"], "options of another one"),
        (["env.map_name=8m"], "options of another one"),
        (["env=gymnasium", "test.env.team=[x]"], r"test.env.team=\[x\].*env.reward_clip"),
        (["env=pettingzoo", "env.team=[x]"], r"env.team=\[x\].*env.reward, env.channels\.$"),
        (["env=pettingzoo", "+env.reward_clip=1"], r"reward_clip=1: .*env.channels\.$"),
    ],
    ids=lambda x: str(x)[:24],
)
def test_another_environment_and_its_options_are_refused(overrides, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer([*WORDS, *overrides], tmp_path / "run", env=Corridor)
    assert not (tmp_path / "run").exists()


def test_a_keyword_that_the_class_does_not_take_can_be_left_out(tmp_path):
    words = [*WORDS, "+env.kwargs.size=2"]
    with pytest.raises(UsageError, match=r"'size'.*size: 2.*Type ~env\.kwargs\.size to leave it"):
        rltrain.make_trainer(words, tmp_path / "run", env=Corridor)
    rltrain.make_trainer([*words, "~env.kwargs.size"], tmp_path / "run", env=Corridor).close()


def test_its_policy_is_loaded_without_it(run, monkeypatch):
    monkeypatch.delattr(f"{__name__}.Corridor")
    policy = rltrain.load_policy(run)
    policy.reset()
    assert policy.act(np.eye(5)[:1], np.ones((1, 2))) in (0, 1)


def test_it_is_played_again_when_handed_over_again(run):
    result = rltrain.evaluate(run, episodes=3, env=Corridor)
    assert 0 <= result.metrics["test/return_mean"] <= 3
    assert result.metrics["test/episode_length_mean"] <= 6  # its options are remembered
    said = get_json(run / "evaluation.json")
    assert said["what"] == f"dqn on own {__name__}:Corridor, seed 0"


def test_it_is_imported_by_name_only_if_trusted(run):
    with pytest.raises(CheckpointError, match=r"trust=\[tests\]"):
        rltrain.evaluate(run, episodes=3)
    handed = rltrain.evaluate(run, episodes=3, env=Corridor)
    assert rltrain.evaluate(run, episodes=3, trust=["tests"]).metrics == handed.metrics


def test_the_command_plays_it_too(run, command):
    assert command("mode=evaluate", f"checkpoint={run}", "test.episodes=2", "trust=[tests]") == 0


def corridor(**names):
    return type("Own", (Corridor,), names)


UNNAMED = {
    "without a name": lambda: Corridor(),
    "of a function": corridor(__qualname__="corridor.<locals>.Own"),
    "of a script": corridor(__module__="__main__"),
    "of a class": corridor(__qualname__="Outer.Own"),
}


@pytest.mark.parametrize("kind", UNNAMED)
def test_what_only_python_can_name_is_asked_for_at_once(kind, tmp_path):
    """Defect: trust=[…] was advised first, and did not help."""
    rltrain.make_trainer(WORDS, tmp_path, env=UNNAMED[kind]).save("weights")
    with pytest.raises(CheckpointError, match=r"pass it again: .*env=YOUR_CLASS"):
        rltrain.evaluate(tmp_path)
    if kind == "without a name":
        with pytest.raises(UsageError, match="Pass it again"):
            rltrain.evaluate(tmp_path, episodes=1, trust=["tests"])


def test_the_weights_can_be_exported(tmp_path):
    trainer = rltrain.make_trainer([*WORDS, *LIMIT], tmp_path / "run", env=Corridor)
    trainer.iterate()
    before = sorted((tmp_path / "run").rglob("*"))
    folder = trainer.export(tmp_path / "given")
    assert folder == tmp_path / "given" / str(trainer.clock.env_steps)
    assert sorted((tmp_path / "run").rglob("*")) == before
    policy = rltrain.load_policy(folder)
    seen = [np.eye(5)[i : i + 1] for i in range(5)]
    policy.reset()
    ours = [trainer.compute_single_action(i) for i in range(5)]
    assert [int(policy.act(obs, np.ones((1, 2)))[0]) for obs in seen] == ours


def test_a_batched_environment_trains_like_the_one_that_is_named(small, tmp_path):
    overrides = [*without(small, "env="), "algo=qmix"]
    named = rltrain.make_trainer([*overrides, "env=two_step"], tmp_path / "named")
    handed = rltrain.make_trainer(overrides, tmp_path / "handed", env=TwoStepGames)
    for trainer in (named, handed):
        trainer.run(60)
    assert handed.rollout.env.n_envs == 3
    assert handed.clock.updates > 0
    ours, theirs = (each.learner.online.state_dict() for each in (handed, named))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    handed.save()
    assert rltrain.evaluate(tmp_path / "handed", 2, env=TwoStepGames).metrics


def test_what_a_batched_environment_does_itself_is_refused(small, tmp_path):
    words = over(small, "env=gymnasium", "algo=qmix", "env.frame_stack=2")
    with pytest.raises(UsageError, match=r"env.frame_stack=2: .* batched environment"):
        rltrain.make_trainer(words, tmp_path, env=TwoStepGames)


Vector = gymnasium.vector.SyncVectorEnv
NO_MAKER = r"expected a class of Gymnasium or PettingZoo, or a factory"
VECTOR = r"vector environment of Gymnasium.*lambda: gymnasium\.make\(\.\.\.\).*hardware\.n_envs"
NO_MAKERS = {
    "an object": (Corridor(), NO_MAKER),
    "a name": ("CartPole-v1", NO_MAKER),
    "a class of vectors": (Vector, VECTOR),
    "a factory of vectors": (lambda: Vector([Corridor]), VECTOR),
    "a batched factory of vectors": (lambda n_envs: Vector([Corridor] * n_envs), VECTOR),
}


@pytest.mark.parametrize("kind", NO_MAKERS)
def test_what_is_no_maker_is_refused_with_what_to_pass(tmp_path, kind):
    """Defect: to pass the class of vectors was advised, and one of n_envs was called a single
    environment.
    """
    env, said = NO_MAKERS[kind]
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer(WORDS, tmp_path, env=env)
