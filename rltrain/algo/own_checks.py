"""Checks of the outputs of custom networks, mixers and explorations, before training."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.algo.checks import FIELDS, OPTIONAL, axis_sizes, described
from rltrain.common.metrics import plain_metrics
from rltrain.errors import memory_problem, reason
from rltrain.interfaces import Agents, Mixer
from rltrain.types import Batch, Clock, EnvSpec, Output, module_device

LENGTH, WIDTH = 3, 2
"""Transitions and windows of the test batch."""


def require_step(agents: Agents, spec: EnvSpec) -> None:
    """Check that ``step`` of the agents returns values [E, N, A] and states [E, N, H], float32.

    Raises:
        ValueError: what it returned or raised.
    """
    batch, training = zero_batch(spec, module_device(agents)), agents.training
    shapes = _shapes(agents, spec)
    hidden = torch.zeros(shapes[1], device=batch.obs.device)
    name = f"{type(agents).__name__}.step (algo.network)"
    of = f"{WIDTH} environments: expected a tuple of values [E, N, A] and hidden states [E, N, H]"
    inputs = {"obs": batch.obs[0], "last_action": batch.last_action[0], "hidden": hidden}
    given = _called(name, agents.eval().step, inputs, of)
    agents.train(training)
    _require(name, given, shapes, of)


def require_unroll(agents: Agents, spec: EnvSpec) -> None:
    """Check that ``unroll`` of the agents returns values and states of every time step, with a
    gradient.

    Raises:
        ValueError: what it returned or raised.
    """
    batch, training = zero_batch(spec, module_device(agents)), agents.training
    name = f"{type(agents).__name__}.unroll (algo.network)"
    of = (
        f"{WIDTH} windows of {LENGTH} transitions: expected an rltrain.types.Output of values "
        "[T+1, B, N, A] and hidden states [T+1, B, N, H]"
    )
    given = _called(name, agents.eval().unroll, {"batch": batch}, of)
    agents.train(training)
    found = given[:2] if isinstance(given, Output) else given
    _require(name, found, [(LENGTH + 1, *shape) for shape in _shapes(agents, spec)], of)
    copied = copy.deepcopy(agents)  # it may keep what it computed, and the target is a copy
    if any(p.requires_grad for p in agents.parameters()) and not any(
        x is not None and x.requires_grad
        for mode in (False, True)
        for x in copied.train(mode).unroll(batch)[::2]  # q and dist
    ):
        raise ValueError(
            f"{name} returned values without a gradient, so its parameters would not be trained. "
            "Compute them without torch.no_grad(), .detach() and .numpy()."
        )


def require_mixer(mixer: Mixer, spec: EnvSpec) -> None:
    """Check that a mixer returns values [T, B, M].

    Raises:
        ValueError: what it returned or raised.
    """
    batch, training = zero_batch(spec, module_device(mixer)), mixer.training
    q = torch.zeros(batch.action.shape, device=batch.obs.device)
    name = f"{type(mixer).__name__}.forward (algo.mixer)"
    of = f"{WIDTH} windows of {LENGTH} transitions: expected values [T, B, M]"
    inputs = {"q": q, "greedy_q": q, "action": batch.action, "state": batch.state[:-1]}
    mixed = _called(name, mixer.eval(), inputs, of)
    mixer.train(training)
    found = (mixed,) if isinstance(mixed, Tensor) else mixed
    _require(name, found, [(LENGTH, WIDTH, mixer.n_streams)], of)


def require_facts(exploration: Any) -> None:
    """Check what an exploration says about itself: its metrics, and when it stops changing.

    Raises:
        UsageError, ValueError: what it returned or raised.
    """
    name, of = type(exploration).__name__, "the start of training"
    metrics = _called(
        f"{name}.metrics (algo.exploration)", exploration.metrics, {"clock": Clock()}, of
    )
    end = _called(f"{name}.ends_at (algo.exploration)", exploration.ends_at, {}, of)
    plain_metrics(f"{name}.metrics (algo.exploration)", metrics)
    if end is not None and not isinstance(end, int):
        raise ValueError(
            f"{name}.ends_at (algo.exploration) returned {end!r}: expected an env step, or None."
        )


def require_actions(exploration: object, given: object, available: np.ndarray) -> None:
    """Check that an exploration chose available actions [E, N].

    Args:
        given: what ``choose`` returned.
        available: [E, N, A] bool.

    Raises:
        ValueError: what it returned.
    """
    returned = f"{type(exploration).__name__}.choose (algo.exploration) returned"
    *shape, n_actions = available.shape
    if not isinstance(given, np.ndarray) or [*given.shape] != shape or given.dtype.kind not in "iu":
        raise ValueError(
            f"{returned} {described(given)}: expected a NumPy array of integers [E, N], {shape}."
        )
    may = available | ~available.any(-1, keepdims=True)
    for e, n in np.argwhere(~(may & (given[..., None] == np.arange(n_actions))).any(-1)):
        numbers = ", ".join(map(str, np.flatnonzero(may[e, n])))
        raise ValueError(
            f"{returned} action {given[e, n]} for agent {n} of environment {e}: expected one of "
            f"those that are available ({numbers})."
        )


def require_probabilities(
    exploration: object, given: object, action: np.ndarray, available: np.ndarray
) -> np.ndarray:
    """Check that an exploration gives a probability, or NaN, for every action [E, N] that it chose
    of ``available`` ones [E, N, A].

    Raises:
        ValueError: what it returned.
    """
    returned = f"{type(exploration).__name__}.probability (algo.exploration) returned"
    if not isinstance(given, np.ndarray) or (given.shape, given.dtype.kind) != (action.shape, "f"):
        raise ValueError(
            f"{returned} {described(given)}: expected an array of probabilities [E, N], "
            f"{[*action.shape]}."
        )
    for e, n in np.argwhere(((given <= 0) | (given > 1 + 1e-6)) & available.any(-1)):
        raise ValueError(
            f"{returned} {given[e, n]} for action {action[e, n]} of agent {n} of environment {e}, "
            "which choose has chosen: expected a number above 0, of at most 1, or NaN if unknown."
        )
    return given


@torch.no_grad()
def _called(name: str, call: Callable[..., Any], inputs: Mapping[str, object], of: str) -> Any:
    """What a part, or a method of it, returns.

    Raises:
        ValueError: it raised; the message has the line in the file of the part's class.
    """
    try:
        return call(*inputs.values())
    except Exception as error:
        if memory_problem(error):
            raise
        module = type(getattr(call, "__self__", call)).__module__
        file = getattr(sys.modules.get(module), "__file__", None)
        lines = [each.lineno for each in extract_tb(error.__traceback__) if each.filename == file]
        at = f" ({file}, line {lines[-1]})" if lines else ""
        given = ", ".join(f"{name} {described(x)}" for name, x in inputs.items()) or "nothing"
        problem = f"{name} failed: {reason(error)}{at}"
        raise ValueError(f"{problem}. It was called with {given} for {of}.") from error


def _shapes(agents: Agents, spec: EnvSpec) -> list[tuple[int, ...]]:
    """Shapes of the values and hidden states of a time step."""
    team = WIDTH, spec.n_agents
    return [(*team, spec.n_actions), (*team, agents.hidden_dim)]


def _require(name: str, given: Any, shapes: Sequence[tuple[int, ...]], of: str) -> None:
    found = [tuple(getattr(x, "shape", ())) for x in given] if isinstance(given, tuple) else []
    if found != list(shapes):
        returned = found if isinstance(given, tuple) else type(given).__name__
        expected = list(shapes) if len(shapes) > 1 else shapes[0]
        raise ValueError(f"{name} returned {returned} for {of}, of shapes {expected}.")
    types = [str(x.dtype).removeprefix("torch.") for x in given]
    if not {*types} <= {"float32", "float64"}:
        raise ValueError(
            f"{name} returned numbers of {' and '.join(types)} for {of}, of float32. Convert them "
            "with tensor.float()."
        )


def zero_batch(spec: EnvSpec, device: torch.device) -> Batch:
    """A batch of zeros, with every action available."""
    sizes = axis_sizes(spec, LENGTH, WIDTH)
    fields: Any = {
        name: torch.zeros([n for axis in axes for n in sizes[axis]], dtype=dtype, device=device)
        for name, (dtype, axes) in FIELDS.items()
        if name not in OPTIONAL
    }
    for name in ("avail_actions", "mask", "weight"):
        fields[name] = torch.ones_like(fields[name])
    return Batch(**{**fields, "last_action": fields["last_action"] - 1})
