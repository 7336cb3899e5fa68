"""Values of the target network, of a batch or of all episodes since the target's last update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Places(NamedTuple):
    """Where the target network's values of a batch's windows are, or go."""

    values: np.ndarray  # flat float32; T + 1 steps of each window, N agents, A actions
    place: np.ndarray  # [B] of a window's first value
    known: np.ndarray  # [B] whether the values are there


class TargetValues:
    """Memory for the target network's values of windows.

    Between two updates of the target, a window that is sampled again has the same values, bit for
    bit: a window's numbers do not depend on the rest of its batch. With ``max_bytes`` they are kept
    as long as they fit, until the target's weights change.

    Args:
        max_bytes: of values that are kept; None keeps none.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.capacity = 0 if max_bytes is None else max_bytes // 4
        self._values = np.empty(self.capacity, np.float32)
        self._weights: list[np.ndarray] = []
        self._version = 0
        self._place: dict[int, int] = {}  # by the index of the window
        self._end = 0  # of the values that are kept

    def places(
        self, weights: Sequence[np.ndarray], index: np.ndarray, sizes: np.ndarray, version: int = 0
    ) -> Places:
        """The places of windows ``index`` [B] with ``sizes`` [B] values each.

        Args:
            weights: of the target network.
            index: [B], which never names another window.
            sizes: [B], numbers of values.
            version: changes where weights are loaded: windows of the same index then differ.
        """
        if self.capacity == 0:
            return self._unkept(np.cumsum(sizes) - sizes, int(sizes.sum()))
        alike = map(np.array_equal, weights, self._weights)
        if version != self._version or len(weights) != len(self._weights) or not all(alike):
            self._version = version
            self._weights = [weight.copy() for weight in weights]
            self._place, self._end = {}, 0
        known = np.array([i in self._place for i in index.tolist()])
        place, end = np.empty(len(index), np.int64), self.capacity
        for k, (i, size) in enumerate(zip(index.tolist(), sizes.tolist(), strict=True)):
            if i not in self._place and self._end + size <= self.capacity:
                self._place[i] = self._end
                self._end += size
            if i in self._place:
                place[k] = self._place[i]
            else:
                place[k] = end
                end += size
        return self._unkept(place, end)._replace(known=known)

    def _unkept(self, place: np.ndarray, end: int) -> Places:
        """Places up to ``end``; the next batch overwrites what lies behind ``capacity``."""
        if len(self._values) < end:
            grown = np.empty(end, np.float32)
            grown[: self._end] = self._values[: self._end]
            self._values = grown
        return Places(self._values, place, np.zeros(len(place), np.bool_))
