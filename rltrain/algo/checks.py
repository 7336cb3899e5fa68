"""Checks of external arrays: batches, losses, observations and masks of available actions.

Compiled kernels read arrays without bounds checks, so nothing reaches them unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from operator import attrgetter
from statistics import mode
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.types import Batch, EnvSpec, LossResult

FIELDS = {  # name: dtype and axes; "*O" stands for the shape of a (stacked) observation
    "obs": (torch.float32, ("T+1", "B", "N", "*O")),
    "avail_actions": (torch.bool, ("T+1", "B", "N", "A")),
    "state": (torch.float32, ("T+1", "B", "S")),
    "last_action": (torch.int64, ("T+1", "B", "N")),
    "last": (torch.bool, ("T+1", "B")),
    "action": (torch.int64, ("T", "B", "N")),
    "reward": (torch.float32, ("T", "B", "R")),
    "terminated": (torch.bool, ("T", "B")),
    "mask": (torch.bool, ("T", "B")),
    "weight": (torch.float32, ("B",)),
    "index": (torch.int64, ("B",)),
    "hidden": (torch.float32, ("B", "N", "H")),
    "agent": (torch.int64, ("B", "N")),
    "td_target": (torch.float32, ("T", "B", "M")),
}
OPTIONAL = ("hidden", "agent", "td_target")
_tensors = attrgetter(*FIELDS)


def require_result(result: object, batch: Batch) -> None:
    """Check that a loss returned a sum with a gradient, a count, priorities [B] and metrics.

    Raises:
        ValueError: what it returned.
    """
    returned = "The loss (algo.loss) returned "
    if not isinstance(result, LossResult):
        raise ValueError(
            f"{returned}{type(result).__name__}: expected an rltrain.types.LossResult, as "
            "rltrain.algo.loss.td.total makes it."
        )
    numbers = {"loss_sum": result.loss_sum, "count": result.count}
    if isinstance(result.metrics, Mapping):
        numbers |= {f"metrics[{name!r}]": value for name, value in result.metrics.items()}
    else:
        raise ValueError(f"{returned}metrics={type(result.metrics).__name__}: expected a mapping.")
    for name, value in numbers.items():
        shape = tuple(getattr(value, "shape", ()))
        if not isinstance(value, Tensor | Real) or shape:
            what = f"of the shape {shape}" if shape else f"= {value!r}"
            raise ValueError(f"{returned}{name} {what}: expected one number.")
    if lacks_gradient(result) and result.count > 0:
        raise ValueError(
            f"{returned}loss_sum={float(result.loss_sum)} without a gradient, so nothing would be "
            "trained. Compute it from online.agents.unroll(batch) and online.mixer without "
            ".item(), .detach() and .numpy(); neither may the network (algo.network) and the mixer "
            "(algo.mixer) use them, or torch.no_grad()."
        )
    found, expected = tuple(getattr(result.priority, "shape", ())), tuple(batch.weight.shape)
    if found != expected:
        raise ValueError(
            f"{returned}priority of the shape {found}: expected one per window [B], {expected}."
        )
    priority = torch.as_tensor(result.priority)
    wrong = priority[~((priority >= 0) & priority.isfinite())].tolist()
    if wrong and torch.as_tensor(result.loss_sum).isfinite():  # else the update is undone
        raise ValueError(
            f"{returned}priority {wrong[0]}: expected finite numbers, none below 0, such as "
            "absolute TD errors."
        )


def lacks_gradient(result: LossResult) -> bool:
    """Whether a loss has no gradient, as where no transition of its batch counts."""
    return result.gradient is None and not getattr(result.loss_sum, "requires_grad", False)


class BatchCheck:
    """Check of batches against the sizes of a network, once for each new layout.

    A layout is the shape and dtype of every field. Whether actions lie in 0 … A - 1 is checked for
    the first batch of a layout; later ones rely on the bounds checks of indexing in PyTorch and in
    the compiled step, and on ``require_indices`` to name the field.

    Args:
        spec: sizes of the environment.
        hidden_dim: H of the agents.
        n_streams: M of the mixer.
        device: device of the network.
    """

    def __init__(
        self, *, spec: EnvSpec, hidden_dim: int, n_streams: int, device: torch.device
    ) -> None:
        self.spec, self.hidden_dim, self.n_streams = spec, hidden_dim, n_streams
        self.device = device
        self._known: set[tuple[object, ...]] = set()
        self._unchecked = True  # no result of the newest layout yet

    def __call__(self, batch: Batch) -> None:
        """Check a batch, unless its layout is known.

        Raises:
            ValueError: names the fields, and what was expected and given.
        """
        try:
            layout = batch_layout(batch)
            known = layout in self._known
        except (AttributeError, TypeError):  # a field is not a tensor
            layout, known = (), False
        if known:
            return
        problems = list(self._problems(batch))
        if problems:
            raise ValueError(f"The batch does not fit the network. {' '.join(problems)}")
        self.require_indices(batch)
        self._known.add(layout)
        self._unchecked = True

    def result(self, result: LossResult, batch: Batch) -> LossResult:
        """Return ``result``, checked for the first batch of a layout, up to one with a gradient.

        Raises:
            ValueError: a loss returned something other than a ``LossResult`` for this batch.
        """
        if self._unchecked:
            require_result(result, batch)
            self._unchecked = lacks_gradient(result)
        return result

    def require_indices(self, batch: Batch) -> None:
        """Check the values of all fields that are used as indices; waits for the device.

        Raises:
            ValueError: names the field and the range.
        """
        n_actions, n_agents = self.spec.n_actions, self.spec.n_agents
        ranges = ("action", 0, n_actions), ("last_action", -1, n_actions), ("agent", 0, n_agents)
        for name, first, end in ranges:
            values = getattr(batch, name)
            if values is None:
                continue
            low, high = (int(x) for x in values.aminmax())
            if low < first or high >= end:
                raise ValueError(
                    f"batch.{name}: expected numbers from {first} to {end - 1}, got numbers "
                    f"from {low} to {high}."
                )

    def _problems(self, batch: Batch) -> Iterator[str]:
        if not isinstance(batch, Batch):
            yield f"Expected an rltrain.types.Batch, got {type(batch).__name__}."
            return
        sizes = self._sizes(batch)
        for name, (dtype, axes) in FIELDS.items():
            value = getattr(batch, name)
            if value is None and name in OPTIONAL:
                continue
            shape = tuple(n for axis in axes for n in sizes[axis])
            fits = isinstance(value, Tensor) and tuple(value.shape) == shape
            if not fits or value.dtype != dtype:
                yield (
                    f"batch.{name}: expected {_name(dtype)} {list(shape)} "
                    f"([{', '.join(axes)}]), got {described(value)}."
                )
            elif value.device.type != self.device.type:
                yield f"batch.{name}: expected it on {self.device}, got {value.device}."
        (T,) = sizes["T"]
        for name in ("mask_end", "burn_in"):
            n = getattr(batch, name)
            if n is not None and not (type(n) is int and 0 <= n <= T):
                yield f"batch.{name}: expected None or a whole number from 0 to {T}, got {n!r}."
        if not (isinstance(batch.eta, int | float) and 0 <= batch.eta <= 1):
            yield f"batch.eta: expected a number from 0 to 1, got {batch.eta!r}."
        if not isinstance(batch.whole, bool):
            yield f"batch.whole: expected true or false, got {batch.whole!r}."

    def _sizes(self, batch: Batch) -> Mapping[str, tuple[int, ...]]:
        spec, sizes = self.spec, axis_sizes(self.spec, *_length_and_width(batch))
        if batch.agent is not None:  # windows that show one agent of the team
            own_reward = spec.n_rewards == spec.n_agents
            sizes |= {"N": (1,), "R": (1 if own_reward else spec.n_rewards,)}
        return {**sizes, "M": (self.n_streams,), "H": (self.hidden_dim,)}


def axis_sizes(spec: EnvSpec, length: int, width: int) -> dict[str, tuple[int, ...]]:
    """Sizes of the axes in ``FIELDS`` of a batch of ``width`` windows, but those of networks."""
    return {
        "T": (length,),
        "T+1": (length + 1,),
        "B": (width,),
        "N": (spec.n_agents,),
        "A": (spec.n_actions,),
        "*O": stacked_shape(spec),
        "S": (spec.state_dim,),
        "R": (spec.n_rewards,),
    }


def _length_and_width(batch: Batch) -> tuple[int, int]:
    """T and B of most fields, so that only deviating fields are reported."""
    lengths, widths = [1], [1]  # of the smallest batch, if no field has any
    for name, (_, axes) in FIELDS.items():
        shape = getattr(getattr(batch, name), "shape", ())
        if len(shape) == len(axes) or (axes[-1] == "*O" and len(shape) >= len(axes)):
            sizes = dict(zip(axes, shape, strict=False))
            lengths += [sizes[axis] - (axis == "T+1") for axis in ("T", "T+1") if axis in sizes]
            widths.append(sizes["B"])
    return max(mode(lengths), 1), max(mode(widths), 1)


def batch_layout(batch: Batch) -> tuple[object, ...]:
    """Shapes and dtypes of a batch's fields, and its settings; runs in every update."""
    if batch.layout is not None:
        return batch.layout
    fields = _tensors(batch) if batch.arrays is None else batch.arrays.values()
    layout = [None if x is None else (x.shape, x.dtype) for x in fields]
    return (*layout, batch.mask_end, batch.burn_in, batch.eta, batch.whole)


def stacked_shape(spec: EnvSpec) -> tuple[int, ...]:
    """The shape of one agent's observation with ``frame_stack`` frames along its first axis."""
    first, *rest = spec.obs_shape
    return (first * spec.frame_stack, *rest)


def require_observations(given: object, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Observations as an array of ``dtype`` (float32 or uint8).

    Args:
        given: an array-like.
        shape: the expected shape.

    Raises:
        ValueError: another shape, something other than numbers, NaN or infinity, or numbers that
            ``dtype`` cannot hold.
    """
    seen = _numbers("observations", given)
    if seen.shape != shape:
        raise ValueError(f"observations: expected the shape {shape}, got {seen.shape}.")
    if dtype == "uint8":
        with np.errstate(invalid="ignore"):
            exact = (seen == seen.astype(np.uint8)).all()
        if not exact:
            raise ValueError("observations: expected whole numbers from 0 to 255, got others.")
        return seen.astype(np.uint8)
    with np.errstate(over="ignore"):
        seen = np.array(seen, dtype, order="C")  # a copy: torch takes no negative strides
    if not np.isfinite(seen).all():
        raise ValueError(f"observations: expected finite {dtype} numbers, got NaN or infinity.")
    return seen


def available_or_all(given: object, shape: tuple[int, ...], spec: EnvSpec) -> np.ndarray:
    """The given mask of available actions [..., N, A], or all actions if none was given.

    Raises:
        ValueError: a mask that does not fit, or none for an environment with masks.
    """
    if given is not None:
        return require_available(given, shape)
    if spec.masks_actions:
        raise ValueError(
            f"avail_actions: expected the shape {shape}, got none, but not all actions of this "
            "environment are available at all times."
        )
    return np.ones(shape, np.bool_)


def require_available(given: object, shape: tuple[int, ...]) -> np.ndarray:
    """A mask of available actions [..., A] as booleans.

    Args:
        given: an array of booleans, or of 0 and 1.
        shape: the expected shape, [..., N, A]; N may be missing for one agent.

    Raises:
        ValueError: another shape, other values, or an agent without an available action.
    """
    mask = _numbers("avail_actions", given)
    if shape[-2] == 1 and mask.shape == (*shape[:-2], shape[-1]):
        mask = mask.reshape(shape)
    if mask.shape != shape:
        raise ValueError(f"avail_actions: expected the shape {shape}, got {mask.shape}.")
    available = mask == 1
    if not (available | (mask == 0)).all():
        raise ValueError("avail_actions: expected booleans, or 0 and 1, got other values.")
    if not available.any(-1).all():
        raise ValueError("avail_actions: expected an available action for each agent, got none.")
    return available


def require_memory(given: Any, like: Mapping[str, Any], n_actions: int) -> None:
    """Check the state passed back to ``compute_actions``.

    Args:
        given: the state.
        like: a state for the same number of observations.
        n_actions: bound of the previous actions.

    Raises:
        ValueError: names the part that comes from another call or policy.
    """
    for name, ours in like.items():
        theirs: Any = given.get(name) if isinstance(given, Mapping) else None
        if isinstance(ours, Mapping):
            require_memory(theirs, ours, n_actions)
            continue
        alike = isinstance(theirs, type(ours)) and theirs.dtype == ours.dtype
        if alike and theirs.shape == ours.shape:
            continue
        raise ValueError(
            f"state[{name!r}]: expected {described(ours)}, as the last call returned it for as "
            f"many observations, got {described(theirs)}."
        )
    action = given.get("last_action")
    if action is not None and not bool(((action >= -1) & (action < n_actions)).all()):
        raise ValueError(f"state['last_action']: expected numbers from -1 to {n_actions - 1}.")


def _numbers(what: str, given: object) -> np.ndarray:
    if isinstance(given, Mapping):
        raise ValueError(f"{what}: expected an array of numbers, got {type(given).__name__}.")
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{what}: expected an array of numbers, got {error}.") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{what}: expected an array of numbers, got {array.dtype}.")
    return array


def described(value: object) -> str:
    """Dtype and shape of an array, those in a batch, or the type of something else."""
    if isinstance(value, Tensor | np.ndarray):
        kind = " (NumPy)" if isinstance(value, np.ndarray) else ""
        return f"{_name(value.dtype)} {list(value.shape)}{kind}"
    if isinstance(value, Batch):
        return f"(obs {described(value.obs)}, state {described(value.state)})"
    return "none" if value is None else type(value).__name__


def _name(dtype: torch.dtype | np.dtype) -> str:
    return str(dtype).removeprefix("torch.")
