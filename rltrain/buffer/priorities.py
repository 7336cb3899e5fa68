"""Priorities: proportional sampling of items, its importance weights, and where items begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer.store import Store
from rltrain.common.numba_cache import njit
from rltrain.common.number_types import Count, Positive, Probability
from rltrain.common.schedule import linear
from rltrain.types import StateDict, inside

ActedError = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Values of acting [T+1, B, N, 2], rewards [T, B, R], ``terminated`` [T, B] and ``last`` [T+1, B]
to absolute TD errors [T, B, N]: ``Loss.acted_error``."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the episodes or windows of a buffer are drawn."""

    sampler: Literal["uniform", "proportional"] = "uniform"  # to priority^alpha
    alpha: Probability = 0.6  # exponent of the priorities
    beta: Probability = 0.4  # exponent of the importance weights at the start
    beta_end: Probability = 1.0  # … at the end
    beta_env_steps: Count | None = None  # env steps between; null = total_env_steps
    priority_floor: Positive = 1e-6  # added to every priority

    def priorities(self, total_env_steps: int) -> Callable[[int], Priorities] | None:
        """Makes the priorities of so many items; None = uniform."""
        if self.sampler == "uniform":
            return None
        return lambda n: Priorities(n, self, total_env_steps)


@dataclass(frozen=True, kw_only=True)
class WindowSampling(Sampling):
    """How the windows of a step buffer are drawn.

    Raises:
        ValueError: initial priorities without sampling by priority.
    """

    eta: Probability  # weight of a window's largest error in its priority; their mean has 1 - eta
    initial_priority: Literal["max", "td_error"] = "max"  # of new windows: the largest so far, or
    # that of the values they were played with (Horgan et al., 2018)

    def __post_init__(self) -> None:
        if self.sampler == "uniform" and self.initial_priority != "max":
            raise ValueError(
                f"buffer.initial_priority={self.initial_priority}: windows that are drawn "
                "uniformly have no priorities. Type buffer=prioritized, or "
                "buffer.initial_priority=max."
            )


class Priorities:
    """Items drawn in proportion to priority^alpha (Schaul et al., 2016, section 3.3).

    Args:
        n: items; all begin with priority 0, which is never drawn.
        sampling: exponents of the priorities and of the importance weights (section 3.4), and the
            floor with which every item can be drawn again.
        total_env_steps: length of the run.
    """

    def __init__(self, n: int, sampling: Sampling, total_env_steps: int) -> None:
        self.tree = SumTree(n)
        self.alpha, self.floor = sampling.alpha, sampling.priority_floor
        self.beta = sampling.beta, sampling.beta_end, sampling.beta_env_steps or total_env_steps
        self.largest = 1.0  # priority^alpha, of all that updates have set

    def add(
        self, item: np.ndarray, drawable: np.ndarray, priority: np.ndarray | None = None
    ) -> None:
        """New items [B] get (priority [B] + floor)^alpha, without ``priority``, or where it is not
        finite, the largest that an update has set; those not ``drawable`` [B] get 0.
        """
        new = np.full(len(item), self.largest)
        if priority is not None:
            given = np.isfinite(priority)
            new[given] = (priority[given] + self.floor) ** self.alpha
        self.tree.set(item, np.where(drawable, new, 0.0))

    def remove(self, item: np.ndarray) -> None:
        """Items [B] are not drawn any more."""
        self.tree.set(item, np.zeros(len(item)))

    def update(self, item: np.ndarray, priority: np.ndarray) -> None:
        """Set (priority [B] + floor)^alpha of items [B] that were not removed since."""
        new = (priority + self.floor) ** self.alpha
        kept = (self.tree[item] > 0) & np.isfinite(new)  # not finite: the update was undone
        self.tree.set(item[kept], new[kept])
        if kept.any():
            self.largest = max(self.largest, float(new[kept].max()))

    def draw(
        self, n: int, rng: np.random.Generator, env_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """``n`` items [B], one from each of n equal shares of the total, and their importance
        weights [B], at most 1.
        """
        total = self.tree.total
        item = self.tree.find((np.arange(n) + rng.random(n)) * (total / n))
        start, end, duration = self.beta
        weight = self.tree[item] ** -linear(start, end, duration, env_steps)
        return item, weight / weight.max()  # the factor N of (N P)^-beta cancels

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"priority": self.tree.state_dict()["leaves"], "largest": np.array([self.largest])}

    def load_state_dict(self, state: StateDict) -> None:
        self.tree.load_state_dict(state["priority"])
        self.largest = float(state["largest"][0])


@dataclass(eq=False, repr=False)
class ActedPriorities:
    """The priorities that the loss would give to windows if online and target network both had the
    weights that chose their actions.

    Args:
        store: the steps, with their values.
        error: absolute TD errors of transitions by those values.
        n_learned: transitions of a window that are learned from.
        n_step: rewards that an error sums.
        eta: weight of a window's largest error; their mean has 1 - eta.
        n_agents: windows that begin at a step, each of another agent; 1 = the whole team.
    """

    store: Store
    error: ActedError
    n_learned: int
    n_step: int
    eta: float
    n_agents: int

    def __call__(self, env: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[n_agents · B], agent by agent: priorities of the windows whose learned transitions begin
        at step [B] of environment [B], and whose steps are all stored; those of final steps mean
        nothing.
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
    """``n`` priorities, float64. Node 1 is the root, node k has children 2k and 2k + 1, item i is
    leaf ``offset + i``; every node holds the sum of its leaves.
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
        """Priorities [B] of items [B]; of equal items the last counts."""
        set_leaves(self.nodes, self.offset, item, priority)

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The items at which the running sum of priorities passes ``mass`` [B], in 0 … total."""
        return find_leaves(self.nodes, self.offset, mass.astype(np.float64))

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"leaves": self.nodes[self.offset : self.offset + self.n].copy()}

    def load_state_dict(self, leaves: np.ndarray) -> None:
        self.nodes[:] = 0
        self.nodes[self.offset : self.offset + self.n] = leaves
        level = self.offset
        while level > 1:
            pairs = self.nodes[level : 2 * level].reshape(-1, 2)
            level //= 2
            self.nodes[level : 2 * level] = pairs[:, 0] + pairs[:, 1]


@njit(__file__)
def set_leaves(nodes: np.ndarray, offset: int, item: np.ndarray, priority: np.ndarray) -> None:
    """Set leaves and compute every sum above them from its two children again, so that rounding
    does not accumulate; level by level for all items, so that their cache misses overlap.
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
    """Descend from the root, level by level; never into a branch without mass. ``rest`` is
    overwritten.
    """
    node = np.ones(len(rest), np.int64)
    level = 1
    while level < offset:
        level *= 2
        for k in range(len(node)):
            child = 2 * node[k]
            left = nodes[child]
            right = (rest[k] >= left) & (nodes[child + 1] > 0.0)  # no branch to mispredict
            node[k] = child + right
            rest[k] -= left * right
    return node - offset
