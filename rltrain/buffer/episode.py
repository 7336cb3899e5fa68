"""EpisodeBuffer: a ``Store`` and an index of its finished episodes, sampled whole."""

from __future__ import annotations

import numpy as np
import torch
from rich.filesize import decimal
from torch import Tensor

from rltrain.buffer.fields import Precision, n_bytes, step_fields
from rltrain.buffer.place import Place
from rltrain.buffer.priorities import Sampling, new_priorities
from rltrain.buffer.step_check import StepCheck, require_total
from rltrain.buffer.store import BLOCK, blocks_until
from rltrain.buffer.windows import read_windows
from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import MOST_COUNTED, Count, saved_array
from rltrain.errors import require_n_envs
from rltrain.types import Batch, Clock, EnvSpec, Plan, StateDict, Steps

LENGTHS_ON_GPU = 8
"""On a GPU, batch lengths are multiples of this: each length needs its own CUDA graph."""


class EpisodeBuffer:
    """The newest ``capacity`` finished episodes, or as many as fit into ``max_bytes``, sampled
    uniformly without replacement, or in proportion to priorities with replacement.

    Args:
        spec: sizes.
        n_envs: environments, E.
        device: device of the batches.
        rng: draws the episodes.
        capacity: maximum number of finished episodes.
        place: the fields of ``Place``; open episodes use some of the bytes.
        precision: how observations and states are stored; uint8 observations stay uint8.
        sampling: the fields of ``Sampling``; an episode's priority is its mean absolute TD error.

    Raises:
        ValueError: ``max_bytes`` cannot hold the first steps of every environment.
        RuntimeError: the address space cannot be reserved.
    """

    per_agent = False
    keeps_hidden = False
    unique_index = True

    @flat_keywords
    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        capacity: Count,
        place: Place,
        precision: Precision,
        sampling: Sampling,
        total_env_steps: int = 1,
    ) -> None:
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.capacity = capacity
        self._multiple = LENGTHS_ON_GPU if device.type == "cuda" else 1  # of a batch's length
        fields = step_fields(spec, precision)
        self._step_check = StepCheck(spec, n_envs, fields)
        self._place, cap = place, place.cap
        self._step_bytes = step_bytes = n_bytes(fields) * place.copies
        n_blocks = cap // (BLOCK * step_bytes)
        if spec.max_steps is not None:  # do not reserve more than capacity can fill
            n_blocks = min(n_blocks, episode_blocks(capacity, spec.max_steps, n_envs))
        if n_blocks < 2 * n_envs:
            raise ValueError(
                f"buffer.max_bytes={cap} is too little: {n_envs} environments need "
                f"{2 * n_envs * BLOCK * step_bytes} bytes to begin with. Set buffer.max_bytes to "
                "at least that."
            )
        place.require_free(n_blocks * BLOCK * step_bytes, capacity)
        self.store = place.store(
            spec=spec, n_envs=n_envs, n_blocks=n_blocks, fields=fields, device=device
        )
        # Finished episodes by age: episode i has row i % size of the index.
        self._size = min(capacity, n_blocks * BLOCK // 2)  # an episode has at least two steps
        self._env = np.empty(self._size, np.int64)
        self._start = np.empty(self._size, np.int64)  # number of its first step
        self._length = np.empty(self._size, np.int64)  # transitions
        self._oldest, self._next = 0, 0  # episode ids
        self._open = np.zeros(n_envs, np.int64)  # [E] first step of the open episode
        self.n_steps = 0  # transitions of the finished episodes
        priorities = sampling.priorities(total_env_steps)
        self.priorities = priorities and priorities(self._size)  # of the rows

    @property
    def full(self) -> bool:
        """Whether new episodes replace old ones."""
        return self._oldest > 0

    @property
    def n_episodes(self) -> int:
        """Finished episodes that can be sampled."""
        return self._next - self._oldest

    def plan(self) -> Plan:
        """Sizes for the banner."""
        longest, step_bytes = self.spec.max_steps, self._step_bytes
        worst = None if longest is None else self.capacity * (longest + 1) * step_bytes
        return Plan(
            bytes_per_step=self.store.bytes_per_step,
            worst_case_bytes=worst,
            cap_bytes=self.store.n_blocks * BLOCK * step_bytes,
            capacity=self.capacity,
            folder=self._place.path,
        )

    def check(self, batch_size: int) -> None:
        """Refuse a buffer that could never sample a batch of full-length episodes.

        Raises:
            ValueError: states the required and available sizes and what to type.
        """
        if self.capacity < batch_size:
            raise ValueError(
                f"buffer.capacity={self.capacity} episodes cannot hold one batch of "
                f"algo.batch_size={batch_size} episodes: set buffer.capacity={batch_size} or more."
            )
        longest, n_envs, step_bytes = self.spec.max_steps, self.n_envs, self._step_bytes
        needed = 0 if longest is None else episode_blocks(batch_size, longest, n_envs)
        cap_bytes, needed_bytes = (n * BLOCK * step_bytes for n in (self.store.n_blocks, needed))
        if cap_bytes < needed_bytes:
            raise ValueError(
                f"The buffer may use {decimal(cap_bytes, precision=2)}, but one batch of "
                f"{batch_size} episodes of {longest} steps, besides the {n_envs} open episodes, "
                f"needs {decimal(needed_bytes, precision=2)} ({step_bytes} bytes a step): set "
                f"buffer.max_bytes={needed_bytes}, or buffer.precision=float16, or a smaller "
                "algo.batch_size."
            )

    def add(self, steps: Steps) -> None:
        """Store T steps of all E environments; an episode can be sampled once its final step is
        stored.

        Raises:
            ValueError: the steps do not fit the environments (see ``StepCheck``).
            RuntimeError: the open episodes alone have filled ``max_bytes``.
        """
        self._step_check(steps)
        for e in np.flatnonzero(steps.lost).tolist():
            self.store.rewind(e, int(self._open[e]))
        for t in range(0, len(steps.last), BLOCK):
            part = {name: getattr(steps, name)[t : t + BLOCK] for name in self.store.arrays}
            self._make_room(self.store.blocks_to_append(len(part["last"])))
            first = self.store.end.copy()
            self.store.append(part)
            for offset, e in np.argwhere(part["last"]).tolist():
                self._finish(e, int(first[e]) + offset)

    def ready(self, batch_size: int) -> bool:
        """Whether there are ``batch_size`` different episodes."""
        return self.n_episodes >= batch_size

    def sample(self, batch_size: int, clock: Clock) -> Batch:
        """Sample ``batch_size`` episodes, longest first, padded to its length (on a GPU, to a
        multiple of ``LENGTHS_ON_GPU``); ``index`` holds their ids. Uniform samples are distinct;
        the clock determines beta.
        """
        drawn, weight = self._draw(batch_size, clock)
        longest_first = np.argsort(-self._length[drawn % self._size], kind="stable")
        episode, weight = drawn[longest_first], weight[longest_first]  # [B]
        index = episode % self._size
        env, start, length = self._env[index], self._start[index], self._length[index]
        store, longest = self.store, -(-int(length[0]) // self._multiple) * self._multiple  # T
        fields, rows = read_windows(store, env, start, longest, np.zeros_like(start), longest)
        fields |= {"weight": weight.astype(np.float32), "index": episode}
        return store.batch(fields, rows, {"burn_in": 0})

    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities [B] of those episodes ``index`` [B] that are still stored, if sampling
        is proportional.
        """
        if self.priorities is None:
            return
        episode, new = new_priorities(index, priority)
        stored = episode >= self._oldest
        self.priorities.update(episode[stored] % self._size, new[stored])

    def _draw(self, batch_size: int, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
        """Ids of episodes and their importance weights, both [B]."""
        if self.priorities is None:
            drawn = self.rng.choice(self.n_episodes, batch_size, replace=False)
            return drawn + self._oldest, np.ones(batch_size)
        row, weight = self.priorities.draw(batch_size, self.rng, clock.env_steps)
        return self._oldest + (row - self._oldest) % self._size, weight

    def state_dict(self) -> StateDict:
        """Finished episodes by age, then the open ones, and the generator.

        The steps are ``Pieces``, read lazily from the store.
        """
        row, env, start, n_steps = self._stored()
        before, end = np.empty_like(start), self.store.begin.copy()
        for i, e in enumerate(env.tolist()):
            before[i], end[e] = start[i] - end[e], start[i] + n_steps[i]
        rows = self.store.consecutive_rows(env, start - before, n_steps + before)
        priorities = {} if self.priorities is None else self.priorities.state_dict(row)
        return {
            "n_envs": self.n_envs,
            "rng": self.rng.bit_generator.state,
            "oldest": self._oldest,
            "begin": self.store.begin.copy(),
            "env": self._env[row],
            "length": self._length[row],
            "open_length": n_steps[len(row) :],
            "before": before,  # per episode: preceding steps without a transition
            **priorities,
            **self.store.saved_steps(rows),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``, dropping the oldest episodes if there is less room.

        Raises:
            ValueError: the state has a different number of environments, belongs to another
                environment, or holds what no run stores.
            RuntimeError: the open episodes alone exceed ``max_bytes``.
        """
        require_n_envs("buffer", state["n_envs"], self.n_envs)
        n_saved, n_episodes = self.store.saved_length(state), len(state["env"])
        oldest = saved_array("the buffer's oldest", state["oldest"], np.array(0), 0, MOST_COUNTED)
        sizes = {"env": (n_episodes, 0, self.n_envs - 1), "length": (n_episodes, 1, n_saved)}
        sizes |= {"open_length": (self.n_envs, 0, n_saved)}
        sizes |= {"before": (n_episodes + self.n_envs, 0, n_saved)}
        for name, (n, low, high) in sizes.items():
            saved_array(f"the buffer's {name}", state[name], np.empty(n, np.int64), low, high)
        env = [*state["env"].tolist(), *range(self.n_envs)]
        length = [*(state["length"] + 1).tolist(), *state["open_length"].tolist()]
        before, first = state["before"].tolist(), 0
        require_total(sum(before) + sum(length), n_saved)
        self.store.restore(state)
        self._open[:] = state["begin"]
        self._oldest = self._next = int(oldest)
        self.n_steps = 0
        for i, (e, n_steps, n_before) in enumerate(zip(env, length, before, strict=True)):
            n_all = n_before + n_steps
            self._make_room(self.store.blocks_to_append(n_all, np.array([e])))
            self.store.append_saved(e, state, first, n_all)
            self._open[e] += n_before
            if i < len(state["length"]):
                self._finish(e, int(self.store.end[e]) - 1)
            first += n_all
        if self.priorities is not None:
            row = np.arange(self._oldest, self._next) % self._size
            priority = np.asarray(state["priority"])
            if len(priority) != n_episodes or not (priority > 0).all():
                raise ValueError("the buffer's priority is not above 0 for each episode")
            kept = {**state, "priority": priority[n_episodes - len(row) :]}
            self.priorities.load_state_dict(row, kept)
        self._require_ends()
        self.rng.bit_generator.state = state["rng"]

    def saved(self, with_steps: bool) -> None:
        self.store.saved(with_steps)

    def close(self) -> None:
        self.store.close()

    def _stored(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the finished episodes by age; environment, first step and number of steps of each
        of them, then of the open ones.
        """
        row = np.arange(self._oldest, self._next) % self._size
        env = np.concatenate([self._env[row], np.arange(self.n_envs)])
        start = np.concatenate([self._start[row], self._open])
        n_steps = np.concatenate([self._length[row] + 1, self.store.end - self._open])
        return row, env, start, n_steps

    def _require_ends(self) -> None:
        """ValueError unless exactly the last steps of the finished episodes are final."""
        row, env, start, n_steps = self._stored()
        last = self.store.arrays["last"][self.store.consecutive_rows(env, start, n_steps), 0]
        final = np.zeros_like(last)
        final[n_steps.cumsum()[: len(row)] - 1] = True
        if (final != last).any():
            raise ValueError("the buffer's last is not set where its episodes end")

    def _make_room(self, n_blocks: int) -> None:
        """Remove the oldest episodes until ``n_blocks`` blocks are free."""
        while self.store.free_blocks < n_blocks:
            if self.n_episodes == 0:
                n_bytes = self.store.bytes_in_use
                raise RuntimeError(
                    f"The buffer is full of open episodes: {n_bytes} bytes do not hold those of "
                    f"{self.n_envs} environments. Increase buffer.max_bytes, or give "
                    "the environment a time limit."
                )
            self._remove_oldest()

    def _finish(self, e: int, step: int) -> None:
        """End the open episode of environment ``e`` with its final step ``step``."""
        start = int(self._open[e])
        self._open[e] = step + 1
        if step == start:  # an episode without a transition
            return
        if self.n_episodes == self._size:
            self._remove_oldest()
        row = self._next % self._size
        self._env[row], self._start[row], self._length[row] = e, start, step - start
        if self.priorities is not None:
            self.priorities.add(np.array([row]), np.array([True]))
        self._next += 1
        self.n_steps += step - start

    def _remove_oldest(self) -> None:
        row = self._oldest % self._size
        length = int(self._length[row])
        self.store.release(int(self._env[row]), int(self._start[row]) + length + 1)
        if self.priorities is not None:
            self.priorities.remove(np.array([row]))
        self._oldest += 1
        self.n_steps -= length


def episode_blocks(n_episodes: int, max_steps: int, n_envs: int) -> int:
    """Blocks that always hold ``n_episodes`` full-length episodes besides the open ones."""
    return blocks_until((n_episodes + n_envs) * (max_steps + 1)) + 3 * n_envs
