"""Sum tree: draws items in proportion to their priorities in logarithmic time (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.compiled import njit


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
        return find_leaves(self.nodes, self.offset, mass)

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
    """Every sum is formed anew from its two parts, so that rounding never accumulates."""
    for k in range(len(item)):
        node = offset + item[k]
        nodes[node] = priority[k]
        node >>= 1
        while node >= 1:
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]
            node >>= 1


@njit(__file__)
def find_leaves(nodes, offset, mass):
    """Down from the root; never into a branch without mass."""
    found = np.empty(len(mass), np.int64)
    for k in range(len(mass)):
        node, rest = 1, mass[k]
        while node < offset:
            left = nodes[2 * node]
            if rest < left or nodes[2 * node + 1] <= 0.0:
                node = 2 * node
            else:
                rest -= left
                node = 2 * node + 1
        found[k] = node - offset
    return found
