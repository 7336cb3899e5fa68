"""Priorities: proportional sampling, importance weights, and initial priorities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer.store import Store
from rltrain.common.numba_cache import njit
from rltrain.common.number_types import Count, Positive, Probability, saved_array, saved_number
from rltrain.common.schedule import linear
from rltrain.types import StateDict, inside

ActedError = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Values of acting [T+1, B, N, 2], rewards [T, B, R], ``terminated`` [T, B] and ``last`` [T+1, B]
to absolute TD errors [T, B, N]: ``Loss.acted_error``."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the episodes or windows of a buffer are sampled."""

    sampler: Literal["uniform", "proportional"] = "uniform"  # to priority^alpha
    alpha: Probability = 0.6  # exponent of the priorities
    beta: Probability = 0.4  # exponent of the importance weights at the start
    beta_end: Probability = 1.0  # … at the end
    beta_env_steps: Count | None = None  # env steps in between; null = total_env_steps
    priority_floor: Positive = 1e-6  # added to every priority

    def priorities(self, total_env_steps: int) -> Callable[[int], Priorities] | None:
        """Makes the priorities of a number of items; None = uniform."""
        if self.sampler == "uniform":
            return None
        return lambda n: Priorities(n, self, total_env_steps)


@dataclass(frozen=True, kw_only=True)
class WindowSampling(Sampling):
    """How the windows of a step buffer are sampled.

    Raises:
        ValueError: initial priorities with uniform sampling.
    """

    eta: Probability  # a window's priority: eta * largest error + (1 - eta) * mean error
    initial_priority: Literal["max", "td_error"] = "max"  # of new windows: the largest so far, or
    # from the values computed while acting (Horgan et al., 2018)

    def __post_init__(self) -> None:
        if self.sampler == "uniform" and self.initial_priority != "max":
            raise ValueError(
                f"buffer.initial_priority={self.initial_priority}: windows that are drawn "
                "uniformly have no priorities. Type buffer=prioritized, or "
                "buffer.initial_priority=max."
            )


def new_priorities(index: Tensor, priority: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The arguments of a buffer's ``update_priority`` [B] as arrays.

    Raises:
        ValueError: priorities of another shape, or below 0.
    """
    item, new = index.cpu().numpy(), priority.double().cpu().numpy()
    if new.shape != item.shape or (new < 0).any():
        got = f"{new[new < 0][0]}" if new.shape == item.shape else f"the shape {new.shape}"
        raise ValueError(
            f"New priorities: expected one number for each window of the batch, {item.shape}, none "
            f"below 0, from algo.loss and on_update of callbacks, got {got}."
        )
    return item, new


class Priorities:
    """Items drawn in proportion to priority^alpha (Schaul et al., 2016, section 3.3).

    Args:
        n: number of items; all start with priority 0, which is never drawn.
        sampling: exponents of the priorities and of the importance weights (section 3.4), and the
            priority floor.
        total_env_steps: length of the run.
    """

    def __init__(self, n: int, sampling: Sampling, total_env_steps: int) -> None:
        self.tree = SumTree(n)
        self.alpha, self.floor = sampling.alpha, sampling.priority_floor
        self.beta = sampling.beta, sampling.beta_end, sampling.beta_env_steps or total_env_steps
        self.largest = 1.0  # priority^alpha, over all updates

    def add(
        self, item: np.ndarray, drawable: np.ndarray, priority: np.ndarray | None = None
    ) -> None:
        """Give new items [B] (priority [B] + floor)^alpha, or the largest updated value where there
        is no finite ``priority``; items not ``drawable`` [B] get 0.
        """
        new = np.full(len(item), self.largest)
        if priority is not None:
            given = np.isfinite(priority)
            new[given] = (priority[given] + self.floor) ** self.alpha
        self.tree.set(item, np.where(drawable, new, 0.0))

    def remove(self, item: np.ndarray) -> None:
        """Never draw items [B] again."""
        self.tree.set(item, np.zeros(len(item)))

    def update(self, item: np.ndarray, priority: np.ndarray) -> None:
        """Set (priority [B] + floor)^alpha for items [B] that were not removed."""
        new = (priority + self.floor) ** self.alpha
        kept = (self.tree[item] > 0) & np.isfinite(new)  # not finite: the update was undone
        self.tree.set(item[kept], new[kept])
        if kept.any():
            self.largest = max(self.largest, float(new[kept].max()))

    def draw(
        self, n: int, rng: np.random.Generator, env_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` items [B], one from each of n equal intervals of the total, with importance
        weights [B] of at most 1.
        """
        total = self.tree.total
        item = self.tree.find((np.arange(n) + rng.random(n)) * (total / n))
        start, end, duration = self.beta
        weight = self.tree[item] ** -linear(start, end, duration, env_steps)
        return item, weight / weight.max()  # the factor N of (N P)^-beta cancels

    def state_dict(self, item: np.ndarray) -> StateDict:
        """The priorities [B] of items [B], and the largest one so far."""
        return {"priority": self.tree[item], "largest": self.largest}

    def load_state_dict(self, item: np.ndarray, state: StateDict) -> None:
        """Set the priorities [B] of items [B], and the largest one so far.

        Raises:
            ValueError: they are not finite or below 0, or the largest one is not above 0.
        """
        most, like = float(np.finfo(np.float32).max), np.zeros(len(item))
        own = saved_array("the buffer's priority", state["priority"], like, 0, most)
        self.largest = saved_number("the buffer's largest", state["largest"], math.ulp(0), most)
        self.tree.set(item, own)


@dataclass(eq=False, repr=False)
class ActedPriorities:
    """Priorities of windows as computed by the loss if the online and target network had the
    weights used for acting.

    Args:
        store: the steps, with their values.
        error: absolute TD errors of transitions, from those values.
        n_learned: learned transitions per window.
        n_step: rewards summed per error.
        eta: priority = eta * largest error + (1 - eta) * mean error.
        n_agents: windows per start, one per agent; 1 = the whole team.
    """

    store: Store
    error: ActedError
    n_learned: int
    n_step: int
    eta: float
    n_agents: int

    def __call__(self, env: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[n_agents · B], by agent: priorities of the windows whose learned transitions begin at
        ``step`` [B] of environment ``env`` [B]; all their steps must be stored. Meaningless for
        final steps.
        """
        length = self.n_learned + self.n_step - 1  # T
        rows = self.store.rows(env, step + np.arange(length + 1)[:, None])  # [T+1, B]
        last = self._read("last", rows)
        episodes = self._read("reward", rows[:-1]), self._read("terminated", rows[:-1]), last
        error = self.error(self._read("values", rows), *episodes)[: self.n_learned]
        if self.n_agents == 1:
            error = error.mean(-1, keepdim=True)
        real = inside(last)[1 : self.n_learned + 1].unsqueeze(-1)  # [L, B, 1]
        error = torch.where(real, error, 0)  # [L, B, n_agents]
        mean = error.sum(0) / real.sum(0).clamp(min=1)
        return mean.lerp(error.amax(0), self.eta).T.reshape(-1).double().numpy()

    def _read(self, name: str, rows: np.ndarray) -> Tensor:
        stored = self.store.arrays[name][rows]
        return torch.from_numpy(stored.reshape(*rows.shape, *self.store.shapes[name]))


class SumTree:
    """Sum tree of ``n`` priorities, float64. Node 1 is the root, node k has children 2k and 2k + 1,
    item i is leaf ``offset + i``; every node holds the sum of its leaves.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.offset = 1 << max(n - 1, 1).bit_length()
        self.nodes = np.zeros(2 * self.offset)

    @property
    def total(self) -> float:
        return float(self.nodes[1])

    def __getitem__(self, item: np.ndarray) -> np.ndarray:
        """Priorities of items [B]."""
        return self.nodes[self.offset + item]

    def set(self, item: np.ndarray, priority: np.ndarray) -> None:
        """Set priorities [B] of items [B]; for duplicates, the last one counts."""
        set_leaves(self.nodes, self.offset, item, priority)

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The items at which the cumulative priority passes ``mass`` [B], in 0 … total."""
        return find_leaves(self.nodes, self.offset, mass.astype(np.float64))


@njit(__file__)
def set_leaves(nodes: np.ndarray, offset: int, item: np.ndarray, priority: np.ndarray) -> None:
    """Set leaves and recompute every sum above them from its two children, so that rounding does
    not accumulate; level by level for all items, so that cache misses overlap.
    """
    node = offset + item
    for k in range(len(node)):
        nodes[node[k]] = priority[k]
    while offset > 1:
        offset >>= 1
        for k in range(len(node)):
            parent = node[k] >> 1
            node[k] = parent
            nodes[parent] = nodes[2 * parent] + nodes[2 * parent + 1]


@njit(__file__)
def find_leaves(nodes: np.ndarray, offset: int, rest: np.ndarray) -> np.ndarray:
    """Descend from the root, level by level, never into an empty branch. Overwrites ``rest``."""
    node = np.ones(len(rest), np.int64)
    level = 1
    while level < offset:
        level *= 2
        for k in range(len(node)):
            child = 2 * node[k]
            left = nodes[child]
            right = (rest[k] >= left) & (nodes[child + 1] > 0.0)  # branch-free
            node[k] = child + right
            rest[k] -= left * right
    return node - offset
