"""Spaces of Gymnasium as plain data, as they stand in an ``EnvSpec``: their sizes, their words, and
how those of two environments with the same sizes differ. Networks and recorded steps of the one
would be read wrongly in the other.

To compare something else: a function from the record of a spec to a text, and its line in
``FACTS``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import reduce
from operator import index
from typing import Literal, TypeGuard

import numpy as np
from pydantic import TypeAdapter, ValidationError

from rltrain.common.json_text import first_problem
from rltrain.errors import reason
from rltrain.types import LARGEST_SIZE, EnvSpec, SpecRecord

SPEC = TypeAdapter(EnvSpec)
SHOWN = 300
"""Characters of a text that a message shows."""
NUMBER_TYPE = re.compile("bool|u?int(8|16|32|64)|float(16|32|64|128)|[<>][iuf][248]")
"""Names of the types of numbers that spaces have."""


def read_spec(record: Mapping[str, object]) -> EnvSpec:
    """The spec whose ``record`` was saved as JSON, which has lists for tuples.

    Raises:
        ValueError: a field that is unknown, missing or of a different type, or no space.
    """
    if unknown := set(record) - {field.name for field in fields(EnvSpec)}:
        raise ValueError(f"unknown field {min(unknown):.80}")
    try:
        spec = SPEC.validate_python(record)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error
    for name, words in {**FACTS, "sizes": lambda _: require_sizes(spec)}.items():
        try:
            words(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{name} are invalid ({reason(error):.200})") from error
    return spec


def require_spec(spec: object, name: str) -> None:
    """ValueError for a ``spec`` that no environment has: its field, what was expected, and got."""
    if not isinstance(spec, EnvSpec):
        raise ValueError(f"{name}: expected an rltrain.types.EnvSpec, got {spec!r:.100}.")
    try:
        read_spec(vars(spec))
        json.dumps(spec.record)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is no valid rltrain.types.EnvSpec: {error!s:.300}. Expected numbers of "
            f"Python, as int(space.n), and sizes up to {LARGEST_SIZE:,}: scale large images down."
        ) from error


def require_sizes(spec: EnvSpec) -> None:
    """ValueError for sizes that no environment has, which memory may have no room for, and for
    actions of no type of numbers.
    """
    spaces = [one for _, *each in spec.agents or () for one in each]
    spaces.append(spec.obs_space or {"tuple": []})
    parts = [part for part in (spec.layout or {}).values() if isinstance(part, Mapping)]
    blocks = [each for part in parts for each in part.values() if isinstance(each, Mapping)]
    sizes = {
        "frame_stack times obs_shape": spec.frame_stack * math.prod(spec.obs_shape),
        "state_dim per agent": spec.state_dim // max(spec.n_agents, 1),
        "a space": max(map(flat_size, spaces), default=0),
        "a block": max((int(b.get("count", 1)) * int(b.get("size", 1)) for b in blocks), default=0),
    }
    for name, size in sizes.items():
        if not 0 <= size <= LARGEST_SIZE:
            raise ValueError(f"{name}: {size!a:.40} is not in 0 … {LARGEST_SIZE:,}")
    if spec.n_rewards not in (1, spec.n_agents):
        raise ValueError(f"n_rewards is {spec.n_rewards}, not 1 or n_agents ({spec.n_agents})")
    if wrong := [x for x in spec.obs_bytes if not 0 <= x[0] < x[1] <= math.prod(spec.obs_shape)]:
        raise ValueError(f"obs_bytes has {wrong[0]}, which are no columns of observations")
    types = [one["dtype"] for one in spaces if "dtype" in one]
    for name in types + [spec.action_dtype] * bool(spec.action_components or spec.joint):
        number_type(name)


def number_type(name: object) -> np.dtype:
    """The type of numbers of this name; ValueError for anything else that NumPy could parse."""
    if not isinstance(name, str) or not NUMBER_TYPE.fullmatch(name):
        raise ValueError(f"expected a type of numbers, such as float32, got {name!a:.40}")
    return np.dtype(name)


def flat_size(record: SpecRecord) -> int:
    """Numbers in a flattened observation of a recorded space."""
    match record:
        case {"box": shape} | {"multi_binary": shape}:
            return math.prod(shape)
        case {"discrete": n}:
            return int(n)
        case {"multi_discrete": nvec}:
            return int(np.sum(nvec))
        case {"tuple": inner}:
            return sum(map(flat_size, inner))
        case {"dict": inner}:
            return sum(flat_size(one) for _, one in inner)
    raise ValueError(f"expected the record of an observation space, got {record}.")


def by_component(mask: object) -> TypeGuard[tuple[object, ...]]:
    """Whether a mask of available actions is a tuple of one for each component, as in Gymnasium's
    ``sample``.
    """
    return isinstance(mask, tuple) and not all(map(np.isscalar, mask))


def combined(masks: Sequence[object], sizes: Sequence[int]) -> np.ndarray | None:
    """The mask uint8 of the combinations of components whose masks of ``sizes`` are given; None for
    anything else.
    """
    parts = [part for one in masks if (part := zeros_and_ones(one)) is not None]
    fits = [part.shape for part in parts] == [(size,) for size in sizes]
    return np.ravel(reduce(np.multiply.outer, parts)) if fits else None


def zeros_and_ones(given: object) -> np.ndarray | None:
    """Zeros and ones as uint8; None for anything else."""
    try:
        mask = np.asarray(given)
        with np.errstate(invalid="ignore"):
            exact = mask.astype(np.uint8)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # rows of different lengths, …
        return None
    right = ((exact == mask) & (exact <= 1)).all() and not np.ma.is_masked(given)
    return exact if right else None


def action_parts(record: SpecRecord) -> tuple[tuple[int, int], ...]:
    """The number of values and the first value of a recorded Discrete, or of each component.

    Raises:
        ValueError: no record of actions.
    """
    match record:
        case {"discrete": n, "start": start}:
            return ((n, start),)
        case {"multi_discrete": nvec, "start": start}:
            return tuple(zip(nvec, start, strict=True))
        case {"multi_binary": [n]}:
            return ((2, 0),) * n
    raise ValueError(f"expected the record of an action space, got {record}.")


MASKS = tuple(
    f"{kind}_{what}"
    for kind in ("action", "actions", "avail", "available", "legal", "valid")
    for what in ("mask", "masks", "actions", "moves")
)
"""Usual names of masks in observations."""
USUAL = (1, 3, 4)
"""Numbers of channels of gray and color images."""


def channel_side(shape: Sequence[int]) -> tuple[Literal["first", "last"], bool]:
    """Which axis of an image has its channels, and whether its sizes leave no doubt: two sides that
    are equal, or one usual number of channels. In doubt the two sides that are more alike are
    height and width.
    """
    a, b, c = shape
    if (a == b) != (b == c):
        return ("last" if a == b else "first"), True
    if (a in USUAL) != (c in USUAL):
        return ("first" if a in USUAL else "last"), True
    return ("last" if abs(math.log(a / b)) <= abs(math.log(b / c)) else "first"), False


def channel_text(spec: SpecRecord) -> str:
    """Where images of a spec have their channels, "channels last", and in doubt what to type."""
    seen = [spec["obs_space"] or {}, *(each[1] for each in spec["agents"] or ())]
    return ", ".join(dict.fromkeys(words for one in seen for words in side_words(spec, "", one)))


def mask_entries(space: SpecRecord) -> list[str]:
    """Entries of a recorded Dict that look like masks of available actions."""
    return [name for name, _ in space.get("dict", []) if str(name).lower() in MASKS]


def side_words(spec: SpecRecord, name: str, space: SpecRecord) -> Iterator[str]:
    """The words of each image in a recorded space.

    Args:
        name: of the entry that the space is, as " of NAME"; nothing for the whole.
    """
    for key, one in space.get("dict", []):
        yield from side_words(spec, f" of {key}", one)
    for one in space.get("tuple", []):
        yield from side_words(spec, name, one)
    if len(space.get("box", [])) == 3:
        shape, side = "×".join(map(str, space["box"])), space["channels"]
        other = "first" if side == "last" else "last"
        known = channel_side(space["box"])[1] or spec["channels"] != "auto"
        guess = "" if known else f" (a guess for {shape}; else type env.channels={other})"
        yield f"channels{name} {side}{guess}"


def space_words(record: SpecRecord) -> str:
    """A recorded space in a few words; the keys of a Dict in the order of their names."""
    match record:
        case {"box": shape, "dtype": dtype}:
            facts = ("channels", "high") if dtype == "uint8" else ("channels",)
            rest = [f"{name} {record[name]}" for name in facts if name in record]
            return " ".join([f"Box{tuple(map(index, shape))} {number_type(dtype).name}", *rest])
        case {"discrete": n, "start": start}:
            return f"Discrete({n}, start={start})" if start else f"Discrete({n})"
        case {"multi_binary": shape}:
            return f"MultiBinary({shape})"
        case {"multi_discrete": nvec, "start": start}:
            first = f", start={start}" if start != [0] * len(nvec) and start != 0 else ""
            return f"MultiDiscrete({nvec}{first})"
        case {"tuple": inner}:
            return f"Tuple({', '.join(map(space_words, inner))})"
        case {"dict": inner}:
            keys = sorted(inner, key=lambda each: str(each[0]))
            return f"Dict({', '.join(f'{name}: {space_words(one)}' for name, one in keys)})"
    return str(record)


def changes(theirs: Mapping[str, object], ours: Mapping[str, object]) -> str:
    """The differences between two specs, "actions Discrete(2), here Discrete(3)"; "" for none.

    Args:
        theirs: ``EnvSpec.record`` of a checkpoint or a dataset, also as read from JSON.
        ours: that of the environment here.
    """
    there, here = (json.loads(json.dumps(record)) for record in (theirs, ours))
    if there == here:
        return ""
    differences = []
    for name, words in FACTS.items():
        then, now = words(there), words(here)
        if then is not None and now is not None and then != now:
            differences.append(f"{name} {excerpt(then, now)}, here {excerpt(now, then)}")
    return "; ".join(differences)


def excerpt(text: str, other: str) -> str:
    """A text; of a long one what is near its first difference from another."""
    if len(text) <= SHOWN:
        return text
    pairs = enumerate(zip(text, other, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))
    start = max(first - SHOWN // 4, 0)
    return f"{'…' if start else ''}{text[start : start + SHOWN]}…"


def require_alike(training: EnvSpec, tests: EnvSpec, *, options: bool = False) -> None:
    """ValueError unless the environments of tests look like those of training.

    Args:
        options: those of tests are made with options of their own (test.env).
    """
    if training == tests:
        return
    ours, theirs = training.record, tests.record
    may = ("max_steps", "layout", "reports_win", "action_dtype")
    differing = [name for name in ours if name not in may and ours[name] != theirs[name]]
    fields = [f"{name} is {theirs[name]} in tests, {ours[name]}" for name in differing]
    if changed := changes(theirs, ours) or "; ".join(fields):
        raise ValueError(
            f"{'test.env makes environments' if options else 'The environments of tests are made'} "
            f"with different spaces from those of training ({changed} in training). "
            + (
                "Leave out the options that change them."
                if options
                else "Expected the same in all: a constructor must not draw them, and its argument "
                "training must not change them."
            )
        )


def stored_words(spec: SpecRecord) -> str:
    """Type and scale of observations, as networks get them."""
    scale = Fraction(float(spec["obs_scale"])).limit_denominator(1_000_000)
    return f"{number_type(spec['obs_dtype']).name} × {scale}"


def action_words(spec: SpecRecord) -> str:
    """The actions of one agent."""
    components = spec["action_components"]
    if components is None:
        return space_words({"discrete": spec["n_actions"], "start": spec["first_action"]})
    sizes, starts = zip(*components, strict=True)
    return space_words({"multi_discrete": list(sizes), "start": list(starts)})


def agents_words(spec: SpecRecord) -> str | None:
    """The names of a team's agents in their order; None where they have none."""
    each = spec["agents"]
    return None if each is None else ", ".join(str(name) for name, *_ in each)


def spaces_words(spec: SpecRecord) -> str | None:
    """Observations and actions of a team's agents."""
    each = spec["agents"]
    if each is None:
        return None
    own = {name: f"{space_words(seen)} and {space_words(acts)}" for name, seen, acts in each}
    if len(set(own.values())) == 1:
        return next(iter(own.values()))
    return ", ".join(f"{name} {own[name]}" for name in sorted(own, key=str))


FACTS: Mapping[str, Callable[[SpecRecord], str | None]] = {
    "observations": lambda spec: spec["obs_space"] and space_words(spec["obs_space"]),
    "stored observations": stored_words,
    "actions": action_words,
    "agents": agents_words,
    "their spaces": spaces_words,
}
