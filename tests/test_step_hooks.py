"""Per-step and per-episode hooks, in training and in tests; none is called unless defined."""

import dataclasses

import numpy as np
import pytest

import rltrain
from rltrain.callback import Callback, Callbacks
from rltrain.step_hooks import TestStepHooks, TrainingStepHooks
from rltrain.types import Episode, Steps


class Diary(Callback):
    """Records the calls of the hooks."""

    def __init__(self):
        self.lines, self.views, self.parts = [], [], []

    def note(self, hook, value):
        self.lines.append((hook, value.test, value.env, value.number, value.t))
        self.views.append((hook, value))
        return value

    def on_episode_start(self, trainer, value):
        return self.note("start", value)

    def on_step(self, trainer, value):
        return self.note("step", value)

    def on_episode_end(self, trainer, value):
        return self.note("end", value)

    def on_trajectory(self, trainer, value):
        self.parts.append(value)
        return value


def collected(last, lost=None):
    """Steps of one agent with rewards 1, 2, … and these final steps [T, E]."""
    last = np.array(last, bool)
    n_steps, n_envs = last.shape
    reward = np.arange(1, last.size + 1, dtype=np.float32).reshape(n_steps, n_envs, 1)
    return Steps(
        obs=reward[..., None] * 10,
        avail_actions=np.ones((n_steps, n_envs, 1, 2), np.uint8),
        state=np.zeros((n_steps, n_envs, 0), np.float32),
        last=last,
        action=np.zeros((n_steps, n_envs, 1), np.int64),
        reward=reward,
        terminated=np.zeros((n_steps, n_envs), bool),
        lost=np.zeros(n_envs, bool) if lost is None else np.array(lost),
        episodes=tuple(Episode(float(i), 1) for i in range(int(last.sum()))),
    )


def recorded(*collects):
    diary, hooks = Diary(), TrainingStepHooks()
    for steps in collects:
        hooks.replay(None, diary, steps)
    return diary


def test_a_collect_is_replayed_in_order_of_time():
    diary = recorded(collected([[0, 0], [1, 0], [0, 1]]))
    assert diary.lines == [
        ("start", False, 0, 0, 0),
        ("step", False, 0, 0, 0),
        ("start", False, 1, 0, 0),
        ("step", False, 1, 0, 0),
        ("end", False, 0, 0, 1),
        ("step", False, 1, 0, 1),
        ("start", False, 0, 1, 0),
        ("step", False, 0, 1, 0),
        ("end", False, 1, 0, 2),
    ]


def test_every_view_carries_what_its_hook_is_about():
    diary = recorded(collected([[0, 0], [1, 0], [0, 1]]))
    start, step = diary.views[0][1], diary.views[1][1]
    assert (start.action, start.reward, start.episode) == (None, None, None)
    assert (step.obs.item(), step.action.item(), step.reward.item()) == (10, 0, 1)
    ends = [m.episode for hook, m in diary.views if hook == "end"]
    assert [e.episode_return for e in ends] == [0.0, 1.0]


def test_an_episode_goes_on_over_collects_and_a_lost_one_begins_anew():
    diary = recorded(collected([[0]]), collected([[0]]), collected([[0]], lost=[True]))
    assert [line[0] for line in diary.lines] == ["start", "step", "step", "start", "step"]
    assert [line[4] for line in diary.lines] == [0, 0, 1, 0, 0]


def test_trajectories_are_what_each_collect_added_to_each_episode():
    diary = recorded(collected([[0], [1], [0]]), collected([[0], [1], [0]]))
    facts = [(p.number, p.begins, p.ends, p.reward[:, 0].tolist()) for p in diary.parts]
    assert facts == [
        (0, True, True, [1, 2]),
        (1, True, False, [3]),
        (1, False, True, [1, 2]),
        (2, True, False, [3]),
    ]


def test_state_goes_on_in_mid_episode():
    one, other, diary = TrainingStepHooks(), TrainingStepHooks(), Diary()
    one.replay(None, Callback(), collected([[0], [0]]))
    other.load_state_dict(one.state_dict())
    other.replay(None, diary, collected([[1]]))
    assert diary.lines == [("end", False, 0, 0, 2)]


class Env:
    """The arrays of a vector environment of two environments."""

    def __init__(self):
        self.obs = np.zeros((2, 1, 1), np.float32)
        self.avail_actions, self.state = np.ones((2, 1, 2), np.uint8), np.zeros((2, 0))
        self.lost = np.zeros(2, bool)


def test_tests_tell_only_the_episodes_that_count():
    diary, env = Diary(), Env()
    watch = TestStepHooks(None, diary, 2)
    watch(env, [0, 1], {})
    env.obs[:] = 9  # the next step overwrites this one
    watch.stepped(np.zeros((2, 1), int), np.ones((2, 1)), np.array([True, False]))
    watch(env, [0, 1], {0: Episode(1.0, 1)})
    watch.stepped(np.zeros((2, 1), int), np.ones((2, 1)), np.array([False, False]))
    watch(env, [2, 1], {})
    assert diary.lines == [
        ("start", True, 0, 0, 0),
        ("start", True, 1, 1, 0),
        ("step", True, 0, 0, 0),
        ("step", True, 1, 1, 0),
        ("end", True, 0, 0, 1),
        ("step", True, 1, 1, 1),
    ]
    assert [m.obs.item() for hook, m in diary.views if hook == "step"] == [0, 0, 9]
    assert [m.terminated for hook, m in diary.views if hook == "step"] == [True, False, False]


def test_a_test_episode_that_was_lost_begins_anew():
    diary, env = Diary(), Env()
    watch = TestStepHooks(None, diary, 1)
    watch(env, [0, 1], {})
    env.lost[0] = True
    watch.stepped(np.zeros((2, 1), int), np.ones((2, 1)), np.zeros(2, bool))
    watch(env, [0, 1], {})
    assert [line[0] for line in diary.lines] == ["start", "start"]


@pytest.fixture
def trainer(small, tmp_path):
    trainer = rltrain.make_trainer([*small, "test.episodes=3"], run_dir=tmp_path)
    yield trainer
    trainer.close()


def test_a_run_tells_every_step_of_training_and_tests(trainer):
    diary = Diary()
    trainer.callbacks = Callbacks([diary])
    trainer.run(60)
    trainer.test()
    steps = [line for line in diary.lines if line[0] == "step"]
    assert sum(not line[1] for line in steps) == trainer.clock.env_steps
    assert sum(line[1] for line in steps) == 3 * 2  # the game has two steps
    ends = [m.episode for hook, m in diary.views if hook == "end" and not m.test]
    assert len(ends) == trainer.clock.episodes
    assert all(e.length == 2 for e in ends)
    assert sorted(line[3] for line in diary.lines if line[:2] == ("end", True)) == [0, 1, 2]


def test_what_is_written_into_a_trajectory_is_stored(trainer):
    class Seven(Callback):
        def on_trajectory(self, trainer, value):
            value.reward[:] = 7
            return value

    trainer.callbacks = Callbacks([Seven()])
    trainer.run(60)
    batch = trainer.buffer.sample(4, trainer.clock)
    assert set(batch.reward[batch.mask].flatten().tolist()) == {7.0}


def test_updates_hand_on_their_result(trainer):
    class Tripled(Callback):
        def __init__(self):
            self.updates = []

        def on_update(self, trainer, value):
            self.updates.append(trainer.clock.updates)
            return value._replace(metrics={"loss": 3.0})

    tripled = Tripled()
    trainer.callbacks = Callbacks([tripled])
    trainer.run(100)
    assert tripled.updates == list(range(trainer.clock.updates))
    assert trainer.metrics.take()["learn/loss"] == 3.0


def test_a_logged_line_can_be_added_to(trainer):
    class Added(Callback):
        def on_log(self, trainer, value):
            return {**value, "custom/lines": 1.0}

    trainer.callbacks = Callbacks([Added(), *trainer.callbacks.callbacks])
    assert trainer.iterate()["custom/lines"] == 1.0


def test_no_view_is_made_unless_a_hook_is_defined(trainer, monkeypatch):
    def never(*args):
        raise AssertionError("a view was made although no hook is defined")

    monkeypatch.setattr(TrainingStepHooks, "replay", never)
    monkeypatch.setattr(TestStepHooks, "__call__", never)
    trainer.run(30)
    trainer.test()


def test_views_are_frozen():
    diary = recorded(collected([[0]]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        diary.views[0][1].t = 5


class Pays(Callback):
    """Returns another trajectory with other rewards, and one of another length if asked."""

    def __init__(self, cut=0):
        self.cut = cut

    def on_trajectory(self, trainer, value):
        reward = np.full_like(value.reward, 100)
        return dataclasses.replace(value, reward=reward[self.cut :])


def test_a_trajectory_that_is_returned_is_stored():
    """Defect: only changes within the arrays that were passed were."""
    steps = collected([[0, 0], [1, 0], [0, 1]])
    TrainingStepHooks().replay(None, Callbacks([Pays()]), steps)
    assert (steps.reward == 100).all()
    said = r"returned reward of the shape \(1, 1\): expected \(2, 1\)"
    with pytest.raises(Exception, match=said):
        TrainingStepHooks().replay(None, Callbacks([Pays(cut=1)]), steps)


@pytest.mark.parametrize("value", [10**25, 1, [[True]], ["x"], {}])
@pytest.mark.parametrize("name", ["open", "begun", "t"])
def test_saved_arrays_of_anything_else_are_refused(name, value):
    """Defect: the next checkpoint could not be written."""
    hooks = TrainingStepHooks()
    with pytest.raises(TypeError, match=f"step_hooks.{name}"):
        hooks.load_state_dict({**hooks.state_dict(), name: value})
