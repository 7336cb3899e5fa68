"""Writer of time steps of E environments into shards of whole episodes, with bounded memory.

Open episodes and the shard in progress are held in memory: at most ``n_envs + 1`` times
``shard_bytes``, and what is added between two calls of ``flush``. An episode that outgrows a shard
is cut into pieces, as by a time limit.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from rltrain.buffer.fields import PackedObs, n_bytes
from rltrain.common.files import JsonObject
from rltrain.common.number_types import (
    MOST_COUNTED,
    require_range,
    saved_array,
    saved_form,
    saved_number,
)
from rltrain.errors import DatasetError, EnvError, require_n_envs
from rltrain.interfaces import VectorEnv
from rltrain.offline.dataset import PROBABILITY_ERROR
from rltrain.offline.shards import (
    INDEX,
    is_used,
    list_sums,
    read_index,
    require_free,
    require_same,
    shard_name,
    stored_fields,
    write_index,
    write_shard,
)
from rltrain.types import EnvSpec, StateDict

log = logging.getLogger("rltrain")


class Writer:
    """Records episodes in the order in which they end.

    Args:
        folder: a new folder; made when the first shard is full.
        spec, n_envs: what is recorded, E.
        about: facts for the index: spec, algorithm, version.
        shard_bytes: bytes of experience per shard.
        max_bytes: recording ends before the shards are larger together; None = never.
        n_episodes: of the episodes numbered e + k E, only the first ``n_episodes`` are kept;
            None = all. The first to end would be the short ones.
    """

    def __init__(
        self,
        *,
        folder: Path,
        spec: EnvSpec,
        n_envs: int,
        about: Mapping[str, object],
        shard_bytes: int,
        max_bytes: int | None,
        n_episodes: int | None = None,
    ) -> None:
        self.folder, self.n_envs, self.about = folder, n_envs, about
        self.n_actions = spec.n_actions
        self.max_bytes, self.n_episodes = max_bytes, n_episodes
        self.fields = stored_fields(spec)
        self.packed = PackedObs(spec, "float32") if spec.obs_bytes else None
        self.per_shard = max(2, shard_bytes // n_bytes(self.fields))  # time steps
        self.recording = secrets.token_hex(8)  # tells datasets apart
        self.shards: list[JsonObject] = []
        self.is_new, self.stopped = True, False
        self.restored = False  # from a state that has not been continued: nothing is written
        self.open = self._rows(min(64, self.per_shard))  # [E, time steps, …] of the open episodes
        self.n = np.zeros(n_envs, np.int64)  # [E] time steps of the open episode
        self.cut = np.zeros(n_envs, np.bool_)  # [E] its beginning is a piece already
        self.episode = np.zeros(n_envs, np.int64)  # [E] k of the open episode
        self.pending: list[dict[str, np.ndarray]] = []  # pieces, as ``write_shard`` takes them
        self.pending_steps = 0

    def begin(self) -> None:
        """UsageError for a folder in use, unless recording continues in it."""
        if self.is_new:
            require_free(self.folder)
        self._continue()

    def add(self, step: Mapping[str, np.ndarray]) -> None:
        """One time step of every environment, each field [E, …]; episodes that it closes are kept
        for the next shard.
        """
        if self.stopped:
            return
        self._continue()
        if self.packed is not None:
            step = {**step, "obs": self.packed.pack(step["obs"])}
        if self.n.max() == self.open["last"].shape[1]:
            self._widen()
        envs = np.arange(self.n_envs)
        for name, array in self.open.items():
            array[envs, self.n] = step[name]
        self.n += 1
        for e in np.flatnonzero(step["last"]).tolist():
            self._keep(e, whole=not self.cut[e])
            self.n[e], self.cut[e] = 0, False
            self.episode[e] += 1
        for e in np.flatnonzero(self.n >= self.per_shard).tolist():
            self._keep(e, whole=False)
            for array in self.open.values():  # what ends one piece begins the next
                array[e, 0] = array[e, self.n[e] - 1]
            self.n[e], self.cut[e] = 1, True

    def forget(self, envs: np.ndarray) -> None:
        """Drop the open episodes of the environments marked in [E] bool; they restart from the same
        seed.
        """
        self.n[envs], self.cut[envs] = 0, False

    def restart(self) -> None:
        """Drop all open episodes; every environment begins with episode 0."""
        self.n[:], self.cut[:], self.episode[:] = 0, False, 0

    def finish(self, env: VectorEnv) -> None:
        """Keep the episodes that have ended with the last step of ``env``, for ``flush``,
        and drop the open ones.
        """
        self.forget(~env.last)
        step = {name: np.zeros_like(array[:, 0]) for name, array in self.open.items()}
        seen = {name: getattr(env, name) for name in ("obs", "avail_actions", "state", "last")}
        self.add(step | seen)

    def flush(self, least: int = 1) -> None:
        """Write what has ended as a shard, if it has at least so many time steps; after an error it
        is kept for the next call.

        Raises:
            EnvError: the disk is full or cannot be written, or the folder is in use.
        """
        if self.pending_steps < least or self.stopped or self.restored:
            return
        if self.is_new and is_used(self.folder):
            raise EnvError(
                f"Another command has written {self.folder} since this one began. Move that folder "
                "elsewhere, then resume the run, or evaluate again."
            )
        written = sum(shard["bytes"] for shard in self.shards)
        arrays = self._joined()
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        if self.max_bytes is not None and written + len(content) > self.max_bytes:
            self.stopped = True
            why = "has ended: one more" if self.shards else "was not written: its first"
            text = "the dataset %s %s shard would exceed dataset.max_bytes=%s"
            log.warning(text, self.folder, why, self.max_bytes)
        else:
            if self.is_new:  # so that a process killed later leaves no shard of unknown origin
                self._list([])
                self.is_new = False
            shard = write_shard(self.folder, len(self.shards), arrays, content)
            self._list([*self.shards, shard])
            self.shards.append(shard)
        self.pending, self.pending_steps = [], 0

    def state_dict(self) -> StateDict:
        """How many shards there are, and everything that is in none yet."""
        longest = int(self.n.max())
        return {
            "n_envs": self.n_envs,
            "recording": self.recording,
            "shards": len(self.shards),
            "sums": list_sums(self.shards),
            "stopped": self.stopped,
            "n": self.n.copy(),
            "cut": self.cut.copy(),
            "episode": self.episode.copy(),
            "open": {name: array[:, :longest].copy() for name, array in self.open.items()},
            "pending": self._joined() if self.pending else {},
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``; shards written after it are there until it goes on.

        Raises:
            ValueError: the state has a different number of environments, or holds what no writer
                does.
            DatasetError: shards are missing, or of another dataset.
        """
        require_n_envs("dataset", state["n_envs"], self.n_envs)
        recording, n_shards = str(state["recording"]), saved_number("shards", state["shards"])
        longest = np.asarray(state["open"]["last"]).shape[1]
        counts = {
            "n": saved_array("n", state["n"], self.n, 0, longest),
            "cut": saved_form("cut", state["cut"], self.cut),
            "episode": saved_array("episode", state["episode"], self.episode, 0, MOST_COUNTED),
        }
        opened, pieces = self._checked(state["open"], self.n_envs, longest), {}
        if pending := state["pending"]:
            n = np.asarray(pending["length"])
            saved_array("length", n, np.empty(n.size, np.int64), 1, MOST_COUNTED)
            whole = saved_form("whole", pending["whole"], np.empty(n.size, np.bool_))
            pieces = self._checked(pending, int((n + 1).sum())) | {"length": n, "whole": whole}
        listed = n_shards or (self.folder / INDEX).is_file()
        index = read_index(self.folder) if listed else {}
        if index and index.get("recording") != recording:
            back = " and put this run's own dataset back" if n_shards else ""
            raise DatasetError(
                f"{self.folder} is not the dataset that this run was saved with: it was recorded "
                f"by another run. Move it to another folder{back}, then resume again."
            )
        shards = index.get("shards", [])
        if len(shards) < n_shards:
            raise DatasetError(
                f"{self.folder} holds {len(shards)} shards, but {n_shards} were written. "
                "Restore them, or start a new run."
            )
        require_same(self.folder, state["sums"], shards[:n_shards])
        self.recording, self.shards = recording, shards[:n_shards]
        self.is_new = not listed
        self.stopped, self.restored = bool(state["stopped"]), True
        self.n[:], self.cut[:], self.episode[:] = counts.values()
        self.open = self._rows(longest + 1)  # a shard may be smaller now
        for name, array in self.open.items():
            array[:, :longest] = opened[name]
        self.pending = [pieces] if pieces else []
        self.pending_steps = len(pieces.get("last", ()))

    def _checked(self, saved: StateDict, *shape: int) -> dict[str, np.ndarray]:
        """The fields [*shape, …] of a saved state; ValueError for what no environment gives."""
        limits = {"action": (0, self.n_actions - 1), "probability": (0, 1 + PROBABILITY_ERROR)}
        given = {}
        for name, (own, dtype) in self.fields.items():
            like = np.broadcast_to(dtype.type(), (*shape, *own))
            given[name] = array = saved_form(name, saved[name], like)
            numbers = np.nan_to_num(array) if name == "probability" else array  # NaN: unknown
            require_range(name, numbers, *limits.get(name, ()))
        return given

    def _keep(self, e: int, *, whole: bool) -> None:
        """Turn the open time steps of an environment into a piece; its last step is final."""
        n = int(self.n[e])
        number = e + int(self.episode[e]) * self.n_envs
        if n < 2 or (self.n_episodes is not None and number >= self.n_episodes):
            return
        piece = {name: array[e, :n].copy() for name, array in self.open.items()}
        piece["last"][-1], piece["terminated"][-1] = True, False
        piece["action"][-1], piece["reward"][-1], piece["probability"][-1] = 0, 0, 1
        piece |= {"length": np.array([n - 1], np.int64), "whole": np.array([whole])}
        self.pending.append(piece)
        self.pending_steps += n

    def _continue(self) -> None:
        """Remove the shards that were written after the state that was loaded."""
        if self.restored and not self.is_new:
            self._list(self.shards)
            n = len(self.shards)
            while (path := self.folder / shard_name(n)).exists():
                path.unlink()
                n += 1
        self.restored = False

    def _list(self, shards: list[JsonObject]) -> None:
        write_index(self.folder, {**self.about, "recording": self.recording}, shards)

    def _joined(self) -> dict[str, np.ndarray]:
        names = self.pending[0]
        return {name: np.concatenate([piece[name] for piece in self.pending]) for name in names}

    def _rows(self, n_steps: int) -> dict[str, np.ndarray]:
        return {
            name: np.zeros((self.n_envs, n_steps, *shape), dtype)
            for name, (shape, dtype) in self.fields.items()
        }

    def _widen(self) -> None:
        had = self.open["last"].shape[1]
        room = self._rows(min(had, self.per_shard - had))
        self.open = {name: np.append(self.open[name], room[name], 1) for name in room}
