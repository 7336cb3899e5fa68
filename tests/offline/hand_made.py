"""Hand-made episodes for the tests of writer and dataset: observation = 100 episode + step."""

import json

import numpy as np
from safetensors.numpy import load_file, save_file

from rltrain.buffer.fields import n_bytes
from rltrain.common.files import digest
from rltrain.offline.shards import INDEX, shard_name, stored_fields
from rltrain.offline.writer import Writer
from rltrain.types import EnvSpec

SPEC = EnvSpec(n_agents=2, n_actions=3, obs_shape=(1,), state_dim=0)
ABOUT = {"spec": SPEC.record}


def writer(folder, *, n_envs=1, shard_steps=1000, **overrides):
    settings = {"max_bytes": None, **overrides}
    size = shard_steps * n_bytes(stored_fields(SPEC))
    return Writer(
        folder=folder, spec=SPEC, n_envs=n_envs, about=ABOUT, shard_bytes=size, **settings
    )


def written(folder, envs, stop=None, **options):
    """The writer of a dataset of all episodes that ended."""
    to = writer(folder, **options)
    play(to, envs, stop=stop)
    to.flush()
    return to


def change_index(folder, change):
    """An index with what ``change`` makes of it, in place."""
    index = json.loads((folder / INDEX).read_text())
    change(index)
    (folder / INDEX).write_text(json.dumps(index))


def change_shard(folder, change, **listed):
    """The first shard with arrays changed in place, and an index that vouches for it."""
    path = folder / shard_name(0)
    arrays = {k: v.copy() for k, v in load_file(path).items()}
    change(arrays)
    save_file(arrays, path)
    facts = {"bytes": path.stat().st_size, "sha256": digest(path), **listed}
    change_index(folder, lambda index: index["shards"][0].update(facts))


class Env:
    """Episodes of given lengths, one time step after the other."""

    def __init__(self, lengths, first=0):
        self.steps = [
            (100 * (first + e) + t, t == n) for e, n in enumerate(lengths) for t in range(n + 1)
        ]

    def __getitem__(self, t):
        return self.steps[t]


def play(to, envs, start=0, stop=None):
    """Add the time steps of all envs to a writer, which writes full shards."""
    for t in range(start, stop if stop is not None else min(len(env.steps) for env in envs)):
        number, last = (np.array(x) for x in zip(*(env[t] for env in envs), strict=True))
        n = len(envs)
        steps = {
            "obs": np.broadcast_to(number[:, None, None], (n, 2, 1)).astype(np.float32),
            "avail_actions": np.ones((n, 2, 3), np.bool_),
            "state": np.zeros((n, 0), np.float32),
            "last": last,
            "action": np.broadcast_to(number[:, None] % 3, (n, 2)),
            "reward": number[:, None].astype(np.float32),
            "terminated": np.zeros(n, np.bool_),
            "probability": np.full((n, 2), 0.5),
        }
        to.add(steps)
        to.flush(to.per_shard)
