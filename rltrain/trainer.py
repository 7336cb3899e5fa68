"""The training loop: act, store, learn, then call the callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rltrain import trainer_state
from rltrain.callback import Callbacks
from rltrain.callback.training import EvaluationRollouts, TestRecorder
from rltrain.common.checkpoint import Found
from rltrain.common.closing import close_all
from rltrain.common.disk import Disk
from rltrain.common.machine.usage import Usage
from rltrain.common.metrics import Metrics, episode_metrics
from rltrain.common.progress import Progress
from rltrain.common.stopwatch import Stopwatch
from rltrain.errors import UsageError
from rltrain.interfaces import Acting, Buffer, Learning, Rollouts
from rltrain.periodic_tests import PeriodicTests, TestFunction
from rltrain.step_hooks import TrainingStepHooks
from rltrain.types import Clock, Episode, Steps
from rltrain.update_ratio import UpdateRatio


@dataclass(kw_only=True, eq=False, repr=False)
class Trainer:
    """Acts, stores and learns until ``total_env_steps``; everything periodic is a callback.

    Args:
        rollout: experience for learning.
        test_rollout: its own environments, for tests.
        updates_per_episode, updates_per_env_step: gradient steps, exactly one of them set;
            fractions carry over.
        learning_starts: stored steps before the first gradient step.
        keep_last: full checkpoints kept.
        test_function: called in the place of the standard test.
        about: ``{"config": …, "spec": …}``, saved beside the weights.
    """

    rollout: Rollouts
    test_rollout: EvaluationRollouts
    buffer: Buffer
    learner: Learning
    actor: Acting
    callbacks: Callbacks
    run_dir: Path
    total_env_steps: int
    steps_per_collect: int
    batch_size: int
    updates_per_episode: InitVar[float | None]
    updates_per_env_step: InitVar[float | None]
    learning_starts: int
    log_interval: int
    test_episodes: int
    test_seed: int
    keep_last: int
    about: Mapping[str, Any]
    test_function: TestFunction | None = None

    def __post_init__(
        self, updates_per_episode: float | None, updates_per_env_step: float | None
    ) -> None:
        ratios = (Fraction(str(x or 0)) for x in (updates_per_env_step, updates_per_episode))
        self.update_ratio = UpdateRatio(*ratios)
        self.clock = Clock()
        self.iterations = 0  # calls of ``iterate``
        self.metrics = Metrics()
        self.step_hooks, self.tests = TrainingStepHooks(), PeriodicTests(self)
        self.latest: dict[str, float] = {}  # every metric's last reported value
        self.progress, self.stopwatch = Progress(), Stopwatch()
        self.stopping: str | None = None  # why the run ends early
        self.interrupted = False  # … on a signal
        self.pretrained = False  # began with weights of another run
        self.awaits_restore = False  # its folder holds a run to be restored first
        self.went_back = False  # to a checkpoint that is not the newest of this run
        self.diverging = False  # the latest updates were all undone
        self.recorder: TestRecorder | None = None  # records the current test
        self.ended_at = -1  # env steps of the last ``on_train_end``
        self.started = False
        self.disk, self.usage = Disk(), Usage()

    def run(self, until: int) -> None:
        """Train until that many env steps."""
        trainer_state.leave_later_checkpoints(self)
        while self.clock.env_steps < until and self.stopping is None:
            self.stopwatch.lap("other")
            steps = self.rollout.collect(self.steps_per_collect, self.clock)
            self.stopwatch.lap("collecting")
            self.report(steps)
            steps = self.callbacks.on_collect(self, steps)
            self.buffer.add(steps)
            self.learn(self.counted(steps))
            self.callbacks.on_iteration(self)

    def learn(self, n_updates: int) -> None:
        """Make ``n_updates`` gradient steps."""
        for _ in range(n_updates):
            batch = self.buffer.sample(self.batch_size, self.clock)
            batch = self.callbacks.on_batch(self, batch)
            self.stopwatch.lap("sampling")
            result = self.learner.update(batch, self.clock)
            result = self.callbacks.on_update(self, result)
            self.buffer.update_priority(batch.index, result.priority)
            self.metrics.add("learn", result.metrics)
            self.stopwatch.lap("learning")
            self.clock = self.clock.after_update()

    def counted(self, steps: Steps) -> int:
        """Advance the clock by ``steps``; returns how many gradient steps are due."""
        self.clock = self.clock.after(steps)
        if not self.can_learn:
            return 0
        return self.update_ratio.due(steps.env_steps, len(steps.episodes))

    @property
    def can_learn(self) -> bool:
        """Whether enough is stored."""
        enough = self.buffer.n_steps >= self.learning_starts or self.buffer.full
        return enough and self.buffer.ready(self.batch_size)

    def report(self, steps: Steps) -> None:
        """Add the finished episodes to the metrics and call step hooks, before ``on_collect``."""
        for row in episode_metrics(steps.episodes):
            self.metrics.add("train", row)
        if self.callbacks.watch_training:
            self.step_hooks.replay(self, self.callbacks, steps)

    def start(self) -> None:
        """Call ``on_train_start`` of the callbacks, once.

        Raises:
            UsageError: the folder holds a run that was not restored.
        """
        self.require_own_folder()
        if not self.started:
            self.started = True
            self.usage.begin()
            self.callbacks.on_train_start(self)

    def require_own_folder(self) -> None:
        """Refuse to write into the folder of another run."""
        if self.awaits_restore:
            raise UsageError(
                f"{self.run_dir} already holds a run. Call trainer.restore({str(self.run_dir)!r}) "
                "to go on with it, or choose another run_dir."
            )

    def end(self) -> None:
        """Call ``on_train_end`` of the callbacks, once for an env step."""
        if self.ended_at != self.clock.env_steps:
            self.ended_at = self.clock.env_steps
            self.callbacks.on_train_end(self)

    def train(self) -> dict[str, float]:
        """Run to ``total_env_steps`` or until something stops it; returns the latest metrics."""
        with self.reporting_exceptions():
            self.start()
            self.run(self.total_env_steps)
            self.end()
        return dict(self.latest)

    def iterate(self) -> dict[str, Any]:
        """Run for ``log.interval`` more env steps, to ``total_env_steps`` at most; returns the
        results so far.

        ``done``: the run has reached ``total_env_steps`` or was stopped (``stopped`` is the
        reason), and has ended as with ``train``. ``iteration`` counts these calls, those before a
        resume included.
        """
        with self.reporting_exceptions():
            self.start()
            before = self.seconds
            self.iterations += 1
            self.run(min(self.clock.env_steps + self.log_interval, self.total_env_steps))
            done = self.stopping is not None or self.clock.env_steps >= self.total_env_steps
            if done:
                self.end()
        about = {
            "iteration": self.iterations,
            "seconds": self.seconds,
            "seconds_this_iteration": self.seconds - before,
            "done": done,
            "stopped": self.stopping,
        }
        return {**asdict(self.clock), **about, **self.latest}

    @contextmanager
    def reporting_exceptions(self) -> Iterator[None]:
        """Call ``on_exception`` for an exception raised inside."""
        try:
            yield
        except BaseException as error:
            self.callbacks.on_exception(self, error)
            raise

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Run test episodes (episode i with seed i, in their own environments) and return their
        statistics, or those of the test function; none if the run is interrupted meanwhile.
        """
        self.require_own_folder()
        return self.tests.run(self.test_episodes if episodes is None else episodes)

    def play(self, n: int) -> list[Episode]:
        """Exactly ``n`` test episodes in the environments of tests."""
        return self.tests.play(n)

    def compute_actions(
        self,
        obs: Sequence[Any],
        state: dict[str, Any] | None = None,
        explore: bool = False,
        avail_actions: Any = None,
    ) -> Any:
        """Actions for several observations, each in an episode of its own; training is unchanged.

        Args:
            obs: X observations as the environment gives them; of a team [N, *O] each.
            state: what the last call returned; None where the X episodes begin.
            explore: draw actions as training would now; otherwise greedy and without noise.
            avail_actions: [X, N, A] (or [X, A] for one agent); None: all.

        Returns:
            actions [X] for one agent, [X, N] for a team. For agents that remember (recurrent
            ones, stacked frames, previous actions) those and the state for the next observations.
        """
        action, after = self.actor.act(obs, state, explore, avail_actions, self.clock)
        found = action[:, 0] if action.shape[1] == 1 else action
        return found if after is None else (found, after)

    def compute_single_action(
        self,
        obs: Any,
        state: dict[str, Any] | None = None,
        explore: bool = False,
        avail_actions: Any = None,
    ) -> Any:
        """``compute_actions`` for one observation: a number, or [N] for a team."""
        masks = None if avail_actions is None else [avail_actions]
        action, after = self.actor.act([obs], state, explore, masks, self.clock)
        own = action[0, 0] if action.shape[1] == 1 else action[0]
        found = int(own) if own.ndim == 0 else own
        return found if after is None else (found, after)

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log`` and update ``latest``; returns what to write."""
        row = self.callbacks.on_log(self, row)
        self.latest.update(row)
        return row

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the present iteration; an interrupted one skips its last test."""
        if not self.interrupted:
            self.stopping, self.interrupted = why, interrupted

    def close(self) -> None:
        close_all("a rollout", [self.rollout, self.test_rollout])

    @property
    def untrained(self) -> bool:
        """Whether the weights are still those of the initialization."""
        return self.clock.updates == 0 and not self.pretrained

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of this run, those before a resume included."""
        return self.usage.seconds

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint into the run folder and delete old ones (``save.keep_last``); weights
        written by ``export`` are never deleted.

        Args:
            kind: ``full`` to resume from (it becomes ``latest``, and the replay of older ones is
                dropped), ``weights`` to act and to start from.
        """
        self.require_own_folder()
        with self.progress.during("saving"):
            return trainer_state.save(self, kind, with_replay)

    def export(self, folder: str | Path) -> Path:
        """Write the current weights with everything needed to act into ``folder/<env_steps>/``, for
        ``rltrain.load_policy``, ``mode=evaluate`` and ``checkpoint=``; training is unchanged.
        """
        return trainer_state.export(self, Path(folder))

    def restore(self, path: str | Path) -> Found:
        """Restore a full checkpoint: the run continues as if it had not stopped. Without a saved
        replay it begins new episodes, since the first steps of the open ones are missing. Once the
        run goes on from an earlier checkpoint of its own, later ones are deleted.
        """
        return trainer_state.restore(self, Path(path))

    def load_weights(self, folder: Path) -> None:
        """Start from the networks of a checkpoint; UsageError if they do not fit."""
        trainer_state.load_weights(self, folder)
