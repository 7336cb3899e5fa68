"""How environments and test episodes are divided among rollouts."""

import pytest

from rltrain.hardware.env_share import split_envs


@pytest.mark.parametrize(("total", "n_workers"), [(5, 2), (4, 4), (7, 3), (3, 1)])
@pytest.mark.parametrize("n", [1, 4, 5, 6, 17])
def test_every_test_episode_has_one_worker(total, n_workers, n):
    """Environment i % total plays episode i, and its worker counts it."""
    shares = split_envs(total, n_workers)
    assert [e for share in shares for e in range(total)[share.envs]] == list(range(total))
    for share in shares:
        own = [i for i in range(n) if share.first <= i % total < share.first + share.n_envs]
        assert share.test_episodes(n) == len(own)
