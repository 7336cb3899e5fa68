"""EpisodeBuffer: a ``Store`` and an index of its finished episodes, sampled whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer import store_state
from rltrain.buffer.fields import Storage, bytes_per_slot, fields_to_store
from rltrain.buffer.step_check import StepCheck
from rltrain.buffer.store import BLOCK, Store
from rltrain.common.memory import memory_cap, require_memory
from rltrain.common.number_types import Count
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Plan,
    Steps,
)


class EpisodeBuffer:
    """The newest ``capacity`` finished episodes, or as many of them as ``max_bytes`` hold, drawn
    uniformly and without replacement.

    Args:
        spec: what the environment looks like.
        n_envs: environment copies that fill it, E.
        device: where batches go.
        rng: draws the windows.
        capacity: finished episodes kept at most.
        max_bytes: bytes kept at most, open episodes included; null = 60 % of the memory free now.
        storage: how observations and states are kept; uint8 observations stay uint8.

    Raises:
        ValueError: ``max_bytes`` does not even hold the first slots of every copy.
        RuntimeError: the address space cannot be reserved.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        capacity: Count,
        max_bytes: Count | None,
        storage: Storage,
    ) -> None:
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.capacity = capacity
        self._check = StepCheck(spec, n_envs, storage=storage)
        self._bytes_per_slot = bytes_per_slot(spec, storage)
        self._max_bytes = memory_cap(max_bytes)
        n_blocks = self._max_bytes // (BLOCK * self._bytes_per_slot)
        if spec.max_steps is not None:  # never reserve what can never be filled
            n_blocks = min(n_blocks, self._blocks_of(capacity))
        if n_blocks < 2 * n_envs:
            raise ValueError(
                f"buffer.max_bytes={self._max_bytes} is too little: {n_envs} environment copies "
                f"need {2 * n_envs * BLOCK * self._bytes_per_slot} bytes to begin with. "
                "Set buffer.max_bytes to at least that."
            )
        require_memory(n_blocks * BLOCK * self._bytes_per_slot, capacity)
        self.store = Store(spec=spec, n_lanes=n_envs, n_blocks=n_blocks, storage=storage)
        # Finished episodes by age: episode i has row i % size of the index.
        self._size = min(capacity, n_blocks * BLOCK // 2)  # an episode owns two slots or more
        self._lane = np.empty(self._size, np.int64)
        self._start = np.empty(self._size, np.int64)  # number of its first slot in that lane
        self._length = np.empty(self._size, np.int64)  # transitions
        self._oldest, self._next = 0, 0  # episode ids
        self._open = np.zeros(n_envs, np.int64)  # [E] first slot of the episode being lived
        self.n_steps = 0

    keeps_hidden = False

    @property
    def full(self) -> bool:
        """Whether episodes are dropped for new ones."""
        return self._oldest > 0 or self.n_episodes == self._size

    @property
    def n_episodes(self) -> int:
        """Finished episodes that can be sampled."""
        return self._next - self._oldest

    @property
    def bytes_in_use(self) -> int:
        """Bytes of the blocks that hold finished and open episodes."""
        return self.store.bytes_in_use

    def plan(self) -> Plan:
        """Sizes for the banner."""
        longest = self.spec.max_steps
        return Plan(
            bytes_per_step=self._bytes_per_slot,
            worst_case_bytes=None
            if longest is None
            else self.capacity * (longest + 1) * self._bytes_per_slot,
            cap_bytes=self.store.n_blocks * BLOCK * self._bytes_per_slot,
            capacity=self.capacity,
        )

    def check(self, batch_size: int) -> None:
        """Refuse a buffer that could never give a batch of full-length episodes.

        Raises:
            ValueError: with what is needed, what there is and what to type.
        """
        if self.capacity < batch_size:
            raise ValueError(
                f"buffer.capacity={self.capacity} episodes cannot hold one batch of "
                f"algo.batch_size={batch_size} episodes: set buffer.capacity={batch_size} or more."
            )
        if self.spec.max_steps is None:
            return
        needed, given = self._blocks_of(batch_size), self.store.n_blocks
        if given < needed:
            slot_bytes = BLOCK * self._bytes_per_slot
            raise ValueError(
                f"The replay may use {given * slot_bytes / 1e6:.1f} MB, but one batch of "
                f"{batch_size} episodes of {self.spec.max_steps} steps, beside the {self.n_envs} "
                f"episodes being lived, needs {needed * slot_bytes / 1e6:.1f} MB "
                f"({self._bytes_per_slot} bytes a step): set "
                f"buffer.max_bytes={needed * slot_bytes}, or buffer.storage=float16, or a smaller "
                "algo.batch_size."
            )

    def add(self, steps: Steps) -> None:
        """Store T slots of all E copies; an episode can be sampled once its final slot is here.

        Raises:
            ValueError: the steps do not fit the environments (see ``StepCheck``).
            RuntimeError: the open episodes alone have filled ``max_bytes``.
        """
        self._check(steps)
        for copy in np.flatnonzero(steps.lost):
            self.store.rewind(int(copy), int(self._open[copy]))
        fields = fields_to_store(steps)
        for t in range(0, len(steps.last), BLOCK):
            part = {name: field[t : t + BLOCK] for name, field in fields.items()}
            self._make_room(len(part["last"]))
            first = self.store.end.copy()
            self.store.append(part)
            for offset, copy in np.argwhere(part["last"]):
                self._finish(int(copy), int(first[copy] + offset))

    def ready(self, batch_size: int) -> bool:
        """Whether there are ``batch_size`` different episodes."""
        return self.n_episodes >= batch_size

    def sample(self, batch_size: int, clock: Clock) -> Batch:
        """Draw whole episodes, longest first, padded to its length T; ``clock`` is not read.

        Returns:
            a batch of windows; ``index`` holds episode ids, ``mask`` is 1 on all real transitions.
        """
        drawn = self.rng.choice(self.n_episodes, batch_size, replace=False) + self._oldest
        length = self._length[drawn % self._size]
        order = np.argsort(-length, kind="stable")
        episode, length = drawn[order], length[order]  # [B]
        row = episode % self._size
        return self._windows(self._lane[row], self._start[row], length, episode)

    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """Nothing: a uniform sampler has no priorities. The trainer tells every replay."""

    def state_dict(self) -> dict[str, Any]:
        """A flat dict: finished episodes by age, open ones by copy, the generator's state.

        The slots are ``Pieces``, read from the store when they are asked for.
        """
        row = np.arange(self._oldest, self._next) % self._size
        open_length = self.store.end - self._open  # [E] slots
        lane = np.concatenate([self._lane[row], np.arange(self.n_envs)])
        start = np.concatenate([self._start[row], self._open])
        n_slots = np.concatenate([self._length[row] + 1, open_length])
        rows = self.store.rows_in_turn(lane, start, n_slots)
        return {
            **store_state.state_of(self.rng, self.n_envs),
            "oldest": self._oldest,
            "begin": self.store.begin.copy(),
            "lane": self._lane[row],
            "length": self._length[row],
            "open_length": open_length,
            **store_state.slots_at(self.store, rows),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; where room is less, the oldest episodes stay behind.

        Raises:
            ValueError: the state is of another number of copies or of another environment.
            RuntimeError: the open episodes alone exceed ``max_bytes``.
        """
        store_state.require_copies(state, self.n_envs)
        store_state.require_slots(state, self.store)
        self.store.restart(state["begin"])  # block for block as before, so room ends as before
        self._open[:] = state["begin"]
        self._oldest = self._next = int(state["oldest"])
        self.n_steps = 0
        slot = 0
        for lane, length in zip(state["lane"].tolist(), state["length"].tolist(), strict=True):
            self._restore(lane, slot, length + 1, state)
            self._finish(lane, int(self.store.end[lane]) - 1)
            slot += length + 1
        for lane, n_slots in enumerate(state["open_length"].tolist()):
            self._restore(lane, slot, n_slots, state)
            slot += n_slots
        store_state.restore(self.rng, state)

    def _windows(
        self, lane: np.ndarray, start: np.ndarray, length: np.ndarray, index: np.ndarray
    ) -> Batch:
        """Windows of ``length`` [B] transitions from slots ``start`` [B] on, padded."""
        rows = self.store.window_rows(lane, start, length)
        action = self._field("action", rows[:-1]).to(torch.int64)  # [T, B, N]
        mask = self._tensor(np.arange(length.max())[:, None] < length)  # [T, B]
        last_action = torch.full((len(rows), *action.shape[1:]), -1, device=self.device)
        last_action[1:] = action.masked_fill(~mask[:, :, None], -1)
        return Batch(
            obs=self.store.observations(
                lane, start, start, rows, self.spec.frame_stack, self.device
            ),
            avail_actions=self._field("avail_actions", rows),
            state=self._field("state", rows).to(torch.float32),
            last_action=last_action,
            last=self._field("last", rows),
            action=action,
            reward=self._field("reward", rows[:-1]),
            terminated=self._field("terminated", rows[:-1]),
            mask=mask,
            weight=torch.ones(len(index), device=self.device),
            index=self._tensor(index),
            burn_in=0,
        )

    def _field(self, name: str, rows: np.ndarray) -> Tensor:
        return self.store.tensor(name, rows, self.device)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def _blocks_of(self, n_episodes: int) -> int:
        """Blocks that hold so many full-length episodes beside E open ones, at any time."""
        assert self.spec.max_steps is not None
        n_slots = (n_episodes + self.n_envs) * (self.spec.max_steps + 1)
        return -(-n_slots // BLOCK) + 3 * self.n_envs

    def _make_room(self, n_slots: int) -> None:
        """Drop the oldest episodes until every lane can take ``n_slots`` more."""
        self._make_blocks(self.store.blocks_to_append(n_slots))

    def _make_blocks(self, n_blocks: int) -> None:
        while self.store.free_blocks < n_blocks:
            if self.n_episodes == 0:
                raise RuntimeError(
                    f"The replay is full of unfinished episodes: {self.bytes_in_use} bytes do not "
                    f"hold what {self.n_envs} environment copies are living through. Set "
                    "buffer.max_bytes to more, or give the environment a time limit."
                )
            self._drop_oldest()

    def _finish(self, lane: int, number: int) -> None:
        """Slot ``number`` closed the open episode of a lane."""
        start = int(self._open[lane])
        self._open[lane] = number + 1
        if number == start:  # an episode without a transition teaches nothing
            return
        if self.n_episodes == self._size:
            self._drop_oldest()
        row = self._next % self._size
        self._lane[row], self._start[row], self._length[row] = lane, start, number - start
        self._next += 1
        self.n_steps += number - start

    def _drop_oldest(self) -> None:
        row = self._oldest % self._size
        lane, length = int(self._lane[row]), int(self._length[row])
        self.store.release(lane, int(self._start[row]) + length + 1)
        self._oldest += 1
        self.n_steps -= length

    def _restore(self, lane: int, slot: int, n_slots: int, state: Mapping[str, Any]) -> None:
        """Append slots ``slot … slot + n_slots`` of a saved state to a lane."""
        self._make_blocks(self.store.blocks_to_extend(lane, n_slots))
        store_state.put_slots(self.store, lane, state, slot, n_slots)
