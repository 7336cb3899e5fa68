"""Checkpoint folders of PyMARL, EPyMARL and PyMARL2: found and read, without executing anything
that is in them.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import IO, Any, TypeGuard
from zipfile import ZipFile, is_zipfile

import torch
from torch import Tensor

from rltrain.common.checkpoint.storage import NUMBERS
from rltrain.common.files import open_plain, whole_number
from rltrain.common.json_text import is_number
from rltrain.common.number_types import MOST_COUNTED
from rltrain.errors import CheckpointError, UsageError
from rltrain.types import StateDict

AGENT, MIXER, OPTIMIZER = "agent.th", "mixer.th", "opt.th"
MOST_BYTES, PICKLE_BYTES = 1 << 28, 1 << 22
"""A larger file, or one with larger pickles around its tensors, is not read."""
MOST_AGAIN = 16
"""Tuples that a pickle may use again; as nested ones they are at most 2¹⁶."""
LONGEST = 200
"""Characters of a name."""
LAYOUT = (
    "Expected a folder with agent.th (and mixer.th and opt.th, where there are any), such as "
    "results/models/<run>/<env_steps>, or the folder of a run, results/models/<run>."
)


@dataclass(frozen=True)
class PymarlFiles:
    """The content of a checkpoint folder, tensors on the CPU."""

    folder: Path
    env_steps: int  # the folder's name
    agent: Mapping[str, Tensor]
    mixer: Mapping[str, Tensor]  # empty where there is none (IQL, VDN)
    optimizer: StateDict | None  # ``state`` and ``param_groups``
    remarks: tuple[str, ...] = ()


def read_folder(path: Path, load_step: int | None) -> PymarlFiles:
    """A checkpoint folder, or of a run's folder its newest one.

    Args:
        load_step: of a run's folder the checkpoint nearest to this env step.

    Raises:
        CheckpointError: nothing there, or files that are not plain tensors.
        UsageError: a step together with a single checkpoint, or several runs.
    """
    folder, remarks = found_folder(path, load_step)
    env_steps = whole_number(folder.name) or 0
    if env_steps > MOST_COUNTED:
        raise CheckpointError(
            f"{folder}: the name is the number of env steps, expected at most {MOST_COUNTED:,}."
        )
    mixer, optimizer = folder / MIXER, folder / OPTIMIZER
    return PymarlFiles(
        folder=folder,
        env_steps=env_steps,
        agent=tensors(folder / AGENT),
        mixer=tensors(mixer) if mixer.is_file() else {},
        optimizer=optimizer_state(optimizer) if optimizer.is_file() else None,
        remarks=remarks,
    )


def found_folder(path: Path, load_step: int | None) -> tuple[Path, tuple[str, ...]]:
    """The folder with ``agent.th`` that a path and a step refer to, and remarks on the choice."""
    if (path / AGENT).is_file():
        if load_step is not None:
            raise UsageError(
                f"load_step={load_step} chooses a checkpoint of a run, and {path} is one. Leave "
                "out load_step."
            )
        return path, ()
    inner = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    numbered = [(whole_number(p.name), p) for p in inner if (p / AGENT).is_file()]
    steps = {n: p for n, p in numbered if n is not None}
    if steps:
        if load_step is None:
            return steps[max(steps)], ()
        step = min(steps, key=lambda s: abs(s - load_step))
        remark = f"There is no checkpoint of env step {load_step:,}: {step:,} is the nearest."
        return steps[step], () if step == load_step else (remark,)
    runs = [p for p in inner if any(p.glob(f"*/{AGENT}"))]
    if len(runs) == 1:
        return found_folder(runs[0], load_step)
    if runs:
        names = ", ".join(p.name for p in runs[:5]) + (", …" if len(runs) > 5 else "")
        raise UsageError(
            f"{path} has the models of {len(runs)} runs ({names}). Type "
            f"checkpoint={quote(str(runs[0]))} for one of them."
        )
    raise CheckpointError(f"There is no {AGENT} in {path}. {LAYOUT}")


def tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a ``state_dict`` by name, in the order of the parameters.

    Raises:
        CheckpointError: the file has something else in it, or weights that are not finite.
    """
    weights = loaded(file)
    named = weights if isinstance(weights, Mapping) else {"": weights}
    odd = [x for x, tensor in named.items() if len(str(x)) > LONGEST or not is_plain(tensor)]
    if odd or not is_whole(file, named.values()):
        what = f" ({odd[0]!a:.80} is none)" if odd else ", no larger than the file"
        raise CheckpointError(
            f"{file} is not a state_dict: expected dense tensors of numbers by name, each stored "
            f"whole{what}."
        )
    bad = next((str(x) for x, tensor in named.items() if not tensor.isfinite().all()), None)
    if bad is not None:
        raise CheckpointError(
            f"{file} has NaN or infinite weights ({bad}): training had diverged when it was "
            f"saved. Type checkpoint={quote(str(file.parent.parent))} load_step=N for an earlier "
            "one."
        )
    return {str(name): single(tensor) for name, tensor in named.items()}


def single(value: Any) -> Any:
    """Brain floats, which NumPy does not have, in single precision; anything else as it is."""
    is_brain = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    return value.float() if is_brain else value


def optimizer_state(file: Path) -> StateDict:
    """The ``state_dict`` of a torch optimizer; CheckpointError if the file has something else in
    it.
    """
    state = loaded(file)
    known = isinstance(state, Mapping) and {"state", "param_groups"} <= set(state)
    groups = state["param_groups"] if known else None
    has_options = isinstance(groups, list) and all(
        isinstance(group, Mapping)
        and isinstance(group.get("params"), list)
        and all(isinstance(number, int) for number in group["params"])
        and isinstance(group.get("lr"), int | float)
        for group in groups
    )
    if not has_options or not has_moments(state["state"], file):
        raise CheckpointError(
            f"{file} is not an optimizer's state_dict: expected state and param_groups, finite "
            "moments of the same names for each parameter. Without it the optimizer starts anew."
        )
    moments = {n: {k: single(x) for k, x in each.items()} for n, each in state["state"].items()}
    return {**state, "state": moments}


def has_moments(state: object, file: Path) -> bool:
    """Whether it is finite tensors of the same names for each parameter; steps may be numbers."""
    if not isinstance(state, Mapping) or not all(isinstance(x, Mapping) for x in state.values()):
        return False
    entries = [entry for each in state.values() for entry in each.items()]
    return (
        len({frozenset(each) for each in state.values()}) <= 1
        and is_whole(file, (x for _, x in entries))
        and all(is_step(x) if name == "step" else is_moment(name, x) for name, x in entries)
    )


def is_whole(file: Path, values: Iterable[object]) -> bool:
    """Whether the dense tensors among the values are together no larger than their file."""
    return sum(x.nbytes for x in values if is_plain(x)) <= file.stat().st_size


def is_moment(name: object, value: object) -> bool:
    """Whether it is a finite tensor, and not negative if it is an average of squares."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return False
    least = 0.0 if "sq" in name else -math.inf
    return is_plain(value) and bool(value.isfinite().all() and (value >= least).all())


def is_step(value: object) -> bool:
    """Whether it is a number of updates, perhaps as a tensor."""
    number = value.item() if is_plain(value) and value.numel() == 1 else value
    return is_number(number) and 0 <= number <= MOST_COUNTED


def is_plain(value: object) -> TypeGuard[Tensor]:
    """Whether it is a dense tensor of real numbers, all of them in memory."""
    if not isinstance(value, Tensor) or value.is_nested or value.layout != torch.strided:
        return False
    is_number = NUMBERS.fullmatch(str(value.dtype).removeprefix("torch.").replace("bf", "f"))
    return is_number is not None and value.is_cpu and value.is_contiguous()


def require_light(file: IO[bytes]) -> None:
    """ValueError for what a few bytes of a pickle can take all memory or time with, and no
    state_dict has: an array of any length, or tuples of tuples that are used again and again.
    """
    content = file.read(PICKLE_BYTES)
    pickles = BytesIO(content)
    for _ in range(5):  # a file of an older torch begins with so many
        if pickles.tell() == len(content) < PICKLE_BYTES:
            return  # torch says what is missing
        before, tuples, again = "", set[object](), 0
        for code, value, _ in pickletools.genops(pickles):
            again += code.name.endswith("GET") and value in tuples  # groups share their betas
            if value == "builtins bytearray" or again > MOST_AGAIN:
                raise ValueError("its pickle is not that of a state_dict")
            if code.name.endswith("PUT") and before.startswith("TUPLE"):
                tuples.add(value)
            elif code.name != "PROTO":
                before = code.name


def loaded(file: Path) -> Any:
    """Return what ``torch.save`` wrote, if it is tensors, numbers and text in plain containers.

    Raises:
        CheckpointError: the file cannot be read, or its pickle names a class or function.
    """
    try:
        with open_plain(file, MOST_BYTES) as raw, warnings.catch_warnings(action="ignore"):
            heads: list[IO[bytes]] = [raw]
            if is_zipfile(raw):
                archive = ZipFile(raw)
                if any(entry.compress_type for entry in archive.infolist()):
                    raise ValueError("it is compressed, which torch.save never does")
                heads = [archive.open(x) for x in archive.infolist() if x.filename[-4:] == ".pkl"]
            raw.seek(0)
            for head in heads:
                require_light(head)
            raw.seek(0)
            return torch.load(raw, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f" ({named[1]})" if named else ""
        raise CheckpointError(
            f"{file} is refused: besides tensors it contains an object whose loading would execute "
            f"code{what}. Nothing in it was executed. Expected a state_dict, as PyMARL saves it. "
            "If the file is your own, write it again where it was made: "
            "torch.save(agent.state_dict(), 'agent.th')."
        ) from error
    except Exception as error:  # of a damaged file, of any kind
        raise CheckpointError(
            f"{file} cannot be read ({type(error).__name__}: {error}). Expected a file that "
            "torch.save wrote."
        ) from error
