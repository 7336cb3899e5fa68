"""What a trainer saves and restores; whether a checkpoint's networks fit a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from rltrain.callback import Callbacks
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.metrics import Metrics
from rltrain.common.spec_changes import agents_words, changes
from rltrain.errors import CheckpointError, UsageError
from rltrain.periodic_tests import PeriodicTests
from rltrain.step_hooks import TrainingStepHooks
from rltrain.types import Clock
from rltrain.update_ratio import UpdateRatio

MODEL, TRAINER, REPLAY, SPEC, CONFIG = "model", "trainer", "replay", "spec", "config"
"""The parts of a checkpoint; model, spec and config are enough to act."""
INEXACT = (
    "The environments cannot save their state: the open episodes are dropped and begin again, "
    "so the numbers will differ from those of a run without the interruption."
)

UNFIT = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError),
    RuntimeError,
)
"""What states that are of other types, shapes or ranges raise."""
PARTS = ("network", "mixer", "critic", "distribution")
"""Parts of an algorithm that have weights."""
LEFT_OUT = ".nowhere"
"""How the class of a part ends that an evaluation does not build."""
MOST_COUNTED = 10**15
"""Env steps, episodes and gradient steps that a run may have."""


class Saved(Training, Protocol):
    """What is saved and restored of a trainer."""

    callbacks: Callbacks
    tests: PeriodicTests
    step_hooks: TrainingStepHooks
    keep_last: int
    update_ratio: UpdateRatio
    iterations: int
    pretrained: bool
    awaits_restore: bool
    went_back: bool
    stopping: str | None
    ended_at: int

    @property
    def metrics(self) -> Metrics: ...


def save(trainer: Saved, kind: str, with_replay: bool) -> Path:
    """Write a checkpoint into the run folder; ``Trainer.save``."""
    if kind == "full":
        with trainer.tests.in_the_present():
            trainer.tests.finish_earlier()
            return save_full(trainer, with_replay)
    parts = to_act(trainer, trainer.tests.weights or trainer.learner.state_dict())
    parts = trainer.callbacks.on_save(trainer, parts)
    return checkpoint.write(checkpoints_of(trainer), trainer.clock.env_steps, parts, kind)


def save_full(trainer: Saved, with_replay: bool) -> Path:
    """Write all that a resumed run needs, and make it the latest checkpoint."""
    learner = trainer.learner.state_dict()
    parts = to_act(trainer, learner)
    rest = {name: learner[name] for name in learner if name not in parts[MODEL]}
    parts[TRAINER] = {**state_dict(trainer), "learner": rest}
    if with_replay:
        parts[REPLAY] = trainer.buffer.state_dict()
    parts = trainer.callbacks.on_save(trainer, parts)
    checkpoints, step = checkpoints_of(trainer), trainer.clock.env_steps
    folder = checkpoint.write(checkpoints, step, parts, "full")
    checkpoint.make_latest(checkpoints, step, trainer.keep_last, REPLAY)
    return folder


def checkpoints_of(trainer: Saved) -> Path:
    """The folder of a run's checkpoints."""
    return trainer.run_dir / "checkpoints"


def export(trainer: Saved, folder: Path) -> Path:
    """Write the current weights into ``folder/<env_steps>/``; ``Trainer.export``."""
    parts = to_act(trainer, trainer.learner.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    return checkpoint.write(folder, trainer.clock.env_steps, parts, "weights")


def to_act(trainer: Saved, learner: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The parts of a checkpoint that acting needs, given the learner's state."""
    model = {name: learner[name] for name in ("online", "target")}
    return {MODEL: model, SPEC: trainer.about[SPEC], CONFIG: trainer.about[CONFIG]}


def state_dict(trainer: Saved) -> dict[str, Any]:
    """Everything but the learner and the replay, which have files of their own."""
    return {
        "clock": asdict(trainer.clock),
        "owed": trainer.update_ratio.owed,
        "usage": trainer.usage.state_dict(),
        "iterations": trainer.iterations,
        "pretrained": trainer.pretrained,
        "metrics": trainer.metrics.state_dict(),
        "latest": trainer.latest,
        "rollout": trainer.rollout.state_dict(),
        "callbacks": trainer.callbacks.state_dict(),
        "step_hooks": trainer.step_hooks.state_dict(),
        "torch_rng": torch.get_rng_state(),
    }


def restore(trainer: Saved, path: Path) -> checkpoint.Found:
    """Restore a full checkpoint; ``Trainer.restore``.

    Raises:
        CheckpointError: the checkpoint cannot be read or holds weights only.
        UsageError: it holds no replay, and the trainer has one of other steps.
    """
    found = checkpoint.find(path, full=True)
    if not checkpoint.has(found.folder, TRAINER):
        raise CheckpointError(
            f"{found.folder} holds weights only: a run can start from it "
            f"(checkpoint={found.folder}) but not resume."
        )
    if trainer.clock.env_steps and not checkpoint.has(found.folder, REPLAY):
        raise UsageError(
            f"{found.folder} holds no replay, and that of this trainer is of other steps. Restore "
            "it with a trainer that has not collected any: rltrain.make_trainer(…, run_dir=…)."
        )
    trainer.stopping, trainer.interrupted, trainer.diverging = None, False, False
    trainer.ended_at = -1
    trainer.tests.drop()
    state = checkpoint.read(found.folder, TRAINER)
    require_counts(state, trainer.update_ratio.unit, found.folder)
    model = checkpoint.read(found.folder, MODEL)
    check_fits(trainer.learner.state_dict(), model, found.folder, trainer.about)
    try:
        trainer.learner.load_state_dict({**state["learner"], **model})
        if checkpoint.has(found.folder, REPLAY):
            trainer.buffer.load_state_dict(checkpoint.read(found.folder, REPLAY))
            trainer.rollout.load_state_dict(state["rollout"])
            trainer.step_hooks.load_state_dict(state.get("step_hooks", {}))
            if not state["rollout"].get("env", {}).get("exact", True):
                found = replace(found, remarks=(*found.remarks, INEXACT))
        else:
            trainer.rollout.restart(state["rollout"], state["clock"]["episodes"])
            trainer.step_hooks.load_state_dict(state.get("step_hooks", {}))
            trainer.step_hooks.open[:] = False
            remark = "The replay was not saved: collecting again, from new episodes."
            found = replace(found, remarks=(*found.remarks, remark))
        trainer.clock = Clock(**state["clock"])
        trainer.update_ratio.owed = int(state["owed"])
        trainer.usage.load_state_dict(state["usage"])
        trainer.iterations = int(state["iterations"])
        trainer.pretrained = bool(state["pretrained"])
        trainer.metrics.load_state_dict(state["metrics"])
        trainer.latest = dict(state["latest"])
        trainer.callbacks.load_state_dict(state["callbacks"])
        torch.set_rng_state(state["torch_rng"])
        if found.folder.resolve().parents[1] == trainer.run_dir.resolve():
            trainer.awaits_restore = False
            checkpoints = found.folder.parent
            trainer.went_back = (
                checkpoint.is_one(path) and checkpoint.newest_full(checkpoints) != found.step
            )
            if not trainer.went_back:  # complete what a kill has left half done
                checkpoint.make_latest(checkpoints, found.step, trainer.keep_last, REPLAY)
    except UNFIT as error:
        raise CheckpointError(
            f"{found.folder} does not fit this run: {type(error).__name__}: {error}"
        ) from error
    return found


def require_counts(state: Mapping[str, Any], unit: int, folder: Path) -> None:
    """Refuse counters and metrics that no run has: it would go on for ever, or end at once.

    Args:
        unit: of ``owed``, which is less than it.

    Raises:
        CheckpointError: the first of them.
    """
    clock = state.get("clock")
    counts = {f"clock.{f.name}": f.name for f in fields(Clock)}
    found = {k: clock.get(n) if isinstance(clock, dict) else None for k, n in counts.items()}
    found |= {"iterations": state.get("iterations"), "owed": state.get("owed")}
    for name, value in found.items():
        most = unit - 1 if name == "owed" else MOST_COUNTED
        if type(value) is not int or not 0 <= value <= most:
            raise CheckpointError(
                f"{folder} is damaged: {name} is {value!a:.40}, expected a whole number from 0 to "
                f"{most:,}."
            )
    latest = state.get("latest")
    if not isinstance(latest, dict) or any(type(x) not in (int, float) for x in latest.values()):
        raise CheckpointError(f"{folder} is damaged: not all of its latest metrics are numbers.")


def leave_later_checkpoints(trainer: Saved) -> None:
    """Delete the checkpoints that the run has gone back from, once it goes on from an earlier one:
    a resume takes the newest.
    """
    if trainer.went_back:
        trainer.went_back = False
        checkpoint.drop_later(checkpoints_of(trainer), trainer.clock.env_steps)


def load_weights(trainer: Saved, folder: Path) -> None:
    """Start from the networks and targets of a checkpoint.

    Raises:
        UsageError: they belong to another environment or network.
    """
    model = checkpoint.read(folder, MODEL)
    check_fits(trainer.learner.state_dict(), model, folder, trainer.about)
    trainer.learner.load_state_dict({**trainer.learner.state_dict(), **model})
    trainer.pretrained = True


def check_fits(
    have: Mapping[str, Any], model: Mapping[str, Any], folder: Path, about: Mapping[str, Any]
) -> None:
    """Compare names, shapes and types of the weights, and the spaces of the environment, with
    those of a checkpoint.

    Args:
        about: ``spec`` and ``config`` of this run, as they are saved beside weights.

    Raises:
        UsageError: what differs, and what to type.
        CheckpointError: its spec or its configuration is damaged.
    """
    networks = [name for name in ("online", "target") if name in have]
    ours, theirs = weights(have, networks), weights(model, networks)
    differ = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    spec = checkpoint.read(folder, SPEC)
    try:
        if differ:
            saved, name = {SPEC: spec, CONFIG: checkpoint.read(folder, CONFIG)}, differ[0]
            there, here = (each.get(name, "not there") for each in (theirs, ours))
            why = difference(saved, about) or (
                f"its {name} is {there}, here {here}. Choose another checkpoint."
            )
            raise UsageError(f"The checkpoint {folder} does not fit: {why}")
        changed = changes(spec, about[SPEC])
    except UNFIT as error:
        raise CheckpointError(
            f"{folder} has a damaged spec.json or config.json: {error!r}"
        ) from error
    if changed:
        raise UsageError(
            f"The checkpoint {folder} is of an environment with other spaces: {changed}. Its "
            "networks would misread them. Choose the environment it was trained in, or train again."
        )


def weights(model: Mapping[str, Any], networks: Sequence[str]) -> dict[str, str]:
    """The shape and type of every weight, such as ``[64, 4] float32``, by name."""
    found = {}
    for network in networks:
        tensors = model.get(network)
        for name, tensor in tensors.items() if isinstance(tensors, Mapping) else ():
            is_tensor = isinstance(tensor, torch.Tensor)
            kind = f"{list(tensor.shape)} {tensor.dtype}" if is_tensor else type(tensor).__name__
            found[f"{network}.{name}"] = kind.replace("torch.", "")
    return found


def difference(saved: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Why a checkpoint's networks are not those of this run, and what to type; nothing if they are
    of the same settings.
    """
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
    named = about[CONFIG]["algo"]
    parts = [p for p in PARTS if not str((named.get(p) or {}).get("_target_")).endswith(LEFT_OUT)]
    theirs, ours = (flat(r[CONFIG]["algo"], parts) for r in (saved, about))
    keys = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    if not keys:
        return ""
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
    """3 agents, 9 actions, observation 30, state 48; the agents by name if they have names."""
    many = "agent" if spec["n_agents"] == 1 else "agents"
    names = agents_words(spec)
    many += "" if names is None else f" {names}"
    shape = "×".join(map(str, spec["obs_shape"])) or "1"
    return (
        f"{spec['n_agents']} {many}, {spec['n_actions']} actions, observation {shape}, "
        f"state {spec['state_dim']}"
    )
