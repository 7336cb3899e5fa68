"""ReplayBuffer: the newest steps of every environment copy, sampled as windows of T transitions.

A window may teach from any real slot on that has T successors and what came before it; it belongs
to one episode and never crosses the write head. It begins ``burn_in`` slots earlier, or where its
episode begins: otherwise no window would teach the first transitions of an episode, and a short one
would teach nothing. ``uniform`` draws starts alike, ``proportional`` by
their priorities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer import store_state
from rltrain.buffer.fields import Storage, bytes_per_slot, fields_to_store
from rltrain.buffer.step_check import StepCheck
from rltrain.buffer.store import BLOCK, Store
from rltrain.buffer.sum_tree import SumTree
from rltrain.buffer.windows import starts, warm_starts, windows
from rltrain.common.memory import memory_cap, require_memory
from rltrain.common.number_types import (
    Count,
    Positive,
    Probability,
    Whole,
)
from rltrain.common.schedule import linear
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
        capacity: slots kept at most.
        max_bytes: bytes kept at most; null = 60 % of the memory free now.
        storage: how observations and states are kept; uint8 observations stay uint8.
        sampler: ``uniform`` or ``proportional`` to priority^alpha (Schaul et al. 2016, §
            3.3).
        alpha: exponent of priorities.
        beta, beta_end, beta_env_steps: exponent of the importance weights (section 3.4) at the
            start, at the end, and the env steps between.
        priority_floor: added to every priority, so that nothing is forgotten.
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
        capacity: Count,
        max_bytes: Count | None,
        storage: Storage,
        sampler: Literal["uniform", "proportional"],
        alpha: Probability,
        beta: Probability,
        beta_end: Probability,
        beta_env_steps: Count,
        priority_floor: Positive,
        sequence_length: Count,
        burn_in: Whole,
        first_hidden: Literal["zero", "stored"],
        agents: Literal["lockstep", "independent"],
    ) -> None:
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.capacity, self.sampler, self.alpha = capacity, sampler, alpha
        self.beta = beta, beta_end, beta_env_steps
        self.priority_floor, self.burn_in, self.n_step = priority_floor, burn_in, n_step
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
        self.tree = SumTree(n_envs * self._ring * self.teams) if sampler != "uniform" else None
        self._top = 1.0  # largest priority^alpha ever given

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
        if self.tree is None:
            lane, number, agent = self._draw_uniform(batch_size)
            weight, item = None, self._item(lane, number, agent)
        else:
            item, weight = self._draw_proportional(self.tree, batch_size, clock)
            lane, number, agent = self._place(item)
        return self._windows(lane, number, agent, item, weight)

    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """(priority [B] + floor)^alpha for the windows ``index`` [B]."""
        if self.tree is None:
            return
        item = index.cpu().numpy()
        new = (priority.double().cpu().numpy() + self.priority_floor) ** self.alpha
        kept = (self.tree[item] > 0) & np.isfinite(new)  # else: gone, or a step that was undone
        self.tree.set(item[kept], new[kept])
        if kept.any():
            self._top = max(self._top, float(new[kept].max()))

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

    def _draw_proportional(
        self, tree: SumTree, n: int, clock: Clock
    ) -> tuple[np.ndarray, np.ndarray]:
        """Items, one from each of ``n`` equal shares of the total, and importance weights [B]."""
        total = tree.total
        mass = (np.arange(n) + self.rng.random(n)) * (total / n)
        item = tree.find(mass)
        start, end, duration = self.beta
        beta = linear(start, end, duration, clock.env_steps)
        weight = tree[item] ** -beta  # (N P)^-beta up to a factor that the maximum takes away
        return item, weight / weight.max()

    @property
    def _eldest(self) -> np.ndarray:
        """[E] the first slot whose predecessors are still stored, or never were."""
        begin = self.store.begin
        return np.where(begin > 0, begin + self._looks_back, 0)

    def _admit(self) -> None:
        """New starts enter with the largest priority so far; final slots with none."""
        until = np.maximum(self.store.end - self.length, self._startable)
        if self.tree is not None:
            eldest = self._eldest  # some slots are pushed out before they had their chance
            for lane in np.flatnonzero(until > self._startable).tolist():
                number = np.arange(max(self._startable[lane], eldest[lane]), until[lane])
                last = self.store.arrays["last"][self.store.rows(lane, number), 0]
                self._set(lane, number, np.where(last, 0.0, self._top))
        self._startable = until

    def _make_room(self, n_slots: int) -> None:
        """Forget the oldest slots of every copy that ``n_slots`` new ones would push out."""
        first = np.maximum(self.store.end + n_slots - self.per_copy, self.store.begin)
        pushing = np.flatnonzero(first > self.store.begin).tolist()
        before = self._eldest
        for lane in pushing:
            self.store.release(lane, int(first[lane]))
        if self.tree is not None:
            after = self._eldest
            for lane in pushing:
                gone = np.arange(before[lane], after[lane])
                self._set(lane, gone, np.zeros(len(gone)))

    def _forget(self, lane: int) -> None:
        """Drop the open episode of a copy that crashed."""
        start = max(int(self._open[lane]), int(self.store.begin[lane]))
        if self.tree is not None:
            gone = np.arange(start, self.store.end[lane])
            self._set(lane, gone, np.zeros(len(gone)))
        self.store.rewind(lane, start)
        # what came before can only look ahead as far as its own final slot, which is stored
        self._startable[lane] = min(self._startable[lane], start)

    def _set(self, lane: int, number: np.ndarray, priority: np.ndarray) -> None:
        assert self.tree is not None
        for agent in range(self.teams):
            self.tree.set(self._item(np.int64(lane), number, np.int64(agent)), priority)

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
            "top": np.array([self._top]),
            "priority": np.zeros(0) if self.tree is None else self.tree.state_dict()["leaves"],
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
        n_items = 0 if self.tree is None else self.tree.n
        if len(state["priority"]) != n_items:
            raise ValueError(
                f"The saved replay has {len(state['priority'])} priorities, this one {n_items}: "
                "use the buffer.sampler and buffer.agents that it was written with."
            )
        store_state.require_slots(state, self.store)
        self.store.restart(state["begin"])
        slot = 0
        for lane, n in enumerate((state["end"] - state["begin"]).tolist()):
            store_state.put_slots(self.store, lane, state, slot, n)
            slot += n
        self._open[:], self._startable[:] = state["open"], state["startable"]
        self._top = float(state["top"][0])
        if self.tree is not None:
            self.tree.load_state_dict(state["priority"])
        store_state.restore(self.rng, state)


def one_agent(batch: Batch, agent: Tensor) -> Batch:
    """The same windows with only agent [B] of each team in it: N = 1."""

    def chosen(x: Tensor) -> Tensor:
        index = agent.view(1, -1, 1, *[1] * (x.dim() - 3)).expand(len(x), -1, 1, *x.shape[3:])
        return x.gather(2, index)

    n_agents = batch.action.shape[2]
    own_reward = batch.reward.shape[2] == n_agents and n_agents > 1
    hidden = batch.hidden
    if hidden is not None:
        hidden = chosen(hidden.unsqueeze(0)).squeeze(0)
    return replace(
        batch,
        obs=chosen(batch.obs),
        avail_actions=chosen(batch.avail_actions),
        last_action=chosen(batch.last_action),
        action=chosen(batch.action),
        reward=chosen(batch.reward) if own_reward else batch.reward,
        hidden=hidden,
        agent=agent.unsqueeze(1),
    )
