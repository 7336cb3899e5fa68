"""What tests play and how they judge can be changed without touching training."""

import json

import gymnasium
import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.common.metrics import test_metrics as checked_metrics
from rltrain.config.trust import gate
from rltrain.config.validate.checker import check
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import over

HERE = __name__
CARTPOLE = ["algo=dqn", "env=cartpole", "test.n_envs=2", "test.episodes=3", "hardware.n_envs=2"]
CARTPOLE += ["buffer.capacity=1000", "logger.wandb.mode=disabled", "hardware.threads=1"]


def share_of_wins(trainer, episodes, *, at_least=0.0):
    """A test function: the share of episodes with enough return."""
    played = trainer.play(episodes)
    return {"share": sum(e.episode_return >= at_least for e in played) / len(played)}


class Constant:
    """A test that is an object."""

    def __init__(self, *, value):
        self.value = value

    def __call__(self, trainer, episodes):
        return {"return_mean": self.value, "custom/episodes": episodes}


def test_tests_have_options_of_their_own(tmp_path):
    overrides = [*CARTPOLE, "+test.env.max_episode_steps=7", "total_env_steps=40"]
    overrides += ["save.interval=1e6"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    assert trainer.test(episodes=2)["test/episode_length_mean"] <= 7
    assert (trainer.rollout.env.spec.max_steps, trainer.test_rollout.env.n_envs) == (500, 2)


def test_options_of_tests_lie_over_those_of_training():
    overrides = [*CARTPOLE, "env.reward_clip=2", "+env.kwargs.a=1", "+test.env.kwargs.b=2"]
    nodes = settings_from([*overrides, "+test.env.max_episode_steps=1e2"]).nodes
    assert nodes["env"].kwargs["kwargs"] == {"a": 1}
    own = nodes["test.env"].kwargs
    found = own["kwargs"], own["reward_clip"], own["max_episode_steps"]
    assert found == ({"a": 1, "b": 2}, 2, 100)


def again(settings):
    """The settings as they are read from a ``config.json``."""
    return check(json.loads(json.dumps(settings.plain)), dict(settings.choices), {})


def test_what_was_typed_for_tests_is_recorded_and_read_again():
    settings = settings_from([*CARTPOLE, "+test.env.max_episode_steps=1e2"])
    assert settings.plain["test"]["env"] == {"max_episode_steps": 100}
    assert again(settings).nodes["test.env"].kwargs["max_episode_steps"] == 100


TRAIN = {"a": 1, "m": {"x": 1}}
EMPTIED = [
    (["env.kwargs={}"], {}, {}),
    (["env.kwargs.m={}"], {"a": 1, "m": {}}, {"a": 1, "m": {}}),
    (["env.kwargs={m: {}}"], {"a": 1, "m": {}}, {"a": 1, "m": {}}),
    (["+test.env.kwargs={}"], TRAIN, {}),
    (["test.env={kwargs: {}}"], TRAIN, {}),
    (["test.env={kwargs: {m: {}}}"], TRAIN, {"a": 1, "m": {}}),
    (["+test.env.kwargs={b: 2}"], TRAIN, {**TRAIN, "b": 2}),
    (["+test.env.kwargs={b: 2}", "test.env.kwargs={}"], TRAIN, {}),
    (["+test.env.kwargs={b: 2}", "test.env={kwargs: {}}"], TRAIN, {}),
    (["+test.env.kwargs={b: 2}", "test.env={}"], TRAIN, TRAIN),
    (["+test.env.kwargs={b: 2}", "test.env.kwargs.b=3"], TRAIN, {**TRAIN, "b": 3}),
]


@pytest.mark.parametrize(("words", "training", "testing"), EMPTIED)
def test_an_empty_mapping_empties_what_free_form_nodes_hold(words, training, testing):
    settings = settings_from([*CARTPOLE, "+env.kwargs={a: 1, m: {x: 1}}", *words])
    for found in (settings, again(settings)):
        kwargs = [found.nodes[name].kwargs["kwargs"] for name in ("env", "test.env")]
        assert kwargs == [training, testing]


def test_tests_cannot_look_different(tmp_path):
    with pytest.raises(UsageError, match=r"frame_stack is 4 in tests, 1 in training"):
        rltrain.make_trainer([*CARTPOLE, "+test.env.frame_stack=4"], run_dir=tmp_path)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (f"{HERE}.share_of_wins", {"test/share": 1.0}),
        (f"{{_target_: {HERE}.share_of_wins, at_least: 100}}", {"test/share": 0.0}),
        (
            f"{{_target_: {HERE}.Constant, value: 2}}",
            {"test/return_mean": 2.0, "custom/episodes": 4.0},
        ),
    ],
)
def test_a_function_can_stand_in_for_the_test(small, tmp_path, function, expected):
    trainer = rltrain.make_trainer([*small, f"test.function={function}"], run_dir=tmp_path)
    assert trainer.test() == expected


def test_a_run_without_returns_in_its_tests_finishes(small):
    words = [f"test.function={HERE}.share_of_wins", "total_env_steps=60", "logger.console=true"]
    result = rltrain.train(over(small, *words, "stop.metric=test/share", "stop.value=1"))
    assert result.metrics["test/share"] == 1.0
    assert not (result.run_dir / "checkpoints/best").exists()
    assert "test/return_mean" in rltrain.evaluate(result.run_dir, episodes=2).metrics


@pytest.mark.parametrize("said", [None, {}, [1], {1: 2.0}, {"a": "high"}])
def test_a_test_function_must_say_numbers(said):
    with pytest.raises(UsageError, match=r"test\.function returned .*expected"):
        checked_metrics(said)


def test_a_test_function_of_a_loaded_run_needs_trust(tmp_path):
    tree = settings_from([]).plain
    tree["test"]["function"] = "os.system"
    with pytest.raises(CheckpointError, match=r"os\.system.*trust=\[os\]"):
        gate(tree, tmp_path)
    gate(tree, tmp_path, trust=["os"])


def test_an_environment_handed_over_has_tests_of_its_own(tmp_path):
    words = ["env=gymnasium", "env.max_episode_steps=20", "+test.env.max_episode_steps=5"]
    words = over(CARTPOLE, *words)
    trainer = rltrain.make_trainer(words, tmp_path, env=lambda: gymnasium.make("CartPole-v1"))
    assert trainer.test()["test/episode_length_mean"] == 5
