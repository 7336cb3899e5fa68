"""Sum tree: draws items in proportion to their priorities in logarithmic time (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common.numba_cache import njit


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
def set_leaves(nodes, offset, item, priority):
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
def find_leaves(nodes, offset, rest):
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
