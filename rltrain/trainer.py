"""The training loop: act, store and learn, then call the callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import InitVar, asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from rltrain.algo.actor import Actor
from rltrain.algo.learner import Learner
from rltrain.callback import Callbacks
from rltrain.callback.replaced_code import leave_replaced
from rltrain.callback.training import EvaluationRollouts
from rltrain.common import checkpoint
from rltrain.common.checkpoint import CONFIG, MODEL, REPLAY, SPEC, TRAINER, Found, fit
from rltrain.common.failures import Disk, close_all, closed_on_error
from rltrain.common.machine.places import require_path
from rltrain.common.machine.time_and_memory import Stopwatch, Usage
from rltrain.common.metrics import Metrics, episode_metrics
from rltrain.common.progress import Progress
from rltrain.errors import CheckpointError, UsageError
from rltrain.hardware.device import TorchRandom
from rltrain.interfaces import Buffer, Rollouts
from rltrain.periodic_tests import PeriodicTests, TestFunction
from rltrain.stage import AFTER, REFUSED, Stage, StopRequest
from rltrain.step_hooks import TrainingStepHooks
from rltrain.types import Clock, Episode, StateDict, Steps
from rltrain.update_ratio import UpdateRatio

T = TypeVar("T")
INEXACT = (
    "The environments cannot save their state: the open episodes are dropped and restarted, "
    "so the numbers will differ from those of a run without the interruption."
)


@dataclass(kw_only=True, eq=False, repr=False)
class Trainer:
    """Acts, stores and learns until ``total_env_steps``. All periodic work is done by callbacks.

    Args:
        rollout: collects training experience.
        test_rollout: runs test episodes, in environments of its own.
        updates_per_episode, updates_per_env_step: ratio of gradient steps; exactly one is set, and
            fractions carry over.
        learning_starts: stored steps before the first gradient step.
        keep_last: number of full checkpoints to keep.
        test_function: called instead of the standard test.
        about: ``{"config": …, "spec": …}``, saved with the weights.
    """

    rollout: Rollouts
    test_rollout: EvaluationRollouts
    buffer: Buffer
    learner: Learner
    actor: Actor
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
    resample_tests: bool
    keep_last: int
    about: Mapping[str, Any]
    test_function: TestFunction | None = None

    def __post_init__(
        self, updates_per_episode: float | None, updates_per_env_step: float | None
    ) -> None:
        ratios = (Fraction(str(x or 0)) for x in (updates_per_env_step, updates_per_episode))
        self.update_ratio = UpdateRatio(*ratios)
        self.clock, self.checkpoints = Clock(), self.run_dir / "checkpoints"
        self.iterations = 0  # calls of ``iterate``
        self.metrics = Metrics()
        self.step_hooks, self.tests = TrainingStepHooks(), PeriodicTests(self)
        self.latest: dict[str, float] = {}  # last reported value of every metric
        self.progress, self.stopwatch, self.random = Progress(), Stopwatch(), TorchRandom()
        self.stage = Stage.NEW
        self.asked: StopRequest | None = None  # request to end early
        self.iterating = self.broken_off = False  # inside an iteration; an exception ended it
        self.save_asked: bool | None = None  # full checkpoint due at its end, with replay?
        self.pretrained = False  # started from another run's weights
        self.restored: int | None = None  # env step of the checkpoint continued from
        self.rewound = False  # … which is not the newest
        self.diverging = False  # all recent updates were undone
        self.disk, self.usage, self.held = Disk(), Usage(), ExitStack()

    def run(self, until: int) -> None:
        """Train until ``until`` env steps."""
        leave_replaced()
        while self.clock.env_steps < until and self.stopping is None:
            self.tidy_checkpoints()
            with self.iteration():
                self.stopwatch.lap("other")
                steps = self.rollout.collect(self.steps_per_collect, self.clock)
                self.stopwatch.lap("collecting")
                if self.callbacks.watch_training:
                    self.step_hooks.replay(self, self.callbacks, steps)
                self.buffer.add(self.callbacks.on_collect(self, steps))
                n_updates = self.counted(steps)  # also what callbacks did not store
                for row in episode_metrics(steps.episodes):
                    self.metrics.add("train", row)
                self.learn(n_updates)

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Context of one iteration; a full checkpoint requested inside is written at its end."""
        self.enter("collect")
        self.settle()
        self.iterating = True
        with self.random:
            yield
            self.iterating = False
            if self.save_asked is not None:
                self.save(with_replay=self.save_asked)
            self.callbacks.on_iteration(self)

    def settle(self) -> None:
        """Start new episodes if an exception left the rollout ahead of the replay."""
        if self.broken_off:
            self.broken_off = False
            self.rollout.abandon(self.clock.episodes + 1)

    # twin: kernels/learning.py
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
        """Advance the clock by ``steps`` and return the number of gradient steps due."""
        self.clock = self.clock.after(steps)
        return self.update_ratio.due(steps.env_steps, len(steps.episodes)) if self.can_learn else 0

    @property
    def can_learn(self) -> bool:
        """Whether the buffer holds enough steps."""
        enough = self.buffer.n_steps >= self.learning_starts or self.buffer.full
        return enough and self.buffer.ready(self.batch_size)

    def start(self) -> None:
        """Call the callbacks' ``on_train_start``, once.

        Raises:
            UsageError: the run folder holds a run that was not restored.
        """
        if self.stage is Stage.NEW:
            self.usage.begin()
        self.once("start", self.callbacks.on_train_start)
        if not self.rewound:
            self.tidy_checkpoints()

    def end(self) -> None:
        """Call the callbacks' ``on_train_end``, once per env step."""
        self.once("end", self.callbacks.on_train_end)

    def enter(self, event: str) -> None:
        """Enter the stage that follows ``event``.

        Raises:
            UsageError: the trainer is closed, or its run folder holds a run that was not restored.
        """
        if self.stage not in AFTER[event]:
            raise UsageError(REFUSED[self.stage].format(run_dir=self.run_dir))
        self.stage = AFTER[event][self.stage]

    def once(self, event: str, hook: Callable[[Trainer], object]) -> None:
        """Call ``hook`` if ``event`` changes the stage; after an exception, again next time."""
        before = self.stage
        self.enter(event)
        if self.stage is not before:
            try:
                hook(self)
            except BaseException:
                self.stage = before if self.stage is AFTER[event][before] else self.stage
                raise

    def train(self) -> dict[str, float]:
        """Run to ``total_env_steps`` unless stopped earlier; return the latest metrics."""
        with self.reporting_exceptions():
            self.start()
            self.run(self.total_env_steps)
            self.end()
        return dict(self.latest)

    def iterate(self) -> dict[str, Any]:
        """Run for ``log.interval`` more env steps, up to ``total_env_steps``; return the results.

        ``done``: the run has reached ``total_env_steps`` or was stopped (``stopped`` is the
        reason), and has ended as with ``train``. ``iteration`` counts these calls, including those
        before a resume.
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
        return {**self.latest, **asdict(self.clock), **about}

    @contextmanager
    def reporting_exceptions(self) -> Iterator[None]:
        """Call ``on_exception`` for an exception raised inside."""
        with self.random:
            try:
                yield
            except BaseException as error:
                self.broken_off |= self.iterating
                self.iterating, self.save_asked = False, None
                self.callbacks.on_exception(self, error)
                raise

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Run test episodes in the test environments, episode i with test seed i.

        Returns their statistics, or the metrics of the test function; empty if interrupted. A test
        with ``episodes`` other than ``test.episodes`` never counts as the best or the final one.
        """
        self.enter("write")
        with self.random:
            return self.tests.run(episodes)

    def play(self, n: int) -> list[Episode]:
        """Run exactly ``n`` episodes in the test environments."""
        self.enter("write")
        with self.random:
            return self.tests.play(n)

    def compute_actions(
        self,
        obs: Sequence[object],
        state: StateDict | None = None,
        explore: bool = False,
        avail_actions: object = None,
    ) -> Any:
        """Choose actions for X observations of separate episodes, without affecting training.

        Args:
            obs: X observations as the environment returns them; [N, *O] each for a team.
            state: returned by the previous call; None when the X episodes begin.
            explore: explore as training would now; otherwise actions are greedy, without noise.
            avail_actions: [X, N, A], or [X, A] for one agent; None if all are available.

        Returns:
            actions [X] for one agent, [X, N] for a team. Agents with memory (recurrent state,
            stacked frames or previous actions) return ``(actions, state)``.
        """
        leave_replaced()
        with self.random:
            return self.actor.act(obs, state, explore, avail_actions, self.clock)

    def compute_single_action(
        self,
        obs: object,
        state: StateDict | None = None,
        explore: bool = False,
        avail_actions: object = None,
    ) -> Any:
        """``compute_actions`` for one observation; returns an int, or [N] for a team."""
        leave_replaced()
        with self.random:
            return self.actor.act_once(obs, state, explore, avail_actions, self.clock)

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log``, update ``latest`` and return the row."""
        row = self.callbacks.on_log(self, row)
        self.latest.update(row)
        return row

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the current iteration; if ``interrupted``, without a final test.
        UsageError for a reason that is not text.
        """
        request = StopRequest(why, interrupted)
        if not self.interrupted:
            self.asked = request

    @property
    def stopping(self) -> str | None:
        """The reason for ending early, or None."""
        return None if self.asked is None else self.asked.why

    @property
    def interrupted(self) -> bool:
        """Whether a signal ends the run."""
        return self.asked is not None and self.asked.interrupted

    def close(self) -> None:
        self.enter("close")
        close_all("a part", [self.rollout, self.test_rollout, self.buffer, self.held])

    @property
    def untrained(self) -> bool:
        """Whether the weights tested last are still the initial ones."""
        return self.tests.clock.updates == 0 and not self.pretrained

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of this run, including those before a resume."""
        return self.usage.seconds

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint into the run folder, delete old ones (``save.keep_last``), and return
        its folder. Within an iteration, a full checkpoint is written at its end, and ``latest`` is
        returned. Weights written by ``export`` are never deleted.

        Args:
            kind: ``full`` to resume from (becomes ``latest``; older ones lose their replay), or
                ``weights`` to act and to start from.

        Raises:
            UsageError: another kind.
        """
        if kind not in ("full", "weights"):
            raise UsageError(
                f"A checkpoint is full or weights, got {kind!r}. It is saved in the run folder; "
                "trainer.export(folder) writes weights elsewhere."
            )
        self.enter("write")
        if kind == "full" and self.iterating:
            self.save_asked = with_replay or bool(self.save_asked)
            return self.checkpoints / "latest"
        with self.progress.during("saving"):
            if kind == "full":
                self.settle()
                self.tests.finish_earlier()
                learner, step = self.learner.state_dict(), self.clock.env_steps
                parts = self._to_act(learner)
                rest = {name: learner[name] for name in learner if name not in parts[MODEL]}
                parts[TRAINER] = {**self.state_dict(), "learner": rest}
                if with_replay:
                    parts[REPLAY] = self.buffer.state_dict()
                self.save_asked = None
            else:
                step = self.tests.clock.env_steps
                if checkpoint.read_kind(self.checkpoints / str(step)) == "full":
                    return self.checkpoints / str(step)
                parts = self._to_act(self.tests.weights or self.learner.state_dict())
            with self.callbacks.saving(self, parts) as parts:
                folder = checkpoint.write(self.checkpoints, step, parts, kind)
                if kind == "full":
                    checkpoint.make_latest(self.checkpoints, step, self.keep_last, REPLAY)
                    self.buffer.saved(with_replay)
            return folder

    def export(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write the current weights and everything needed to act to ``folder/<env_steps>/``, for
        ``rltrain.load_policy``, ``mode=evaluate`` and ``checkpoint=``.
        """
        parts = self._to_act(self.learner.state_dict())
        folder = Path(require_path(folder, "folder"))
        return checkpoint.write_new(folder, self.clock.env_steps, parts, replace)

    def _to_act(self, learner: Mapping[str, object]) -> dict[str, StateDict]:
        """The parts of a checkpoint needed to act, given the learner's state."""
        model = {name: learner[name] for name in ("online", "target")}
        return {MODEL: model, SPEC: self.about[SPEC], CONFIG: self.about[CONFIG]}

    def state_dict(self) -> StateDict:
        """Everything except the learner and the replay, which have their own files."""
        return {
            "clock": asdict(self.clock),
            "owed": self.update_ratio.owed,
            "usage": self.usage.state_dict(),
            "iterations": self.iterations,
            "pretrained": self.pretrained,
            "metrics": self.metrics.state_dict(),
            "latest": self.latest,
            "rollout": self.rollout.state_dict(),
            "test_envs": self.test_rollout.carried_envs(),
            "callbacks": self.callbacks.state_dict(),
            "step_hooks": self.step_hooks.state_dict(),
            **self.random.state_dict(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Load everything except the rollout and its hooks."""
        self.clock = Clock(**state["clock"])
        self.update_ratio.owed = int(state["owed"])
        self.usage.load_state_dict(state["usage"])
        self.iterations = int(state["iterations"])
        self.pretrained = bool(state["pretrained"])
        self.metrics.load_state_dict(state["metrics"])
        self.latest = dict(state["latest"])
        self.callbacks.load_state_dict(state["callbacks"])
        self.test_rollout.carry_on_envs(state["test_envs"])
        self.random.load_state_dict(state)

    def restore(self, path: str | Path) -> Found:
        """Restore a full checkpoint, so that the run continues as if it had never stopped. Without
        a saved replay, new episodes begin, since the first steps of the open ones are missing. When
        a run continues from an earlier checkpoint of its own, its later ones are deleted.

        Raises:
            CheckpointError: the checkpoint cannot be read or holds only weights.
            UsageError: it does not fit; it belongs to another run, and this one has begun; or it
                has no replay, and the trainer's holds other steps.
        """
        path = Path(require_path(path, "path"))
        chosen = checkpoint.find(path, full=True)
        own = fit.require_resumable(chosen.folder, self.run_dir, self.clock)
        state = checkpoint.read(chosen.folder, TRAINER)
        model = checkpoint.read(chosen.folder, MODEL)
        fit.check_fits(self.learner.state_dict(), model, chosen.folder, self.about)
        try:
            fit.require_same_settings(chosen.folder, self.about[CONFIG])
            fit.require_counts(state, self.update_ratio.unit, chosen.folder)
            with closed_on_error("a trainer", [self]):  # which may have loaded some of it
                self.asked, self.diverging, self.broken_off = None, False, False
                self.tests.drop()
                self.learner.load_state_dict({**state["learner"], **model})
                remarks = self._restore_rollout(chosen.folder, state)
                self.load_state_dict(state)
            self.enter("restore")
            if own:  # nothing is written before ``start``, which locks the folder
                last = checkpoint.newest_full(self.checkpoints)
                self.restored = chosen.step
                self.rewound = checkpoint.is_one(path) and last != chosen.step
        except fit.UNFIT as error:
            raise CheckpointError(
                f"{chosen.folder} does not fit this run: {type(error).__name__}: {error}"
            ) from error
        return replace(chosen, remarks=(*chosen.remarks, *remarks))

    def _restore_rollout(self, folder: Path, state: StateDict) -> list[str]:
        """Restore the replay and the open episodes, or begin new ones; return remarks about it."""
        self.step_hooks.load_state_dict(state["step_hooks"])
        if checkpoint.has(folder, REPLAY):
            self.buffer.load_state_dict(checkpoint.read(folder, REPLAY))
            self.rollout.load_state_dict(state["rollout"])
            return [] if state["rollout"].get("env", {}).get("exact", True) else [INEXACT]
        self.rollout.restart(state["rollout"], state["clock"]["episodes"])
        self.step_hooks.open[:] = False
        return ["The replay was not saved: collecting again, from new episodes."]

    def on_first_rank(self, work: Callable[[], T]) -> T:
        """Return ``work()``, which only one of several processes that learn together calls."""
        return work()

    def tidy_checkpoints(self) -> None:
        """Complete a checkpoint that a kill interrupted before the run was restored, or delete the
        checkpoints after the restored one: a resume takes the newest.
        """
        if self.restored is None:
            return
        if self.rewound:
            checkpoint.drop_later(self.checkpoints, self.restored)
        else:
            checkpoint.make_latest(self.checkpoints, self.restored, self.keep_last, REPLAY)
        self.restored, self.rewound = None, False

    def load_weights(self, folder: str | Path) -> None:
        """Load the online and target networks of a checkpoint, or of the newest of a run's folder.

        Raises:
            CheckpointError: there is none, or it cannot be read.
            UsageError: they belong to another environment or network.
        """
        folder = checkpoint.find(Path(require_path(folder, "folder"))).folder
        model = checkpoint.read_networks(folder)
        fit.check_fits(self.learner.state_dict(), model, folder, self.about)
        self.learner.load_state_dict({**self.learner.state_dict(), **model})
        self.pretrained = True
