"""The loop: act, store, learn; then callbacks look. Its parts arrive by constructor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rltrain.callback import Callbacks
from rltrain.common import checkpoint
from rltrain.common.metrics import (
    Metrics,
    episode_metrics,
    summarise,
    test_metrics,
)
from rltrain.common.progress import Progress
from rltrain.errors import CheckpointError, Interrupted, UsageError
from rltrain.interfaces import (
    Acting,
    Buffer,
    Learning,
    Rollouts,
)
from rltrain.step_hooks import TestStepHooks, TrainingStepHooks
from rltrain.types import Clock, Episode, Steps

MODEL, TRAINER, REPLAY, SPEC, CONFIG = "model", "trainer", "replay", "spec", "config"
"""The parts of a checkpoint; model, spec and config are enough to act."""
INEXACT = (
    "The environments cannot save their state: the open episodes are dropped and begun anew, so "
    "the run goes on, but not number for number as it would have without the interruption."
)

TestFunction = Callable[["Trainer", int], Mapping[str, float]]
"""A test of one's own: from the trainer and the number of episodes asked for to metrics."""


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

    def __init__(
        self,
        *,
        rollout: Rollouts,
        test_rollout: Rollouts,
        buffer: Buffer,
        learner: Learning,
        actor: Acting,
        callbacks: Callbacks,
        run_dir: Path,
        total_env_steps: int,
        steps_per_collect: int,
        batch_size: int,
        updates_per_episode: float | None,
        updates_per_env_step: float | None,
        learning_starts: int,
        log_interval: int,
        test_episodes: int,
        test_seed: int,
        keep_last: int,
        about: Mapping[str, Any],
        test_function: TestFunction | None = None,
    ) -> None:
        self.rollout, self.test_rollout = rollout, test_rollout
        self.buffer, self.learner, self.callbacks = buffer, learner, callbacks
        self.actor = actor
        self.run_dir, self.about = run_dir, about
        self.total_env_steps, self.steps_per_collect = total_env_steps, steps_per_collect
        self.batch_size, self.learning_starts = batch_size, learning_starts
        self.per_episode = Fraction(str(updates_per_episode or 0))
        self.per_env_step = Fraction(str(updates_per_env_step or 0))
        self.log_interval, self.test_episodes, self.test_seed = (
            log_interval,
            test_episodes,
            test_seed,
        )
        self.keep_last, self.test_function = keep_last, test_function
        self.clock = Clock()
        self.iterations = 0  # calls of ``iterate``
        self.owed = Fraction(0)  # gradient steps due but not yet whole
        self.metrics = Metrics()
        self.step_hooks = TrainingStepHooks()
        self.latest: dict[str, float] = {}  # every metric's last reported value
        self.progress = Progress()
        self.stopping: str | None = None  # why the run ends early
        self.interrupted = False  # … because a person or the machine asked for it
        self.pretrained = False  # began with weights of another run
        self.awaits_restore = False  # its folder holds a run that it has to go on with
        self.diverging = False  # the latest updates were all undone
        self.ended_at = -1  # env steps of the last ``on_train_end``
        self.started = False
        self.seconds_before = 0.0
        self.begun = time.monotonic()

    def run(self, until: int) -> None:
        """The loop, until that many env steps."""
        while self.clock.env_steps < until and self.stopping is None:
            steps = self.rollout.collect(self.steps_per_collect, self.clock)
            self.report(steps)
            steps = self.callbacks.on_collect(self, steps)
            self.buffer.add(steps)
            self.clock = self.clock.after(steps)
            self.learn(self.updates_due(steps))
            self.rollout.sync(self.learner)
            self.callbacks.on_iteration(self)

    def learn(self, n_updates: int) -> None:
        """So many gradient steps."""
        for _ in range(n_updates):
            batch = self.buffer.sample(self.batch_size, self.clock)
            batch = self.callbacks.on_batch(self, batch)
            result = self.learner.update(batch, self.clock)
            result = self.callbacks.on_update(self, result)
            self.buffer.update_priority(batch.index, result.priority)
            self.metrics.add("learn", result.metrics)
            self.clock = self.clock.after_update()

    def updates_due(self, steps: Steps) -> int:
        """Gradient steps for this experience: an exact ratio, none before learning can start."""
        enough = self.buffer.n_steps >= self.learning_starts or self.buffer.full
        ready = enough and self.buffer.ready(self.batch_size)
        if not ready:
            return 0
        self.owed += self.per_episode * len(steps.episodes) + self.per_env_step * steps.env_steps
        due = math.floor(self.owed)
        self.owed -= due
        return due

    def report(self, steps: Steps) -> None:
        """Note the finished episodes as they were played, before user operators; tell what
        happened to those who watch.
        """
        for row in episode_metrics(steps.episodes):
            self.metrics.add("train", row)
        if self.callbacks.watch_training:
            self.step_hooks.replay(self, self.callbacks, steps)

    def start(self) -> None:
        """Tell the callbacks once that training begins.

        Raises:
            UsageError: the folder holds a run that was not restored.
        """
        self.require_own_folder()
        if not self.started:
            self.started, self.begun = True, time.monotonic()
            self.callbacks.on_train_start(self)

    def require_own_folder(self) -> None:
        """Refuse to write between the results of another run."""
        if self.awaits_restore:
            raise UsageError(
                f"{self.run_dir} already holds a run. Call trainer.restore({str(self.run_dir)!r}) "
                "to go on with it, or choose another run_dir."
            )

    def end(self) -> None:
        """Call ``on_train_end`` of the callbacks once for an env step."""
        if self.ended_at != self.clock.env_steps:
            self.ended_at = self.clock.env_steps
            self.callbacks.on_train_end(self)

    def train(self) -> dict[str, float]:
        """Run to ``total_env_steps``, or until something stops the run; returns the last value of
        every metric.
        """
        with self.telling_of_exceptions():
            self.start()
            self.run(self.total_env_steps)
            self.end()
        return dict(self.latest)

    def iterate(self) -> dict[str, Any]:
        """Run for ``log.interval`` more env steps, to ``total_env_steps`` at most; returns the
        results so far.

        ``done`` says whether ``total_env_steps`` are made or something stopped the run, ``stopped``
        what it was; the run then ends as with ``train``. ``iteration`` counts these calls, those
        before a resume included.
        """
        with self.telling_of_exceptions():
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
    def telling_of_exceptions(self) -> Iterator[None]:
        """Callbacks hear of what goes wrong inside."""
        try:
            yield
        except BaseException as error:
            self.callbacks.on_exception(self, error)
            raise

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Play test episodes (episode i with seed i, in their own environments) and give their
        statistics; or what the test function says. Nothing, if the run is interrupted meanwhile.
        """
        self.require_own_folder()
        n = episodes or self.test_episodes
        with self.progress.during("testing", n):
            self.callbacks.on_test_start(self)
            self.test_rollout.sync(self.learner)
            try:
                if self.test_function is None:
                    result = summarise(self.play(n))
                else:
                    result = test_metrics(self.test_function(self, n))
            except Interrupted:
                return {}
            result = self.callbacks.on_test_end(self, result)
        self.latest.update(result)
        return result

    def play(self, n: int) -> list[Episode]:
        """Exactly ``n`` test episodes in the environments of tests."""
        watch = TestStepHooks(self, self.callbacks, n) if self.callbacks.watch_tests else None
        return self.test_rollout.run_episodes(
            n,
            self.test_seed,
            self.clock,
            watch,
            stop=lambda: self.interrupted,
            report=lambda done: self.progress.report(done, n),
        )

    def compute_actions(
        self,
        obs: Sequence[Any],
        state: dict[str, Any] | None = None,
        explore: bool = False,
        avail_actions: Any = None,
    ) -> Any:
        """Actions for several observations at once, each in an episode of its own; greedy and
        without noise unless ``explore``. The run is not touched.

        Args:
            obs: X observations as the environment gives them; of a team [N, *O] each.
            state: what the last call gave back; None where the X episodes begin.
            explore: draw actions as training would now.
            avail_actions: [X, N, A] (or [X, A] for one agent); None: all.

        Returns:
            actions [X] for one agent, [X, N] for a team. Agents that remember (recurrent ones,
            stacked frames, previous actions): those and the state to hand back with the next
            observations.
        """
        action, after = self.actor.act(obs, state, explore, avail_actions, self.clock)
        if action.shape[1] == 1:
            action = action[:, 0]
        return (action, after) if self.actor.remembers else action

    def compute_single_action(
        self,
        obs: Any,
        state: dict[str, Any] | None = None,
        explore: bool = False,
        avail_actions: Any = None,
    ) -> Any:
        """``compute_actions`` for one observation: a number, or [N] for a team."""
        masks = None if avail_actions is None else [avail_actions]
        found = self.compute_actions([obs], state, explore, masks)
        action = found[0][0] if self.actor.remembers else found[0]
        action = int(action) if np.ndim(action) == 0 else action
        return (action, found[1]) if self.actor.remembers else action

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log`` and update ``latest``; returns what to write."""
        row = self.callbacks.on_log(self, row)
        self.latest.update(row)
        return row

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the present iteration; an interrupted one skips its last test."""
        self.stopping, self.interrupted = why, interrupted

    def close(self) -> None:
        self.rollout.close()
        self.test_rollout.close()

    @property
    def untrained(self) -> bool:
        """Whether the weights are still those of the initialization."""
        return self.clock.updates == 0 and not self.pretrained

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of this run, those before a resume included."""
        return self.seconds_before + time.monotonic() - self.begun

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint of this moment into the run folder, where older ones make room for it
        as ``save.keep_last`` says; ``export`` writes weights that stay.

        Args:
            kind: ``full`` to resume from (it becomes ``latest``, and the replay of older ones is
                dropped), ``weights`` to act and to start from.
        """
        self.require_own_folder()
        with self.progress.during("saving"):
            learner = self.learner.state_dict()
            parts = self.to_act(learner)
            if kind == "full":
                rest = {name: learner[name] for name in learner if name not in parts[MODEL]}
                parts[TRAINER] = {**self.state_dict(), "learner": rest}
                if with_replay:
                    parts[REPLAY] = self.buffer.state_dict()
            parts = self.callbacks.on_save(self, parts)
            checkpoints, step = self.run_dir / "checkpoints", self.clock.env_steps
            folder = checkpoint.write(checkpoints, step, parts, kind)
            if kind == "full":
                checkpoint.make_latest(checkpoints, step, self.keep_last, REPLAY)
            return folder

    def export(self, folder: str | Path) -> Path:
        """Write the present weights with all that acting needs into ``folder/<env_steps>/``, for
        ``rltrain.load_policy``, ``mode=evaluate`` and ``checkpoint=``; the run is not touched.
        """
        parts = self.to_act(self.learner.state_dict())
        return checkpoint.write(Path(folder), self.clock.env_steps, parts, "weights")

    def to_act(self, learner: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The parts of a checkpoint that acting needs, given the learner's state."""
        model = {name: learner[name] for name in ("online", "target")}
        return {MODEL: model, SPEC: self.about[SPEC], CONFIG: self.about[CONFIG]}

    def state_dict(self) -> dict[str, Any]:
        """Everything but the learner and the replay, which have files of their own."""
        return {
            "clock": asdict(self.clock),
            "owed": [self.owed.numerator, self.owed.denominator],
            "seconds": self.seconds,
            "iterations": self.iterations,
            "pretrained": self.pretrained,
            "metrics": self.metrics.state_dict(),
            "latest": self.latest,
            "rollout": self.rollout.state_dict(),
            "test_rollout": self.test_rollout.state_dict(),
            "callbacks": self.callbacks.state_dict(),
            "step_hooks": self.step_hooks.state_dict(),
            "torch_rng": torch.get_rng_state(),
        }

    def restore(self, path: str | Path) -> checkpoint.Found:
        """Take over a full checkpoint: the run goes on as if it had not stopped.

        Without a saved replay the copies begin new episodes, since the learner has not seen how the
        open ones began.

        Raises:
            CheckpointError: the checkpoint cannot be read or holds weights only.
        """
        found = checkpoint.find(Path(path), full=True)
        if not checkpoint.has(found.folder, TRAINER):
            raise CheckpointError(
                f"{found.folder} holds weights only: a run can start from it "
                f"(checkpoint={found.folder}) but not resume."
            )
        state = checkpoint.read(found.folder, TRAINER)
        model = checkpoint.read(found.folder, MODEL)
        check_fits(self.learner.state_dict(), model, found.folder, self.about)
        try:
            self.learner.load_state_dict({**state["learner"], **model})
            if checkpoint.has(found.folder, REPLAY):
                self.buffer.load_state_dict(checkpoint.read(found.folder, REPLAY))
                self.rollout.load_state_dict(state["rollout"])
                self.step_hooks.load_state_dict(state.get("step_hooks", {}))
                if not state["rollout"].get("env", {}).get("exact", True):
                    found = replace(found, remarks=(*found.remarks, INEXACT))
            else:
                self.rollout.restart(state["rollout"], state["clock"]["episodes"])
                self.step_hooks.load_state_dict(state.get("step_hooks", {}))
                self.step_hooks.open[:] = False
                remark = "The replay was not saved: collecting anew, from new episodes."
                found = replace(found, remarks=(*found.remarks, remark))
            self.clock = Clock(**state["clock"])
            self.owed = Fraction(*state["owed"])
            self.seconds_before, self.begun = state["seconds"], time.monotonic()
            self.iterations = int(state["iterations"])
            self.pretrained = bool(state["pretrained"])
            self.metrics.load_state_dict(state["metrics"])
            self.latest = dict(state["latest"])
            self.test_rollout.restart(state["test_rollout"], 0)
            self.rollout.sync(self.learner)
            self.callbacks.load_state_dict(state["callbacks"])
            torch.set_rng_state(state["torch_rng"])
            if found.folder.resolve().parents[1] == self.run_dir.resolve():
                self.awaits_restore = False
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"{found.folder} does not fit this run: {type(error).__name__}: {error}"
            ) from error
        return found

    def load_weights(self, folder: Path) -> None:
        """Start from the networks and targets of a checkpoint.

        Raises:
            UsageError: they belong to another environment or network.
        """
        model = checkpoint.read(folder, MODEL)
        check_fits(self.learner.state_dict(), model, folder, self.about)
        self.learner.load_state_dict({**self.learner.state_dict(), **model})
        self.pretrained = True


def check_fits(
    have: Mapping[str, Any], model: Mapping[str, Any], folder: Path, about: Mapping[str, Any]
) -> None:
    """Compare names and shapes of the networks with those of a checkpoint.

    Args:
        about: ``spec`` and ``config`` of this run, as they are saved beside weights.

    Raises:
        UsageError: what differs, and what to type.
    """
    ours = {k: tuple(t.shape) for k, t in have["online"].items()}
    theirs = {k: tuple(t.shape) for k, t in model.get("online", {}).items()}
    if ours != theirs:
        saved = {part: checkpoint.read(folder, part) for part in (SPEC, CONFIG)}
        raise UsageError(f"The checkpoint {folder} does not fit: {difference(saved, about)}")


def difference(saved: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Why a checkpoint's networks are not those of this run, and what to type."""
    there, here = saved[CONFIG]["choices"], about[CONFIG]["choices"]
    type_ = " ".join(f"{key}={there[key]}" for key in ("algo", "env") if there[key] != here[key])
    advice = f"Type {type_}, or choose another checkpoint." if type_ else ""
    sizes = [size_words(record[SPEC]) for record in (saved, about)]
    if sizes[0] != sizes[1]:
        return (
            f"it is of {there['algo']} on {there['env']} ({sizes[0]}), this run is {here['algo']} "
            f"on {here['env']} ({sizes[1]}). "
            + (advice or "Choose the environment it was trained in, or another checkpoint.")
        )
    if there["algo"] != here["algo"]:
        return f"it is a {there['algo']} checkpoint, this run is {here['algo']}. {advice}"
    parts = ("network", "mixer", "distribution")
    theirs, ours = (flat(r[CONFIG]["algo"], parts) for r in (saved, about))
    keys = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    settings = ", ".join(f"{k}={theirs.get(k)}, here {ours.get(k)}" for k in keys)
    return f"its networks have other settings ({settings}). Type them as they are there."


def flat(algo: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """The settings of some parts of an algorithm by dotted key."""
    return {
        f"algo.{part}.{name}": value
        for part in parts
        for name, value in (algo.get(part) or {}).items()
    }


def size_words(spec: Mapping[str, Any]) -> str:
    """3 agents, 9 actions, observation 30, state 48."""
    many = "agent" if spec["n_agents"] == 1 else "agents"
    shape = "×".join(map(str, spec["obs_shape"])) or "1"
    return (
        f"{spec['n_agents']} {many}, {spec['n_actions']} actions, observation {shape}, "
        f"state {spec['state_dim']}"
    )
