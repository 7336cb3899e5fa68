"""Which state of the table has the state of each class, and choices that no state makes."""

STATES = {
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
SAVED_IN = {name: state for state, names in STATES.items() for name in names.split()}
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
