"""Every class with a state and every shipped choice is in the table of states, or it is said why
not.
"""

import ast
from collections import defaultdict

import pytest

from rltrain.config.catalog import CONF
from rltrain.config.compose import compose_checked
from rltrain.config.python_objects import env_overrides
from tests.integration.promises.checks import CHECKS
from tests.integration.promises.states import ACTS_AS, PROMISES, STATES, Refused, typed_words
from tests.test_floors import PACKAGE

SAVED = {
    "dqn": "algo.learner.Learner interfaces.TargetUpdates algo.optimizer.GradientStep "
    "buffer.replay.ReplayBuffer buffer.windows.WindowStarts callback.stop.Health "
    "callback.hooks.Callback callback.hooks.Callbacks callback.hooks.Due callback.log.Log "
    "callback.save.Save callback.test.Test common.machine.time_and_memory.Usage "
    "common.metrics.Metrics env.games.classic_control.ClassicControl hardware.rollout.Rollout "
    "logger.metric_files.JsonLines logger.loggers.Loggers trainer.Trainer",
    "parameter_noise": "algo.exploration.parameter_noise.ParameterNoise",
    "r2d2": "algo.policy.Policy",
    "frame_stack": "algo.policy.Frames",
    "reward standardize": "algo.normalization.RewardNorm",
    "qmix": "buffer.episode.EpisodeBuffer env.games.lockstep.GameEnv",
    "pqn": "buffer.on_policy.OnPolicyBuffer",
    "prioritized": "buffer.priorities.Priorities",
    "self_play": "callback.save.SaveSnapshots hardware.rollout_opponents.SelfPlay",
    "video": "callback.video.RecordVideo",
    "noisy": "hardware.device.TorchRandom",
    "opponents": "algo.scripted.Scripted battles.engine.enemy_side.EnemySide "
    "battles.scripted.policies.BattleDecisions hardware.rollout_opponents.Opponents",
    "battle": "battles.engine.battles.Battles battles.native.NativeBattles "
    "env.smac.vector.SmacVectorEnv",
    "several maps": "env.smac.several_maps.SeveralMaps",
    "own team": "env.team.adapter.TeamEnv",
    "two teams": "env.team.two_teams.TwoTeamVectorEnv",
    "conv": "env.vector.SyncVectorEnv",
    "curriculum": "examples.curriculum.Curriculum",
    "penalty": "examples.penalty.ActionPenalty step_hooks.TrainingStepHooks",
    "overlap": "hardware.process.rollout.ProcessRollout hardware.process.worker.Worker",
    "dataset.read": "offline.dataset.Reader",
    "dataset.write": "offline.dataset_recorder.DatasetRecorder offline.writer.Writer",
}
SAVED_IN = {name: state for state, names in SAVED.items() for name in names.split()}
"""Classes with a ``state_dict``, below ``rltrain``, and a state of the table that has them."""

NOT_SAVED_IN_RUNS = {
    "algo.exploration.interface.ExplorationOfShare": "the state of an exploration of one's own",
    "common.stateful.Stateful": "the empty state of a part that keeps nothing: test_own_parts.py",
    "env.atari.AtariVectorEnv": "the package is an extra: tests/env/test_atari.py",
    "env.minatar.MinAtarGame": "the package is an extra: tests/env/test_minatar.py",
    "env.smac.several_maps.SeveralDecisions": "policies without learning are only evaluated",
    "env.smac.starcraft2.games.Games": "StarCraft II cannot save a game: its state says so",
    "logger.background.InBackground": "of wandb and Trackio: tests/logger/test_wandb.py",
    "logger.tensorboard.TensorBoard": "tests/logger/test_tensorboard.py",
    "mode.run_folder.Record": "sums of files that few environments read: test_outside.py",
}
"""Others, and why."""

EXTRAS = "its package is an extra or it is slow: tests/env and the kind determinism have it"
ELSEWHERE = {
    "env": {
        **dict.fromkeys(("atari", "lunarlander", "minatar", "smaclite"), EXTRAS),
        **dict.fromkeys(("magent", "rware"), EXTRAS),
    },
    "algo": {"scripted": "policies without learning are only evaluated"},
    "hardware": {
        "cpu": "the same as auto on a machine without a GPU",
        "cuda": "needs a GPU: tests/hardware/test_device.py",
        "ddp": "the promise of that name",
        "ray": "the promise of that name",
    },
    "logger": dict.fromkeys(
        ("csv", "tensorboard", "trackio", "wandb"),
        "sees rows of metrics and changes nothing: the kind determinism has other loggers",
    ),
    "tune": dict.fromkeys(("dqn", "qmix"), "keys to search, of which each trial is a run"),
    "tuned": dict.fromkeys(
        ("dqn-acrobot", "dqn-cartpole", "dqn-lunarlander", "dqn-mountaincar"),
        "plain values of keys that the states have",
    ),
    "experiment": {"*": "combines choices of the other groups: tests/integration/test_presets.py"},
    "algo/shared": {"*": "parts of the files of algo"},
    "algo/loss/shared": {"*": "parts of the files of algo/loss"},
}
"""Choices that no state makes, by group; ``*`` stands for all of a folder."""


HOW = "Add a small run that has it to tests/integration/promises/states.py and name it there"


def classes_with_a_state():
    """Classes that define ``state_dict`` with a body, or its names, as ``module.Class`` below
    rltrain.
    """
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        has = "state_dict" in text or "state_names" in text
        for node in ast.walk(ast.parse(text)) if has else ():
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                names = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
                names |= {ast.unparse(m.targets[0]) for m in node.body if isinstance(m, ast.Assign)}
                if names & {"state_dict", "state_names"}:
                    yield f"{module}.{node.name}"


def test_every_class_with_a_state_is_in_a_state_of_the_table():
    found, named = set(classes_with_a_state()), {*SAVED_IN, *NOT_SAVED_IN_RUNS}
    assert found - named == set(), f"{HOW}, in SAVED_IN above."
    assert named - found == set(), "The table names classes that there are no more."
    assert set(SAVED_IN.values()) <= set(STATES)


def test_every_pair_is_tried_or_has_a_reason():
    assert set(CHECKS) == set(PROMISES)
    for name, state in STATES.items():
        assert set(state.without) <= set(PROMISES), name
        reasons = [why for why in state.without.values() if not isinstance(why, Refused)]
        assert all(len(why.split()) > 3 for why in reasons), name


@pytest.mark.slow
def test_every_shipped_choice_is_made_by_a_state():
    made = defaultdict(set)
    nodes = {}
    for name, state in STATES.items():
        composed = compose_checked(env_overrides([*typed_words(*state.words).values()], state.env))
        nodes[name] = [composed.tree["algo"][part] for part in ("network", "distribution")]
        for group, choice in composed.choices.items():
            made[group].add(str(choice))
    missing = []
    for path in sorted(CONF.rglob("*/*.yaml")):
        group, *deeper = path.relative_to(CONF).parent.as_posix().split("/")
        whole = "/".join((group, *deeper))
        reasons = {**ELSEWHERE.get(group, {}), **ELSEWHERE.get(whole, {})}
        if path.stem not in made[whole] and not {path.stem, "*"} & set(reasons):
            missing.append(f"{whole}={path.stem}")
    assert missing == [], f"{HOW}, or a reason in ELSEWHERE above."
    for other, names in ACTS_AS.items():
        for name in names:
            assert nodes[name] == nodes[other], (name, other)
