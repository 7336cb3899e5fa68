"""The curriculum: the next task when the metric says so, in the episodes that begin after it."""

from types import SimpleNamespace

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.config.trust import gate, shipped_parts
from rltrain.examples.curriculum import Curriculum

GRAVITY = {"metric": "train/return_mean", "threshold": 5, "tasks": ["a", "b", "c"]}


class Environments:
    """Remembers the tasks it was given."""

    def __init__(self):
        self.tasks = []

    def call(self, method, task):
        assert method == "set_task"
        self.tasks.append(task)


def looking():
    return SimpleNamespace(rollout=Environments(), test_rollout=Environments())


def log(curriculum, trainer, value):
    return curriculum.on_log(trainer, {"train/return_mean": value})["custom/task"]


def test_the_next_task_begins_when_the_metric_reaches_the_threshold():
    curriculum, trainer = Curriculum(**GRAVITY), looking()
    curriculum.on_train_start(trainer)
    stages = [log(curriculum, trainer, x) for x in (4.9, 5.0, 9.0, 4.0, 6.0, 9.0)]
    assert stages == [0, 0, 1, 1, 1, 2]  # the first 1 still counts episodes of the task before
    assert (trainer.rollout.tasks, trainer.test_rollout.tasks) == (["a", "b", "c"], [])


def test_after_the_last_task_nothing_changes():
    curriculum, trainer = Curriculum(**{**GRAVITY, "tasks": ["a"]}), looking()
    assert [log(curriculum, trainer, x) for x in (9, 9, 9)] == [0, 0, 0]
    assert trainer.rollout.tasks == []


def test_lines_without_the_metric_change_nothing():
    curriculum, trainer = Curriculum(**GRAVITY), looking()
    curriculum.on_log(trainer, {"learn/loss": 9.0})
    assert curriculum.present == 0


def test_tests_can_decide_and_play_the_tasks_too():
    curriculum = Curriculum(**{**GRAVITY, "metric": "test/return_mean"}, in_tests=True)
    trainer = looking()
    curriculum.on_test_end(trainer, {"test/return_mean": 5.0})
    assert trainer.rollout.tasks == trainer.test_rollout.tasks == ["b"]


def test_a_test_metric_needs_tests_that_play_the_tasks():
    with pytest.raises(ValueError, match="in_tests: true"):
        Curriculum(**{**GRAVITY, "metric": "test/return_mean"})


def test_a_metric_that_nobody_reports_is_refused():
    with pytest.raises(ValueError, match=r"train/return is not reported .* train/return_mean"):
        Curriculum(**{**GRAVITY, "metric": "train/return"})


def test_its_place_is_saved():
    one, other = Curriculum(**GRAVITY), Curriculum(**GRAVITY)
    log(one, looking(), 9)
    other.load_state_dict(one.state_dict())
    assert (other.present, other.settled) == (1, False)
    trainer = looking()
    other.on_train_start(trainer)
    assert trainer.rollout.tasks == ["b"]


def test_environments_without_tasks_are_refused(small, tmp_path):
    node = "{_target_: rltrain.examples.Curriculum, metric: train/return_mean,"
    node += " threshold: 1, tasks: [1]}"
    trainer = rltrain.make_trainer([*small, f"callbacks=[{node}]"], run_dir=tmp_path)
    with pytest.raises(ValueError, match="have no set_task"):
        trainer.start()


WORDS = ["experiment=examples/curriculum", "test.n_envs=1", "test.episodes=1", "hardware.n_envs=2"]
WORDS += ["algo.learning_starts=50", "buffer.capacity=1000", "logger.wandb.mode=disabled"]
WORDS += ["log.interval=100", "hardware.threads=1"]


def gravities(trainer):
    return [env.env.unwrapped.gravity for env in trainer.rollout.env.envs]


def test_a_shipped_preset_makes_cart_pole_heavier(tmp_path):
    trainer = rltrain.make_trainer(WORDS, run_dir=tmp_path)
    trainer.callbacks.callbacks[0].threshold = 1  # mastered at the first line
    trainer.start()
    trainer.run(250)
    assert trainer.latest["custom/task"] == 1
    assert gravities(trainer) == [14.0, 14.0]
    trainer.save()
    again = rltrain.make_trainer(WORDS, run_dir=tmp_path)
    again.restore(tmp_path)
    assert gravities(again) == [14.0, 14.0]  # the episodes that a resume begins, too
    for each in (trainer, again):
        each.close()


@pytest.mark.parametrize("preset", ["curriculum", "penalty"])
def test_runs_of_the_presets_can_be_resumed_without_trust(tmp_path, preset):
    tree = settings_from([f"experiment=examples/{preset}"]).plain
    assert len(tree["callbacks"]) == 1
    gate(tree, tmp_path)


def test_presets_name_shipped_classes():
    assert {"rltrain.examples.Curriculum", "rltrain.examples.ActionPenalty"} <= shipped_parts()[
        "callbacks"
    ]


@pytest.mark.parametrize("present", [-1, 3, 0.5, "x", None])
def test_a_task_that_is_not_in_the_list_is_refused(present):
    """Defect: a traceback when the run continued."""
    with pytest.raises(ValueError, match="present"):
        Curriculum(**GRAVITY).load_state_dict({"present": present, "settled": True})
