"""ReplayBuffer: the newest steps of every environment copy, sampled as windows of T transitions.

A window may teach from any real slot on that has T successors and what came before it; it belongs
to one episode and never crosses the write head. It begins ``burn_in`` slots earlier, or where its
episode begins: otherwise no window would teach the first transitions of an episode, and a short one
would teach nothing. ``uniform`` draws starts alike, ``proportional`` by
their priorities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer import store_state
from rltrain.buffer.fields import Storage, bytes_per_slot, fields_to_store
from rltrain.buffer.priorities import Priorities
from rltrain.buffer.single_agent import one_agent
from rltrain.buffer.step_check import StepCheck
from rltrain.buffer.store import BLOCK, Store
from rltrain.buffer.windows import starts, warm_starts, windows
from rltrain.common.memory import memory_cap, require_memory
from rltrain.common.number_types import (
    Count,
    Positive,
    Probability,
    Whole,
)
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Plan,
    Steps,
)


class ReplayBuffer:
    """The newest ``capacity`` slots of all copies together (final observations own a slot too).

    Args:
        spec, n_envs, device, rng: what the environment looks like, E, where batches go, the stream
            that draws windows.
        n_step: rewards that the loss sums; a window is ``burn_in + sequence_length + n_step - 1``
            transitions long.
        hidden_dim: H of the agents, 0 without memory.
        total_env_steps: length of the run.
        capacity: slots kept at most.
        max_bytes: bytes kept at most; null = 60 % of the memory free now.
        storage: how observations and states are kept; uint8 observations stay uint8.
        sampler: ``uniform`` or ``proportional`` to priority^alpha (Schaul et al. 2016, §
            3.3).
        alpha: exponent of priorities.
        beta, beta_end, beta_env_steps: exponent of the importance weights (section 3.4) at the
            start, at the end, and the env steps between (null = ``total_env_steps``).
        priority_floor: added to every priority, so that nothing is forgotten.
        eta: a window's priority is eta times the largest error of its steps and 1 - eta times their
            mean (R2D2).
        sequence_length: transitions taught per window.
        burn_in: transitions before them that only warm up the recurrent state (R2D2; Kapturowski et
            al. 2019), fewer where the episode has no more.
        first_hidden: where a window's recurrent state begins: ``zero``, or ``stored`` while acting.
        agents: ``lockstep``: a window shows the whole team; ``independent``: one agent of it.

    Raises:
        ValueError: too little room for a window, or a mode that the team cannot have.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        n_step: int,
        hidden_dim: int,
        total_env_steps: int,
        capacity: Count,
        max_bytes: Count | None,
        storage: Storage,
        sampler: Literal["uniform", "proportional"],
        alpha: Probability,
        beta: Probability,
        beta_end: Probability,
        beta_env_steps: Count | None,
        priority_floor: Positive,
        eta: Probability,
        sequence_length: Count,
        burn_in: Whole,
        first_hidden: Literal["zero", "stored"],
        agents: Literal["lockstep", "independent"],
    ) -> None:
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.capacity, self.eta = capacity, eta
        self.burn_in, self.n_step = burn_in, n_step
        self.length = burn_in + sequence_length + n_step - 1  # T
        self.teams = 1 if agents == "lockstep" else spec.n_agents  # windows per start
        if self.teams > 1 and spec.n_rewards not in (1, spec.n_agents):
            raise ValueError("buffer.agents=independent needs one reward, or one per agent.")
        kept_hidden = hidden_dim if first_hidden == "stored" else 0
        self._check = StepCheck(spec, n_envs, storage=storage, hidden_dim=kept_hidden)
        self._bytes_per_slot = bytes_per_slot(spec, storage, kept_hidden)
        self._max_bytes = memory_cap(max_bytes)
        self.per_copy = -(-capacity // n_envs)  # slots that a copy keeps
        n_blocks = n_envs * (self.per_copy // BLOCK + 3)
        needed = n_blocks * BLOCK * self._bytes_per_slot
        if needed > self._max_bytes:
            fits = (self._max_bytes // self._bytes_per_slot // n_envs - 3 * BLOCK) * n_envs
            smaller = f"set buffer.capacity={fits} or less, or" if fits > 0 else "set"
            raise ValueError(
                f"The replay needs {needed / 1e9:.2f} GB for buffer.capacity={capacity} steps "
                f"({self._bytes_per_slot} bytes each), but may use {self._max_bytes / 1e9:.2f} GB: "
                f"{smaller} buffer.max_bytes={needed} or more."
            )
        require_memory(needed, capacity)
        # a start is only as good as what it looks back on: an action, the frames of its stack
        self._looks_back = max(spec.frame_stack - 1, 1)
        least = self.length + self._looks_back + 2  # two starts, of which one at most is final
        if self.per_copy < least:
            raise ValueError(
                f"buffer.capacity={capacity} steps over {n_envs} environment copies cannot hold "
                f"one window of {self.length} transitions in each: set "
                f"buffer.capacity={least * n_envs} or more."
            )
        self.store = Store(
            spec=spec,
            n_lanes=n_envs,
            n_blocks=n_blocks,
            storage=storage,
            hidden_dim=kept_hidden,
        )
        self._open = np.zeros(n_envs, np.int64)  # [E] first slot of the episode being lived
        self._startable = np.zeros(n_envs, np.int64)  # [E] slots before it had their chance
        self._ring = self.per_copy + BLOCK  # priorities per copy: slot number n is item n % ring
        self.priorities: Priorities | None = None
        if sampler == "proportional":
            self.priorities = Priorities(
                n_envs * self._ring * self.teams,
                alpha=alpha,
                beta=beta,
                beta_end=beta_end,
                beta_env_steps=beta_env_steps or total_env_steps,
                floor=priority_floor,
            )

    @property
    def n_steps(self) -> int:
        """Slots stored."""
        return int((self.store.end - self.store.begin).sum())

    @property
    def full(self) -> bool:
        """Whether slots are dropped for new ones."""
        return bool((self.store.begin > 0).any())

    @property
    def bytes_in_use(self) -> int:
        return self.store.bytes_in_use

    @property
    def keeps_hidden(self) -> bool:
        """Whether ``Steps.hidden`` is stored."""
        return "hidden" in self.store.arrays

    def plan(self) -> Plan:
        """Sizes for the banner."""
        whole = self.store.n_blocks * BLOCK * self._bytes_per_slot
        return Plan(
            bytes_per_step=self._bytes_per_slot,
            worst_case_bytes=whole,
            cap_bytes=whole,
            capacity=self.capacity,
            steps=self.capacity,
        )

    def check(self, batch_size: int) -> None:
        """Nothing to refuse: windows are drawn with replacement."""

    def add(self, steps: Steps) -> None:
        """Store T slots of all E copies.

        Raises:
            ValueError: the steps do not fit the environments (see ``StepCheck``).
        """
        self._check(steps)
        for copy in np.flatnonzero(steps.lost):
            self._forget(int(copy))
        fields = fields_to_store(steps)
        if self.keeps_hidden:
            assert steps.hidden is not None
            fields["hidden"] = steps.hidden
        for t in range(0, len(steps.last), BLOCK):
            part = {name: field[t : t + BLOCK] for name, field in fields.items()}
            self._make_room(len(part["last"]))
            first = self.store.end.copy()
            self.store.append(part)
            for offset, copy in np.argwhere(part["last"]):
                self._open[copy] = first[copy] + offset + 1
            self._admit()

    def ready(self, batch_size: int) -> bool:
        """Whether a window can start somewhere: of two slots one at most is final."""
        return bool((self._startable > self._eldest + 1).any())

    def sample(self, batch_size: int, clock: Clock) -> Batch:
        """``batch_size`` windows, drawn with replacement; ``clock`` gives beta.

        ``index`` numbers the starts; ``mask`` is 1 on the transitions that a window teaches.
        """
        if self.priorities is None:
            lane, number, agent = self._draw_uniform(batch_size)
            weight, item = None, self._item(lane, number, agent)
        else:
            item, weight = self.priorities.draw(batch_size, self.rng, clock.env_steps)
            lane, number, agent = self._place(item)
        return self._windows(lane, number, agent, item, weight)

    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """(priority [B] + floor)^alpha for the windows ``index`` [B]."""
        if self.priorities is not None:
            self.priorities.update(index.cpu().numpy(), priority.double().cpu().numpy())

    def _draw_uniform(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lanes, slot numbers and agents of ``n`` starts, by rejection of final slots."""
        room = np.maximum(self._startable - self._eldest, 0)  # [E] slots that may start a window
        edges = room.cumsum()
        lane, number = np.empty(n, np.int64), np.empty(n, np.int64)
        found, last = 0, self.store.arrays["last"]
        while found < n:
            drawn = self.rng.integers(0, edges[-1], n + n // 8 + 8)
            places = self.store.table, last, edges, self._startable, drawn
            found = starts(*places, lane, number, found)
        agent = self.rng.integers(0, self.teams, n) if self.teams > 1 else np.zeros(n, np.int64)
        return lane, number, agent

    @property
    def _eldest(self) -> np.ndarray:
        """[E] the first slot whose predecessors are still stored, or never were."""
        begin = self.store.begin
        return np.where(begin > 0, begin + self._looks_back, 0)

    def _admit(self) -> None:
        """New starts enter with the largest priority so far; final slots with none."""
        until = np.maximum(self.store.end - self.length, self._startable)
        if self.priorities is not None:
            eldest = self._eldest  # some slots are pushed out before they had their chance
            for lane in np.flatnonzero(until > self._startable).tolist():
                number = np.arange(max(self._startable[lane], eldest[lane]), until[lane])
                last = self.store.arrays["last"][self.store.rows(lane, number), 0]
                for item in self._items(lane, number):
                    self.priorities.add(item, ~last)
        self._startable = until

    def _make_room(self, n_slots: int) -> None:
        """Forget the oldest slots of every copy that ``n_slots`` new ones would push out."""
        first = np.maximum(self.store.end + n_slots - self.per_copy, self.store.begin)
        pushing = np.flatnonzero(first > self.store.begin).tolist()
        before = self._eldest
        for lane in pushing:
            self.store.release(lane, int(first[lane]))
        after = self._eldest
        for lane in pushing:
            self._remove_starts(lane, int(before[lane]), int(after[lane]))

    def _forget(self, lane: int) -> None:
        """Drop the open episode of a copy that crashed."""
        start = max(int(self._open[lane]), int(self.store.begin[lane]))
        self._remove_starts(lane, start, int(self.store.end[lane]))
        self.store.rewind(lane, start)
        # what came before can only look ahead as far as its own final slot, which is stored
        self._startable[lane] = min(self._startable[lane], start)

    def _remove_starts(self, lane: int, number: int, stop: int) -> None:
        """Draw none of the slots ``number`` … ``stop`` of a lane any more."""
        if self.priorities is not None:
            for item in self._items(lane, np.arange(number, stop)):
                self.priorities.remove(item)

    def _items(self, lane: int, number: np.ndarray) -> list[np.ndarray]:
        """Items [B] of slots ``number`` [B] of a lane, for each window of a start."""
        return [self._item(np.int64(lane), number, np.int64(agent)) for agent in range(self.teams)]

    def _item(
        self, lane: np.ndarray | np.int64, number: np.ndarray, agent: np.ndarray | np.int64
    ) -> np.ndarray:
        return (lane * self._ring + number % self._ring) * self.teams + agent

    def _place(self, item: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lanes, slot numbers and agents of items."""
        start, agent = np.divmod(item, self.teams)
        lane, at = np.divmod(start, self._ring)
        begin = self.store.begin[lane]
        return lane, begin + (at - begin) % self._ring, agent

    def _windows(
        self,
        lane: np.ndarray,
        number: np.ndarray,
        agent: np.ndarray,
        index: np.ndarray,
        weight: np.ndarray | None,
    ) -> Batch:
        """Windows of T transitions that teach from slots ``number`` [B] on; padded behind their
        first final slot.
        """
        T = self.length
        start = warm_starts(self.store, self._eldest, lane, number, self.burn_in)
        n_taught = T - self.n_step + 1 - self.burn_in
        found = windows(self.store, lane, start, T, number - start, n_taught)
        batch = Batch(
            obs=self._observations(lane, start, found.rows),
            avail_actions=self._field("avail_actions", found.rows),
            state=self._field("state", found.rows).to(torch.float32),
            last_action=self._tensor(found.last_action),
            last=self._tensor(found.last),
            action=self._tensor(found.action),
            reward=self._tensor(found.reward),
            terminated=self._tensor(found.terminated),
            mask=self._tensor(found.mask),
            weight=torch.ones(len(index), device=self.device)
            if weight is None
            else self._tensor(weight.astype(np.float32)),
            index=self._tensor(index),
            hidden=self._field("hidden", found.rows[0]) if self.keeps_hidden else None,
            mask_end=self.burn_in + n_taught,
            burn_in=self.burn_in,
            eta=self.eta,
            whole=T == 1,  # a start has a transition
        )
        return batch if self.teams == 1 else one_agent(batch, self._tensor(agent))

    def _observations(self, lane: np.ndarray, start: np.ndarray, rows: np.ndarray) -> Tensor:
        """[T+1, B, N, *O], stacked as far back as the episode goes and the store remembers."""
        n = self.spec.frame_stack
        first = warm_starts(self.store, self.store.begin, lane, start, n - 1) if n > 1 else start
        return self.store.observations(lane, start, first, rows, n, self.device)

    def _field(self, name: str, rows: np.ndarray) -> Tensor:
        return self.store.tensor(name, rows, self.device)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def state_dict(self) -> dict[str, Any]:
        """A flat dict: slots lane by lane, priorities, the generator's state."""
        lengths = self.store.end - self.store.begin
        rows = self.store.rows_in_turn(np.arange(self.n_envs), self.store.begin, lengths)
        return {
            **store_state.state_of(self.rng, self.n_envs),
            "per_copy": self.per_copy,
            "length": self.length,
            "begin": self.store.begin.copy(),
            "end": self.store.end.copy(),
            "open": self._open.copy(),
            "startable": self._startable.copy(),
            **({} if self.priorities is None else self.priorities.state_dict()),
            **store_state.slots_at(self.store, rows),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            ValueError: the state is of another number of copies, capacity, window, sampler or
                environment.
        """
        store_state.require_copies(state, self.n_envs)
        if state["per_copy"] != self.per_copy:
            raise ValueError(
                f"The saved replay keeps {state['per_copy'] * self.n_envs} steps, this one "
                f"{self.per_copy * self.n_envs}: use the buffer.capacity that it was written with."
            )
        if state["length"] != self.length:
            raise ValueError(
                f"The saved replay gives windows of {state['length']} transitions, this one "
                f"{self.length}: use the algo.loss.n_step, buffer.sequence_length and "
                "buffer.burn_in that it was written with."
            )
        n_items = 0 if self.priorities is None else self.priorities.tree.n
        n_saved = len(state.get("priority", ()))
        if n_saved != n_items:
            raise ValueError(
                f"The saved replay has {n_saved} priorities, this one {n_items}: "
                "use the buffer.sampler and buffer.agents that it was written with."
            )
        store_state.require_slots(state, self.store)
        self.store.restart(state["begin"])
        slot = 0
        for lane, n in enumerate((state["end"] - state["begin"]).tolist()):
            store_state.put_slots(self.store, lane, state, slot, n)
            slot += n
        self._open[:], self._startable[:] = state["open"], state["startable"]
        if self.priorities is not None:
            self.priorities.load_state_dict(state)
        store_state.restore(self.rng, state)
