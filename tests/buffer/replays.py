"""Replay buffers for tests, and the same buffer as plain Python lists."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from rltrain.buffer.replay import ReplayBuffer
from rltrain.common.seeding import generator
from rltrain.types import STEP_FIELDS, Batch, Clock, Steps
from tests.buffer.streams import SPEC, Stream, add

CLOCK = Clock()


def make(**given: Any) -> ReplayBuffer:
    values: dict[str, Any] = {
        "spec": SPEC,
        "n_envs": 3,
        "device": torch.device("cpu"),
        "rng": generator(7, 4),
        "n_step": 1,
        "hidden_dim": 0,
        "total_env_steps": 1000,
        "capacity": 300,
        "max_bytes": None,
        "precision": "float32",
        "sampler": "uniform",
        "alpha": 1.0,
        "beta": 1.0,
        "beta_end": 1.0,
        "beta_env_steps": 100,
        "priority_floor": 1e-6,
        "initial_priority": "max",
        "eta": 0.9,
        "sequence_length": 1,
        "burn_in": 0,
        "first_hidden": "zero",
        "agents": "lockstep",
    }
    return ReplayBuffer(**{**values, **given})


class PlainRing:
    """Steps of one environment in a list; nothing is removed at its front. States are keys."""

    def __init__(self, keeps: int, length: int, looks_back: int) -> None:
        self.keeps, self.length, self.looks_back = keeps, length, looks_back
        self.steps: list[dict[str, np.ndarray]] = []
        self.complete: list[bool] = []  # this step has had T successors
        self.begin = 0  # first step still kept
        self.open = 0  # first step of the open episode

    def lose(self) -> None:
        start = max(self.open, self.begin)
        del self.steps[start:], self.complete[start:]
        self.open = start

    def append(self, step: dict[str, np.ndarray]) -> None:
        self.steps.append(step)
        self.complete.append(False)
        if len(self.steps) > self.length:
            self.complete[len(self.steps) - 1 - self.length] = True
        if step["last"]:
            self.open = len(self.steps)

    def trim(self) -> None:
        self.begin = max(self.begin, len(self.steps) - self.keeps)

    def starts(self) -> list[int]:
        """Steps that a window may start from."""
        return [
            i
            for i in range(self.oldest, len(self.steps))
            if self.complete[i] and not self.steps[i]["last"]
        ]

    @property
    def oldest(self) -> int:
        return self.begin + self.looks_back if self.begin else 0

    def frames(self, number: int, n: int) -> np.ndarray:
        """The last n observations up to a step, the first of its episode repeated in front."""
        stack = [number]
        while len(stack) < n:
            at = stack[0]
            goes_back = at > 0 and not self.steps[at - 1]["last"]
            stack.insert(0, at - 1 if goes_back else at)
        return np.concatenate([self.steps[i]["obs"] for i in stack], 1)


class PlainBuffer:
    def __init__(self, buffer: ReplayBuffer) -> None:
        keeps = -(-buffer.capacity // buffer.n_envs)
        self.length, self.n_frames = buffer.length, buffer.spec.frame_stack
        self.burn_in = buffer.burn_in
        back = max(self.n_frames - 1, 1)
        self.rings = [PlainRing(keeps, buffer.length, back) for _ in range(buffer.n_envs)]

    def add(self, steps: Steps) -> None:
        for e, ring in enumerate(self.rings):
            if steps.lost[e]:
                ring.lose()
            for t in range(len(steps.last)):
                step = {name: getattr(steps, name)[t, e] for name in STEP_FIELDS}
                if steps.hidden is not None:
                    step["hidden"] = steps.hidden[t, e]
                ring.append(step)
            ring.trim()

    def starts(self) -> dict[bytes, tuple[int, int]]:
        """Environment and number of every step that may start a window, by its state."""
        return {
            ring.steps[i]["state"].tobytes(): (e, i)
            for e, ring in enumerate(self.rings)
            for i in ring.starts()
        }

    def start_of(self, batch: Batch, b: int) -> tuple[int, int]:
        """Environment and number of the first step of window b: ``burn_in`` steps before the first
        that is learned from, or as many as its episode has.
        """
        starts, (learned, *_) = self.starts(), batch.mask[:, b].nonzero()[:, 0].tolist()
        key = batch.state[learned, b].numpy().tobytes()
        assert key in starts, "a window begins where none may"
        e, first = starts[key]
        ring, warm = self.rings[e], 0
        while warm < self.burn_in and first - warm > ring.oldest:
            if ring.steps[first - warm - 1]["last"]:
                break
            warm += 1
        assert learned == warm
        return e, first - warm

    def check(self, batch: Batch, b: int) -> None:
        """Window b is what the lists say: real steps of one episode, then padding."""
        e, start = self.start_of(batch, b)
        ring, over = self.rings[e], False
        for t in range(self.length + 1):
            step = ring.steps[start + t] if not over else None
            obs = np.zeros(batch.obs.shape[2:])
            avail = np.zeros(batch.avail_actions.shape[2:], bool)
            avail[:, 0] = True
            before = np.full(batch.last_action.shape[2], -1)
            if step is not None:
                obs = ring.frames(start + t, self.n_frames)
                avail = step["avail_actions"] != 0
                previous = ring.steps[start + t - 1] if start + t > 0 else None
                if previous is not None and not previous["last"]:
                    before = previous["action"]
            assert np.array_equal(batch.obs[t, b], obs)
            assert np.array_equal(batch.avail_actions[t, b], avail)
            assert np.array_equal(batch.last_action[t, b], before)
            state = np.zeros(batch.state.shape[2]) if step is None else step["state"]
            assert np.array_equal(batch.state[t, b], state.astype(np.float32))
            over = over or step is None or bool(step["last"])
            assert bool(batch.last[t, b]) == over
            if t == self.length:
                break
            acted = step is not None and not over
            for name in ("action", "reward"):
                seen = getattr(batch, name)[t, b]
                want = step[name] if acted else np.zeros(len(seen))
                assert np.array_equal(seen, want)
            assert bool(batch.terminated[t, b]) == (acted and bool(step["terminated"]))


def filled(buffer: ReplayBuffer, stream: Stream, n_steps: int) -> PlainBuffer:
    plain, steps = PlainBuffer(buffer), stream.steps(n_steps)
    add(steps, buffer, plain)
    return plain


def with_hidden(steps: Steps) -> Steps:
    rng = np.random.default_rng(len(steps.last))
    shape = (*steps.action.shape, 6)
    return replace(steps, hidden=rng.random(shape, np.float32))


WINDOWS = [
    {"n_step": 1},
    {"n_step": 3},
    {"sequence_length": 5, "burn_in": 2, "n_step": 2},
    {"n_step": 2, "sampler": "proportional"},
    {"sequence_length": 6, "burn_in": 1, "sampler": "proportional"},
]
