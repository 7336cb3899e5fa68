"""Episode buffers for tests, and the same buffer as plain Python lists."""

from typing import Any

import numpy as np
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.buffer.fields import n_bytes, step_fields
from rltrain.common.seeding import generator
from rltrain.types import STEP_FIELDS, Batch, Clock, Steps
from tests.buffer.streams import SPEC, stack_frames

STEP_BYTES = n_bytes(step_fields(SPEC, "float32"))
CLOCK = Clock()


def make(**given: Any) -> EpisodeBuffer:
    values: dict[str, Any] = {
        "spec": SPEC,
        "n_envs": 3,
        "device": torch.device("cpu"),
        "rng": generator(7, 4),
        "capacity": 20,
        "max_bytes": None,
        "precision": "float32",
    }
    return EpisodeBuffer(**{**values, **given})


class PlainBuffer:
    """Lists of steps: every finished episode since the beginning, by age."""

    def __init__(self, n_envs: int) -> None:
        self.episodes: list[list[dict[str, np.ndarray]]] = []
        self.open: list[list[dict[str, np.ndarray]]] = [[] for _ in range(n_envs)]

    def add(self, steps: Steps) -> None:
        for e in np.flatnonzero(steps.lost):
            self.open[e] = []
        for t in range(len(steps.last)):
            for e, episode in enumerate(self.open):
                episode.append({name: getattr(steps, name)[t, e] for name in STEP_FIELDS})
                if steps.last[t, e]:
                    self.episodes.append(episode)
                    self.open[e] = []


def assert_window_is_episode(
    batch: Batch, b: int, episode: list[dict[str, np.ndarray]], n_frames: int = 1
) -> None:
    """Window b shows the whole episode, step by step, and padding behind it."""
    length, n_steps = len(episode) - 1, len(batch.obs)
    frames = np.stack([step["obs"] for step in episode])
    stacked = stack_frames(frames, np.arange(length + 1) == length, n_frames)
    for t in range(n_steps):
        real = t <= length
        step = episode[t] if real else None
        obs = stacked[t] if real else np.zeros_like(stacked[0])
        np.testing.assert_array_equal(batch.obs[t, b], obs.astype(np.float32))
        state = np.zeros_like(episode[0]["state"]) if step is None else step["state"]
        np.testing.assert_array_equal(batch.state[t, b], state)
        assert bool(batch.last[t, b]) == (t >= length)
        if step is not None:
            np.testing.assert_array_equal(batch.avail_actions[t, b], step["avail_actions"] != 0)
        before = episode[t - 1]["action"] if 0 < t <= length else np.full(2, -1)
        np.testing.assert_array_equal(batch.last_action[t, b], before)
    for t in range(n_steps - 1):
        acted = t < length
        assert bool(batch.mask[t, b]) == acted
        assert bool(batch.terminated[t, b]) == (acted and bool(episode[t]["terminated"]))
        want = episode[t]["action"] if acted else np.zeros(2)
        np.testing.assert_array_equal(batch.action[t, b], want)
        want = episode[t]["reward"] if acted else np.zeros(2)
        np.testing.assert_array_equal(batch.reward[t, b], want)


def assert_holds_the_newest(buffer: EpisodeBuffer, plain: PlainBuffer) -> None:
    """All that can be sampled are the newest episodes of the plain buffer, bit for bit."""
    n = buffer.n_episodes
    assert buffer.n_steps == sum(len(e) - 1 for e in plain.episodes[len(plain.episodes) - n :])
    if n == 0:
        return
    batch = buffer.sample(n, CLOCK)
    total = len(plain.episodes)
    assert sorted(batch.index.tolist()) == list(range(total - n, total))
    for b, episode in enumerate(batch.index.tolist()):
        assert_window_is_episode(batch, b, plain.episodes[episode], buffer.spec.frame_stack)
