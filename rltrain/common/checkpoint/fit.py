"""Whether a checkpoint fits a run: its weights, its spaces, its counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from rltrain.common.checkpoint.run_checkpoints import CONFIG, REPLAY, SPEC, TRAINER
from rltrain.common.checkpoint.storage import has, read
from rltrain.common.files import JsonObject
from rltrain.common.json_text import flat
from rltrain.common.metrics import METRICS
from rltrain.common.number_types import MOST_COUNTED
from rltrain.common.spec_record import agents_words, changes, excerpt
from rltrain.errors import CheckpointError, UsageError
from rltrain.types import Clock, SpecRecord, StateDict

UNFIT = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError),
    RuntimeError,
)
"""Exceptions for states of different types, shapes or ranges."""
PARTS = ("network", "mixer", "critic", "distribution")
"""Parts of an algorithm that have weights."""
LEFT_OUT = ".nowhere"
"""How the class of a part ends that an evaluation does not build."""
SAME = ("optimizer", "updates_per_episode", "updates_per_env_step")
"""Settings of an algorithm that a restored trainer keeps."""


COUNTERS = "env_restarts", "newest"
"""Of callbacks, besides those whose names end in ``_at``."""


def require_resumable(folder: Path, run_dir: Path, clock: Clock) -> bool:
    """Whether a checkpoint for a trainer in ``run_dir`` at this clock is one of its own run.

    Raises:
        CheckpointError: it holds weights only.
        UsageError: it is another run's, and this one has begun: its rows, tests and checkpoints
            would be those of two; or it holds no replay, and the trainer has one of other steps.
    """
    if not has(folder, TRAINER):
        raise CheckpointError(
            f"{folder} holds weights only: a run can start from it "
            f"(checkpoint={quote(str(folder))}) but not resume."
        )
    own = folder.resolve().parents[1] == run_dir.resolve()
    begun = ("run.json", "metrics.jsonl", "checkpoints")
    if not own and any((run_dir / name).exists() for name in begun):
        raise UsageError(
            f"{folder} is a checkpoint of another run, and {run_dir} holds one that has begun: its "
            "rows and checkpoints would no longer be those of one run. Restore it with a trainer "
            "for a new folder: rltrain.make_trainer(…, run_dir=NEW_FOLDER)."
        )
    if clock.env_steps and not has(folder, REPLAY):
        raise UsageError(
            f"{folder} holds no replay, and that of this trainer has other steps. Restore it with "
            "a trainer that has not collected any: rltrain.make_trainer(…, run_dir=…)."
        )
    return own


def require_counts(state: StateDict, unit: int, folder: Path) -> None:
    """Refuse counters and metrics that no run has: it would run forever, or end immediately, or no
    longer test, save or update its target network.

    Args:
        unit: of ``owed``, which is less than it.

    Raises:
        CheckpointError: the first of them.
    """
    for name, value, least, most in counters(state, unit, read(folder, CONFIG)):
        if type(value) is not int or not least <= value <= most:
            raise CheckpointError(
                f"{folder} is damaged: {name} is {value!a:.40}, expected a whole number from "
                f"{least} to {most:,}."
            )
    latest = state.get("latest")
    if not isinstance(latest, dict) or any(type(x) not in (int, float) for x in latest.values()):
        raise CheckpointError(f"{folder} is damaged: not all of its latest metrics are numbers.")


def counters(
    state: StateDict, unit: int, config: JsonObject
) -> Iterator[tuple[str, object, int, int]]:
    """The counters of a trainer's state: name, value, least and largest number; each is checked
    before the next one. ``config`` is that of the checkpoint.
    """
    saved: Any = state.get("clock")
    saved = saved if isinstance(saved, dict) else {}
    clock = {f.name: saved.get(f.name) for f in fields(Clock)}
    for name, value in clock.items():
        yield f"clock.{name}", value, 0, MOST_COUNTED
    yield "clock.episodes", clock["episodes"], 0, clock["env_steps"]
    yield "iterations", state.get("iterations"), 0, MOST_COUNTED
    yield "owed", state.get("owed"), 0, unit - 1
    updates = config["algo"].get("target_update") or {}
    period = [name for name in clock if updates.get(name) is not None]
    most = clock[period[0]] if period else max(clock.values())
    most += 1  # of an update that an exception left uncounted
    yield "target_update.done_at", state["learner"]["target_update"].get("done_at", 0), 0, most
    for key, count in state["metrics"]["counts"].items():
        own = clock["updates" if key.startswith("learn/") else "episodes"]
        yield f"metrics.counts.{key}", count, 1, own if key in METRICS else MOST_COUNTED
    for name, own in state["callbacks"].items():
        for key, value in own.items() if name.startswith("rltrain.") else ():
            if isinstance(value, dict) and value.keys() >= {"at", "interval"}:
                yield f"{name}.{key}.interval", value["interval"], 1, MOST_COUNTED
                yield f"{name}.{key}.at", value["at"], 0, clock["env_steps"] + value["interval"]
            elif (key.endswith("_at") or key in COUNTERS) and value is not None:
                yield f"{name}.{key}", value, -1, max(clock.values())


def check_fits(have: StateDict, model: StateDict, folder: Path, about: Mapping[str, Any]) -> None:
    """Compare weights (names, shapes, types) and spaces with those of a checkpoint.

    Args:
        about: ``spec`` and ``config`` of this run, as they are saved with weights.

    Raises:
        UsageError: what differs, and what to type.
        CheckpointError: its spec or its configuration is damaged.
    """
    networks = [name for name in ("online", "target") if name in have]
    ours, theirs = weights(have, networks), weights(model, networks)
    differ = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    spec = read(folder, SPEC)
    try:
        if differ:
            saved, name = {SPEC: spec, CONFIG: read(folder, CONFIG)}, differ[0]
            there, here = (each.get(name, "not there") for each in (theirs, ours))
            why = difference(saved, about) or (
                f"its {name} is {there}, here {here}. Choose another checkpoint."
            )
            raise UsageError(f"The checkpoint {folder} does not fit: {why}")
        # networks of several maps fit teams of any size
        several = (about[CONFIG].get("env") or {}).get("maps")
        changed = "" if several else changes(spec, about[SPEC])
    except UNFIT as error:
        raise CheckpointError(
            f"{folder} has a damaged spec.json or config.json: {error!r:.300}"
        ) from error
    if changed:
        raise UsageError(
            f"The checkpoint {folder} comes from an environment with different spaces: {changed}. "
            "Its networks would misread them. Choose the environment it was trained in, or train "
            "again."
        )


def require_same_settings(folder: Path, config: JsonObject) -> None:
    """Refuse to continue with settings that give a saved state another meaning: the moments of two
    optimizers may have the same names, as those of Adam and RAdam have, and a part of a gradient
    step that is owed is counted in parts of the ratio.

    Raises:
        UsageError: both values, and what to type.
    """
    saved = read(folder, CONFIG)
    for name in SAME:
        there, here = (each["algo"][name] for each in (saved, config))
        if name == "optimizer":
            there, here = there["_target_"], here["_target_"]
        if there != here:
            raise UsageError(
                f"The checkpoint {folder} was saved with the {name} {there or 'null'}, and here it "
                f"is {here or 'null'}. Choose algo.{name} as it was, or start from the weights: "
                "checkpoint=RUN_FOLDER."
            )


def weights(model: Mapping[str, object], networks: Sequence[str]) -> dict[str, str]:
    """The shape and type of every weight, such as ``[64, 4] float32``, by name."""
    kinds = {}
    for network in networks:
        tensors = model.get(network)
        for name, tensor in tensors.items() if isinstance(tensors, Mapping) else ():
            is_tensor = isinstance(tensor, torch.Tensor)
            kind = f"{list(tensor.shape)} {tensor.dtype}" if is_tensor else type(tensor).__name__
            kinds[f"{network}.{name}"] = kind.replace("torch.", "")
    return kinds


def difference(saved: JsonObject, about: Mapping[str, Any]) -> str:
    """Why a checkpoint's networks do not fit this run, and what to type; "" if they do."""
    there, here = saved[CONFIG]["choices"], about[CONFIG]["choices"]
    type_ = " ".join(f"{key}={there[key]}" for key in ("algo", "env") if there[key] != here[key])
    advice = f"Type {type_}, or choose another checkpoint." if type_ else ""
    old, new = (size_words(record[SPEC]) for record in (saved, about))
    if old != new:
        return (
            f"it was trained with {there['algo']} on {there['env']} ({excerpt(old, new)}), this "
            f"run is {here['algo']} on {here['env']} ({excerpt(new, old)}). "
            + (advice or "Choose the environment it was trained in, or another checkpoint.")
        )
    if there["algo"] != here["algo"]:
        return f"it is a {there['algo']} checkpoint, this run is {here['algo']}. {advice}"
    named = about[CONFIG]["algo"]
    parts = [p for p in PARTS if not str((named.get(p) or {}).get("_target_")).endswith(LEFT_OUT)]
    theirs, ours = (
        flat({part: r[CONFIG]["algo"].get(part) or {} for part in parts}, prefix="algo.")
        for r in (saved, about)
    )
    keys = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    if not keys:
        return ""
    settings = ", ".join(f"{k}={theirs.get(k)!s:.80}, here {ours.get(k)}" for k in keys)
    return f"its networks have different settings ({settings}). Type them as they are there."


def size_words(spec: SpecRecord) -> str:
    """3 agents, 9 actions, observation 30, state 48; the agents by name if they have names."""
    many = "agent" if spec["n_agents"] == 1 else "agents"
    names = agents_words(spec)
    many += "" if names is None else f" {names}"
    shape = "×".join(map(str, spec["obs_shape"])) or "1"
    return (
        f"{spec['n_agents']} {many}, {spec['n_actions']} actions, observation {shape}, "
        f"state {spec['state_dim']}"
    )
