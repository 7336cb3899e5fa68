"""Random operations on the store and on EpisodeBuffer against plain Python lists of steps."""

import numpy as np
import pytest
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.buffer.fields import TRANSITION, n_bytes, step_fields
from rltrain.buffer.store import BLOCK, Store
from rltrain.types import Clock, EnvSpec, Steps

SPEC = EnvSpec(n_agents=1, n_actions=5, obs_shape=(2,), state_dim=1)
CASES = [
    pytest.param(range(25), id="sample"),
    pytest.param(range(25, 2_050), id="all", marks=pytest.mark.slow),
]


def fields_of_keys(keys: np.ndarray) -> dict[str, np.ndarray]:
    """Every field of the steps named by ``keys`` [...]: the state is the key, all else follows."""
    number = keys[..., None]
    return {
        "obs": np.stack([number % 1009, number % 499], -1).astype(np.float32),
        "avail_actions": ((number % 31 + 1)[..., None] >> np.arange(SPEC.n_actions)) % 2 == 1,
        "state": number.astype(np.float32),
        "last": keys % 7 == 0,
        "action": number % 5,
        "reward": (number % 1013).astype(np.float32),
        "terminated": keys % 11 == 0,
    }


def store(n_envs: int, n_blocks: int) -> Store:
    device, fields = torch.device("cpu"), step_fields(SPEC, "float32")
    return Store(spec=SPEC, n_envs=n_envs, n_blocks=n_blocks, fields=fields, device=device)


class PlainStore:
    """The keys of every environment's steps, from the first ever stored on."""

    def __init__(self, n_envs: int) -> None:
        self.keys: list[list[int]] = [[] for _ in range(n_envs)]
        self.begin = [0] * n_envs

    def assert_equals(self, store: Store) -> None:
        blocks = 0
        for e, (keys, begin) in enumerate(zip(self.keys, self.begin, strict=True)):
            assert (store.begin[e], store.end[e]) == (begin, len(keys))
            rows = store.rows(e, np.arange(begin, len(keys)))
            fields = fields_of_keys(np.array(keys[begin:], np.int64))
            for name, expected in fields.items():
                if name in TRANSITION:  # a final step has none
                    expected[fields["last"]] = 0
                np.testing.assert_array_equal(store.read(name, rows), expected, name)
            blocks += -(-len(keys) // BLOCK) - begin // BLOCK
        assert store.n_blocks - store.free_blocks == blocks


class Operations:
    """One random case: a store, its plain counterpart, and what may happen to both."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n_envs = int(rng.integers(1, 5))
        n_blocks = int(rng.integers(4 * self.n_envs, 40 * self.n_envs))
        self.store = store(self.n_envs, n_blocks)
        self.plain = PlainStore(self.n_envs)
        self.keeps = rng.choice([0, 3, 30, 1_000], self.n_envs) * BLOCK  # about how much stays
        self.next_key = 0
        self.widened_after_release = False

    def new_keys(self, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        self.next_key += size
        return np.arange(self.next_key - size, self.next_key).reshape(shape)

    def length(self) -> int:
        return int(self.rng.choice([1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]))

    def append(self) -> None:
        n_steps, width = self.length(), self.store.table.shape[1]
        if self.store.blocks_to_append(n_steps) > self.store.free_blocks:
            return
        keys = self.new_keys(n_steps, self.n_envs)
        self.store.append(fields_of_keys(keys))
        for e in range(self.n_envs):
            self.plain.keys[e].extend(keys[:, e].tolist())
        if self.store.table.shape[1] > width and any(b >= BLOCK for b in self.plain.begin):
            self.widened_after_release = True

    def extend(self) -> None:
        e, n_steps = int(self.rng.integers(self.n_envs)), self.length()
        end = len(self.plain.keys[e])
        if -(-(end + n_steps) // BLOCK) - -(-end // BLOCK) > self.store.free_blocks:
            return
        keys = self.new_keys(n_steps)
        self.store.append(fields_of_keys(keys[:, None]), np.array([e]))
        self.plain.keys[e].extend(keys.tolist())

    def release(self) -> None:
        for e in np.flatnonzero(self.rng.random(self.n_envs) < 0.7).tolist():
            begin, end = self.plain.begin[e], len(self.plain.keys[e])
            until = max(begin, end - int(self.keeps[e]) - int(self.rng.integers(2 * BLOCK)))
            self.store.release(e, until)
            self.plain.begin[e] = until

    def rewind(self) -> None:
        e = int(self.rng.integers(self.n_envs))
        begin, end = self.plain.begin[e], len(self.plain.keys[e])
        number = max(begin, end - int(self.rng.integers(3 * BLOCK)))
        self.store.rewind(e, number)
        del self.plain.keys[e][number:]

    def restart(self) -> None:
        most = min(10 * BLOCK, self.next_key)
        begin = self.rng.integers(0, most + 1, self.n_envs)
        self.store.restart(begin)
        self.plain.begin = begin.tolist()
        self.plain.keys = [[0] * n for n in self.plain.begin]

    def widen(self) -> None:
        self.store._widen(int(self.rng.integers(1, 2 * self.store.table.shape[1] + 1)))


def test_fields_of_keys_have_the_shapes_of_a_store() -> None:
    shapes = store(2, 4).shapes
    for name, field in fields_of_keys(np.arange(6).reshape(3, 2)).items():
        assert field.shape == (3, 2, *shapes[name])


@pytest.mark.parametrize("seeds", CASES)
def test_a_store_keeps_every_step_under_random_operations(seeds: range) -> None:
    widened = 0
    for seed in seeds:
        case = Operations(seed)
        named = [case.append, case.extend, case.release, case.rewind, case.restart, case.widen]
        share = [0.55, 0.08, 0.23, 0.1, 0.01, 0.03]
        for step, k in enumerate(case.rng.choice(len(named), 60, p=share).tolist()):
            named[k]()
            if step % 15 == 14:
                try:
                    case.plain.assert_equals(case.store)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, after {named[k].__name__}") from error
        widened += case.widened_after_release
    assert widened > len(seeds) // 20, "too few cases widen the table after a release"


class Game:
    """Steps of E environments whose episodes get longer; an environment may be lost."""

    def __init__(self, rng: np.random.Generator, n_envs: int, growth: float) -> None:
        self.rng, self.growth, self.longest = rng, growth, 2.0
        self.next_key = 0
        self.open: list[list[int]] = [[] for _ in range(n_envs)]
        self.left = [self.new_length() for _ in range(n_envs)]  # transitions before the final step
        self.finished: list[list[int]] = []  # keys of each episode, by age

    def new_length(self) -> int:
        return int(self.rng.integers(0, int(self.longest) + 1))

    def play(self, n_steps: int, lost: np.ndarray) -> Steps:
        self.longest *= self.growth
        keys = self.next_key + np.arange(n_steps * len(self.open)).reshape(n_steps, -1)
        self.next_key += keys.size
        for e in np.flatnonzero(lost).tolist():
            self.open[e], self.left[e] = [], self.new_length()
        last = np.zeros(keys.shape, np.bool_)
        for t in range(n_steps):
            for e, key in enumerate(keys[t].tolist()):
                self.open[e].append(key)
                self.left[e] -= 1
                if self.left[e] < 0:
                    last[t, e] = True
                    if len(self.open[e]) > 1:  # an episode without a transition is not kept
                        self.finished.append(self.open[e])
                    self.open[e], self.left[e] = [], self.new_length()
        return Steps(**{**fields_of_keys(keys), "last": last}, lost=lost)


def assert_episodes_are_the_newest(buffer: EpisodeBuffer, finished: list[list[int]]) -> None:
    if buffer.n_episodes == 0:
        return
    batch = buffer.sample(buffer.n_episodes, Clock())
    assert sorted(batch.index.tolist()) == list(
        range(len(finished) - buffer.n_episodes, len(finished))
    )
    keys = np.full(batch.last.shape, -1)  # [T+1, B]
    for b, index in enumerate(batch.index.tolist()):
        keys[: len(finished[index]), b] = finished[index]
    steps, acted = keys >= 0, keys[1:] >= 0  # all steps, and those with a transition
    np.testing.assert_array_equal(batch.mask, acted)
    np.testing.assert_array_equal(batch.last[:-1], ~acted)
    expected = fields_of_keys(keys)
    for name in ("obs", "avail_actions", "state"):
        found = getattr(batch, name).numpy()
        np.testing.assert_array_equal(found[steps], expected[name][steps], name)
    for name in ("action", "reward", "terminated"):
        found = getattr(batch, name).numpy()
        np.testing.assert_array_equal(found[acted], expected[name][:-1][acted], name)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", CASES)
def test_an_episode_buffer_keeps_episodes_that_grow_while_old_ones_go(seeds: range) -> None:
    widened = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n_envs = int(rng.integers(1, 5))
        game = Game(rng, n_envs, growth=float(rng.uniform(1.0, 1.15)))
        max_bytes = (
            int(rng.integers(20, 60)) * n_envs * BLOCK * n_bytes(step_fields(SPEC, "float32"))
        )
        given = {"capacity": int(rng.integers(2, 60)), "max_bytes": max_bytes, "n_envs": n_envs}
        given |= {"device": torch.device("cpu"), "precision": "float32"}
        buffer = EpisodeBuffer(spec=SPEC, rng=rng, **given)
        crash = float(rng.choice([0.0, 0.05]))
        for _ in range(4):
            for _ in range(9):
                lost = rng.random(n_envs) < crash
                width, dropped = buffer.store.table.shape[1], buffer.full
                buffer.add(game.play(int(rng.choice([1, 8, 33, 50])), lost))
                widened += dropped and buffer.store.table.shape[1] > width
            try:
                assert_episodes_are_the_newest(buffer, game.finished)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
    assert widened > len(seeds) // 20, "too few cases widen the table after dropping episodes"
