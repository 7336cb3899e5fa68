"""A recorded dataset, piece by piece, and its reader, which fills a buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from rltrain.buffer.fields import PackedObs
from rltrain.common.files import JsonObject, digest
from rltrain.common.number_types import MOST_COUNTED, is_finite, saved_form, saved_number
from rltrain.offline.shards import (
    INDEX,
    damaged,
    list_sums,
    read_index,
    require_fit,
    require_same,
    stored_fields,
)
from rltrain.types import Clock, EnvSpec, StateDict, Steps

PROBABILITY_ERROR = 1e-5
"""Of a sum of probabilities in single precision."""
UNREADABLE = (OSError, SafetensorError, AttributeError, TypeError)
"""Errors of damaged shards, and of types of numbers that NumPy does not have."""


@dataclass(frozen=True)
class Dataset:
    """An opened dataset: where every piece is. Nothing but lengths is in memory."""

    folder: Path
    spec: EnvSpec
    shards: Sequence[JsonObject]
    shard: np.ndarray  # [pieces] the shard that a piece is in
    start: np.ndarray  # [pieces] its first time step there
    length: np.ndarray  # [pieces] transitions
    whole: np.ndarray  # [pieces] an episode from its first to its final step
    files: Sequence[Any]  # the shards, mapped into memory

    @property
    def knows_probabilities(self) -> bool:
        """Whether the probability of every action was recorded."""
        return all(shard["probabilities"] for shard in self.shards)

    def piece(self, i: int) -> dict[str, np.ndarray]:
        """Every field [length + 1, …] of piece i; the last time step is final."""
        file = self.files[int(self.shard[i])]
        start, stop = int(self.start[i]), int(self.start[i] + self.length[i] + 1)
        fields = {name: file.get_slice(name)[start:stop] for name in stored_fields(self.spec)}
        if self.spec.obs_bytes:
            packed = torch.from_numpy(fields["obs"])
            fields["obs"] = PackedObs(self.spec, "float32").unpack(packed).numpy()
        return fields

    def held_out(self, share: float) -> np.ndarray:
        """[pieces] bool: this share of the whole episodes, evenly spread over the dataset."""
        place = np.cumsum(self.whole)  # 1, 2, … over whole episodes
        return (np.floor(place * share) > np.floor((place - 1) * share)) & self.whole


def open_dataset(folder: Path, spec: EnvSpec) -> Dataset:
    """A dataset recorded in environments of these sizes.

    Raises:
        UsageError: there is none, or it does not fit.
        DatasetError: it is damaged.
    """
    index, folder = read_index(folder), folder.absolute()
    require_fit(folder, index["spec"], spec)
    opened = [checked(folder / entry["file"], entry, spec) for entry in index["shards"]]
    if not opened:
        raise damaged(folder / INDEX, "it lists no shards")
    files, lengths, flags = zip(*opened, strict=True)
    return Dataset(
        folder,
        spec,
        index["shards"],
        shard=np.repeat(np.arange(len(files)), list(map(len, lengths))),
        start=np.concatenate([np.cumsum(n + 1) - n - 1 for n in lengths]),
        length=np.concatenate(lengths),
        whole=np.concatenate(flags),
        files=files,
    )


def checked(path: Path, entry: JsonObject, spec: EnvSpec) -> tuple[Any, np.ndarray, np.ndarray]:
    """A shard, mapped into memory, with the length of its pieces and whether they are whole, after
    comparing it with the index and the environment; DatasetError if it differs.
    """
    try:
        file = safe_open(path, framework="np")
        n, whole = file.get_tensor("length"), file.get_tensor("whole")
        if (n.dtype, whole.dtype, n.ndim, n.shape) != (np.int64, np.bool_, 1, whole.shape):
            raise damaged(path, "its piece lengths are invalid")
        if (n < 1).any() or (n >= entry["steps"]).any() or int((n + 1).sum()) != entry["steps"]:
            raise damaged(path, "its pieces do not add up")
        if digest(path) != entry["sha256"]:
            raise damaged(path, "its checksum is not the index's")
        counts = {"pieces": len(n), "episodes": whole.sum(), "transitions": n.sum()}
        if wrong := [name for name, count in counts.items() if entry[name] != count]:
            raise damaged(path, f"its number of {wrong[0]} is not the index's")
        for name, (shape, dtype) in stored_fields(spec).items():
            stored = file.get_slice(name)[:0]
            if (*stored.shape[1:],) != shape or stored.dtype != dtype:
                got = f"{stored.dtype} {stored.shape[1:]}"
                raise damaged(path, f"'{name}' should be {dtype} {shape}, got {got}")
            if file.get_slice(name).get_shape()[0] != entry["steps"]:
                raise damaged(path, f"'{name}' does not have {entry['steps']} time steps")
            if dtype.kind == "f" and name != "probability" and not is_finite(file.get_tensor(name)):
                raise damaged(path, f"'{name}' has numbers that are not finite")
        action, last = file.get_tensor("action"), file.get_tensor("last")
        final = np.zeros_like(last)
        final[np.cumsum(n + 1) - 1] = True
        available, probability = (file.get_tensor(k) for k in ("avail_actions", "probability"))
        terminated = file.get_tensor("terminated")
    except UNREADABLE as error:
        raise damaged(path, str(error)) from error
    if action.min(initial=0) < 0 or action.max(initial=0) >= spec.n_actions:
        raise damaged(path, f"it has actions outside 0 … {spec.n_actions - 1}")
    unknown = np.isnan(probability)
    if not ((probability > 0) & (probability < 1 + PROBABILITY_ERROR) | unknown).all():
        raise damaged(path, "it has probabilities of actions outside 0 … 1")
    if entry["probabilities"] and unknown.any():
        raise damaged(path, "it lacks probabilities of actions that the index promises")
    if not (available.any(-1) | last[:, None]).all():
        raise damaged(path, "it has time steps without an available action")
    if (final != last).any():
        raise damaged(path, "its episodes do not end where they should")
    if (terminated[:-1] & ~(last[:-1] | last[1:])).any():
        raise damaged(path, "it has episodes that go on after they terminated")
    chosen = np.take_along_axis(available, action[..., None].astype(np.int64), -1)
    if not (chosen.all((1, 2)) | last).all():
        raise damaged(path, "it has actions that were not available")
    return file, n, whole


class Reader:
    """Replaces a rollout: returns pieces of a dataset in shuffled order, pass after pass.

    Args:
        dataset: what is read.
        chosen: the pieces to return.
        rng: shuffles them for every pass.
        reward_clip: rewards are clipped to ± this; None = no clipping.
    """

    def __init__(
        self,
        *,
        dataset: Dataset,
        chosen: np.ndarray,
        rng: np.random.Generator,
        reward_clip: float | None,
    ) -> None:
        self.dataset, self.chosen, self.rng = dataset, chosen, rng
        self.reward_clip = reward_clip
        self.seconds = np.zeros(2)  # nothing acts
        self.about: Mapping[str, object] = {
            "dataset": f"{dataset.folder} ({int(dataset.whole.sum()):,} whole episodes, "
            f"{int(dataset.length.sum()):,} transitions)"
        }
        self.order = np.empty(0, np.int64)  # pieces still to come in this pass
        self.passes = 0  # begun
        self.ahead = 0  # transitions read, less those requested
        self.filled = False  # the replay has what is read before learning

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """Whole pieces, so many that all calls together gave ``n_steps`` transitions each (T = 0
        where earlier pieces were long enough), as one environment's time steps; the next pass waits
        for the next call.
        """
        pieces: list[dict[str, np.ndarray]] = []
        self.ahead -= n_steps
        while self.ahead < 0:
            if len(self.order) == 0:
                if pieces:
                    break
                self.order = self.rng.permutation(self.chosen)
                self.passes += 1
            pieces.append(self.dataset.piece(int(self.order[0])))
            self.ahead += len(pieces[-1]["last"]) - 1
            self.order = self.order[1:]
        fields: dict[str, Any] = {
            name: np.concatenate([p[name] for p in pieces] or [np.empty((0, *shape), dtype)])
            for name, (shape, dtype) in stored_fields(self.dataset.spec).items()
            if name != "probability"
        }
        fields["action"] = fields["action"].astype(np.int64)
        if self.reward_clip is not None:
            fields["reward"] = fields["reward"].clip(-self.reward_clip, self.reward_clip)
        lost = np.zeros(1, np.bool_)
        return Steps(**{name: array[:, None] for name, array in fields.items()}, lost=lost)

    def restart(self, state: StateDict, episodes: int) -> None:
        """Do nothing: the dataset is read again."""

    def abandon(self, episodes: int) -> None:
        """Do nothing: its episodes are whole."""

    def call(self, method: str, *args: object) -> list[Any]:
        """There are no environments."""
        return []

    def state_dict(self) -> StateDict:
        """The order of the pieces still to come, and the generator."""
        return {
            "n_chosen": len(self.chosen),
            "shards": list_sums(self.dataset.shards),
            "order": self.order.copy(),
            "passes": self.passes,
            "ahead": self.ahead,
            "filled": self.filled,
            "rng": self.rng.bit_generator.state,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``.

        Raises:
            DatasetError: the dataset is another one.
            ValueError: other pieces of it are held out, or the state holds what no reader has.
        """
        require_same(self.dataset.folder, state["shards"], self.dataset.shards)
        if state["n_chosen"] != len(self.chosen):
            raise ValueError(
                f"{self.dataset.folder} had {state['n_chosen']} pieces to learn from and has "
                f"{len(self.chosen)} now."
            )
        order = np.asarray(state["order"])
        self.order = saved_form("order", order, np.empty(order.size, np.int64))
        if len(np.unique(order)) < len(order) or not np.isin(order, self.chosen).all():
            raise ValueError("order is not of different pieces to learn from")
        self.passes = saved_number("passes", state["passes"])
        self.ahead = saved_number("ahead", state["ahead"], -MOST_COUNTED)
        self.filled = bool(state["filled"])
        self.rng.bit_generator.state = state["rng"]

    def close(self) -> None:
        """Do nothing: no file stays open."""
