"""When something that happens periodically is due."""

from __future__ import annotations


class Due:
    """A threshold: True for the first count at or after each multiple of ``interval``."""

    def __init__(self, interval: int, at: int = 0) -> None:
        self.interval, self.at = interval, at

    def __call__(self, now: int) -> bool:
        if now < self.at:
            return False
        self.at = (now // self.interval + 1) * self.interval
        return True
