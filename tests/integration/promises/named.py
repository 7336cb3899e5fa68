"""Which state of the table has the state of each class, and choices that no state makes."""

SAVED_IN = {
    "algo.exploration.parameter_noise.ParameterNoise": "parameter_noise",
    "algo.learner.Learner": "dqn",
    "interfaces.TargetUpdates": "dqn",
    "algo.optimizer.GradientStep": "dqn",
    "algo.policy.Policy": "r2d2",
    "algo.policy.Frames": "frame_stack",
    "algo.reward_norm.RewardNorm": "reward standardize",
    "buffer.episode.EpisodeBuffer": "qmix",
    "buffer.on_policy.OnPolicyBuffer": "pqn",
    "buffer.priorities.Priorities": "prioritized",
    "buffer.replay.ReplayBuffer": "dqn",
    "buffer.priorities.SumTree": "prioritized",
    "buffer.window_starts.WindowStarts": "dqn",
    "callback.health.Health": "dqn",
    "callback.hooks.Callbacks": "dqn",
    "callback.hooks.Due": "dqn",
    "callback.log.Log": "dqn",
    "callback.save.Save": "dqn",
    "callback.snapshots.SaveSnapshots": "self_play",
    "callback.test.Test": "dqn",
    "callback.video.RecordVideo": "video",
    "common.machine.usage.Usage": "dqn",
    "common.metrics.Metrics": "dqn",
    "env.games.classic_control.ClassicControl": "dqn",
    "env.games.lockstep.GameEnv": "qmix",
    "algo.scripted.Scripted": "opponents",
    "battles.engine.battles.Battles": "battle",
    "battles.engine.enemy_side.EnemySide": "opponents",
    "battles.native.NativeBattles": "battle",
    "battles.scripted.policies.BattleDecisions": "opponents",
    "env.smac.several_maps.SeveralMaps": "several maps",
    "env.smac.vector.SmacVectorEnv": "battle",
    "env.team.adapter.TeamEnv": "own team",
    "env.team.two_teams.TwoTeamEnv": "two teams",
    "env.team.two_teams.TwoTeamVectorEnv": "two teams",
    "env.vector.SyncVectorEnv": "conv",
    "examples.curriculum.Curriculum": "curriculum",
    "examples.penalty.ActionPenalty": "penalty",
    "hardware.rollout_opponents.Opponents": "opponents",
    "hardware.process.rollout.ProcessRollout": "overlap",
    "hardware.process.worker.Worker": "overlap",
    "hardware.self_play.SelfPlay": "self_play",
    "hardware.rollout.Rollout": "dqn",
    "logger.loggers.Loggers": "dqn",
    "offline.dataset.Reader": "dataset.read",
    "offline.dataset_recorder.DatasetRecorder": "dataset.write",
    "offline.writer.Writer": "dataset.write",
    "step_hooks.TrainingStepHooks": "penalty",
    "trainer.Trainer": "dqn",
}
"""Classes with a ``state_dict``, below ``rltrain``, and a state of the table that has them."""

NOT_SAVED_IN_RUNS = {
    "algo.scripted.NoDecisions": "policies without learning are only evaluated",
    "algo.exploration.interface.ExplorationOfShare": "the state of an exploration of one's own",
    "common.stateful.Stateful": "the empty state of a part that keeps nothing: test_own_parts.py",
    "env.atari.AtariVectorEnv": "the package is an extra: tests/env/test_atari.py",
    "env.minatar.MinAtarGame": "the package is an extra: tests/env/test_minatar.py",
    "env.smac.several_maps.SeveralDecisions": "policies without learning are only evaluated",
    "env.smac.starcraft2.games.Games": "StarCraft II cannot save a game: its state says so",
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
