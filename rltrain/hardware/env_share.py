"""Which of a run's environments a rollout has."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """The environments ``first`` … ``first + n_envs - 1`` of ``total``, of rollout ``number``."""

    number: int
    first: int
    n_envs: int
    total: int

    @property
    def envs(self) -> slice:
        """Where they are along an axis of all environments."""
        return slice(self.first, self.first + self.n_envs)

    def test_episodes(self, n: int) -> int:
        """How many of the test episodes 0 … n - 1 it plays; environment i % total plays i."""
        rounds, rest = divmod(n, self.total)
        return self.n_envs * rounds + min(max(rest - self.first, 0), self.n_envs)


def split_envs(total: int, n_workers: int) -> list[Share]:
    """Environments split among workers as evenly as possible, the first ones having one more."""
    each, rest = divmod(total, n_workers)
    shares, first = [], 0
    for number in range(n_workers):
        n_envs = each + (number < rest)
        shares.append(Share(number, first, n_envs, total))
        first += n_envs
    return shares
