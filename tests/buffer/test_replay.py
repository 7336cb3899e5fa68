"""ReplayBuffer against plain Python lists: windows, eligibility, priorities, state, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.fields import bytes_per_slot
from rltrain.buffer.replay import ReplayBuffer
from rltrain.common.seeding import generator
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Steps,
)
from tests.buffer.streams import SPEC, Stream, saved

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
        "storage": "float32",
        "sampler": "uniform",
        "alpha": 1.0,
        "beta": 1.0,
        "beta_end": 1.0,
        "beta_env_steps": 100,
        "priority_floor": 1e-6,
        "eta": 0.9,
        "sequence_length": 1,
        "burn_in": 0,
        "first_hidden": "zero",
        "agents": "lockstep",
    }
    return ReplayBuffer(**{**values, **given})


class PlainRing:
    """One copy's slots in a list that is never shortened from the front; states are their keys."""

    def __init__(self, keeps: int, length: int, looks_back: int) -> None:
        self.keeps, self.length, self.looks_back = keeps, length, looks_back
        self.slots: list[dict[str, np.ndarray]] = []
        self.chance: list[bool] = []  # T slots have once stood behind this one
        self.begin = 0  # first slot still kept
        self.open = 0  # first slot of the open episode

    def lose(self) -> None:
        start = max(self.open, self.begin)
        del self.slots[start:], self.chance[start:]
        self.open = start

    def append(self, slot: dict[str, np.ndarray]) -> None:
        self.slots.append(slot)
        self.chance.append(False)
        if len(self.slots) > self.length:
            self.chance[len(self.slots) - 1 - self.length] = True
        if slot["last"]:
            self.open = len(self.slots)

    def trim(self) -> None:
        self.begin = max(self.begin, len(self.slots) - self.keeps)

    def starts(self) -> list[int]:
        """Slots that a window may teach from."""
        return [
            i
            for i in range(self.eldest, len(self.slots))
            if self.chance[i] and not self.slots[i]["last"]
        ]

    @property
    def eldest(self) -> int:
        return self.begin + self.looks_back if self.begin else 0

    def frames(self, number: int, n: int) -> np.ndarray:
        """The last n observations up to a slot, the first of its episode repeated in front."""
        stack = [number]
        while len(stack) < n:
            at = stack[0]
            goes_back = at > 0 and not self.slots[at - 1]["last"]
            stack.insert(0, at - 1 if goes_back else at)
        return np.concatenate([self.slots[i]["obs"] for i in stack], 1)


class PlainReplay:
    def __init__(self, replay: ReplayBuffer) -> None:
        keeps = -(-replay.capacity // replay.n_envs)
        self.length, self.n_frames = replay.length, replay.spec.frame_stack
        self.burn_in = replay.burn_in
        back = max(self.n_frames - 1, 1)
        self.rings = [PlainRing(keeps, replay.length, back) for _ in range(replay.n_envs)]

    def add(self, steps: Steps) -> None:
        names = ("obs", "avail_actions", "state", "last", "action", "reward", "terminated")
        for e, ring in enumerate(self.rings):
            if steps.lost[e]:
                ring.lose()
            for t in range(len(steps.last)):
                slot = {name: getattr(steps, name)[t, e] for name in names}
                if steps.hidden is not None:
                    slot["hidden"] = steps.hidden[t, e]
                ring.append(slot)
            ring.trim()

    def starts(self) -> dict[bytes, tuple[int, int]]:
        """Copy and number of every slot that may start a window, by its state."""
        return {
            ring.slots[i]["state"].tobytes(): (e, i)
            for e, ring in enumerate(self.rings)
            for i in ring.starts()
        }

    def start_of(self, batch: Batch, b: int) -> tuple[int, int]:
        """Copy and number of the slot that window b begins with: ``burn_in`` slots before the first
        that it teaches, or what its episode has of them.
        """
        starts, (taught, *_) = self.starts(), batch.mask[:, b].nonzero()[:, 0].tolist()
        key = batch.state[taught, b].numpy().tobytes()
        assert key in starts, "a window teaches from where none may"
        e, first = starts[key]
        ring, warm = self.rings[e], 0
        while warm < self.burn_in and first - warm > ring.eldest:
            if ring.slots[first - warm - 1]["last"]:
                break
            warm += 1
        assert taught == warm
        return e, first - warm

    def check(self, batch: Batch, b: int) -> None:
        """Window b is what the lists say: real slots of one episode, then padding."""
        e, start = self.start_of(batch, b)
        ring, over = self.rings[e], False
        for t in range(self.length + 1):
            slot = ring.slots[start + t] if not over else None
            obs = np.zeros(batch.obs.shape[2:])
            avail = np.zeros(batch.avail_actions.shape[2:], bool)
            avail[:, 0] = True
            before = np.full(batch.last_action.shape[2], -1)
            if slot is not None:
                obs = ring.frames(start + t, self.n_frames)
                avail = slot["avail_actions"] != 0
                previous = ring.slots[start + t - 1] if start + t > 0 else None
                if previous is not None and not previous["last"]:
                    before = previous["action"]
            assert np.array_equal(batch.obs[t, b], obs)
            assert np.array_equal(batch.avail_actions[t, b], avail)
            assert np.array_equal(batch.last_action[t, b], before)
            state = np.zeros(batch.state.shape[2]) if slot is None else slot["state"]
            assert np.array_equal(batch.state[t, b], state.astype(np.float32))
            over = over or slot is None or bool(slot["last"])
            assert bool(batch.last[t, b]) == over
            if t == self.length:
                break
            acted = slot is not None and not over
            for name in ("action", "reward"):
                seen = getattr(batch, name)[t, b]
                want = slot[name] if acted else np.zeros(len(seen))
                assert np.array_equal(seen, want)
            assert bool(batch.terminated[t, b]) == (acted and bool(slot["terminated"]))


def filled(replay: ReplayBuffer, stream: Stream, n_slots: int) -> PlainReplay:
    plain, steps = PlainReplay(replay), stream.steps(n_slots)
    replay.add(steps)
    plain.add(steps)
    return plain


WINDOWS = [
    {"n_step": 1},
    {"n_step": 3},
    {"sequence_length": 5, "burn_in": 2, "n_step": 2},
    {"n_step": 2, "sampler": "proportional"},
    {"sequence_length": 6, "burn_in": 1, "sampler": "proportional"},
]


@pytest.mark.parametrize("capacity", [40, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("given", WINDOWS, ids=lambda g: "-".join(map(str, g.values())))
def test_windows_of_random_streams_are_those_of_plain_lists(
    given: dict[str, Any], capacity: int
) -> None:
    rng = np.random.default_rng(capacity)
    replay, stream = make(capacity=capacity, **given), Stream(3)
    plain = PlainReplay(replay)
    checked = 0
    for _ in range(40):
        steps = stream.steps(int(rng.integers(1, 50)), crash=0.1)
        replay.add(steps)
        plain.add(steps)
        if not replay.ready(1):
            continue
        batch = replay.sample(8, CLOCK)
        for b in range(8):
            plain.check(batch, b)
        checked += 1
    assert checked > 25


@pytest.mark.parametrize("given", WINDOWS, ids=lambda g: "-".join(map(str, g.values())))
def test_every_start_with_stored_successors_is_drawn_alike_and_no_other(
    given: dict[str, Any],
) -> None:
    replay, stream = make(capacity=60, **given), Stream(5)
    plain = filled(replay, stream, 77)
    batch = replay.sample(8_000, CLOCK)
    taught = batch.mask.int().argmax(0)  # the first one of each window
    keys = [batch.state[t, b].numpy().tobytes() for b, t in enumerate(taught.tolist())]
    starts = plain.starts()
    assert set(keys) == set(starts)
    count = np.array([keys.count(key) for key in starts])
    expected = 8_000 / len(starts)
    degrees = len(starts) - 1
    # four standard deviations of the chi-square distribution
    limit = degrees + 4 * (2 * degrees) ** 0.5
    assert ((count - expected) ** 2 / expected).sum() < limit


def test_a_window_waits_for_all_its_successors() -> None:
    replay, stream = make(n_envs=1, n_step=3), Stream(0, n_envs=1)
    stream.left[:] = 12
    replay.add(stream.steps(4))
    assert not replay.ready(1)  # slot 0 may start, and a single slot might have been a final one
    replay.add(stream.steps(1))
    assert replay.ready(1)
    assert replay._startable.tolist() == [2]


def test_a_terminal_reward_is_reached_once_its_successors_are_stored() -> None:
    replay, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    steps = stream.steps(5)  # three transitions, the final slot, one slot of the next episode
    replay.add(
        replace(steps, terminated=steps.terminated | np.array([0, 0, 1, 0, 0], bool)[:, None])
    )
    batch = replay.sample(50, CLOCK)
    assert bool(batch.terminated.any())
    ends = batch.terminated[0]
    np.testing.assert_array_equal(batch.reward[0, ends][0], steps.reward[2, 0])
    assert bool(batch.last[1, ends].all())


def test_a_truncated_episode_ends_without_termination_and_shows_its_last_observation() -> None:
    replay, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    steps = stream.steps(5)
    replay.add(replace(steps, terminated=np.zeros_like(steps.terminated)))
    batch = replay.sample(50, CLOCK)
    ends = batch.last[1]
    assert bool(ends.any())
    assert not bool(batch.terminated.any())
    np.testing.assert_array_equal(batch.obs[1, ends][0], steps.obs[3, 0])


def test_only_slots_that_see_n_steps_are_taught() -> None:
    replay, stream = make(n_step=3, sequence_length=2, burn_in=2), Stream(0, longest=100)
    stream.left[:] = 90
    filled(replay, stream, 30)
    batch = replay.sample(64, CLOCK)
    warm = [[False] * n + [True] * 2 + [False] * (4 - n) for n in range(3)]
    assert {tuple(row) for row in batch.mask.T.tolist()} <= set(map(tuple, warm))
    assert batch.mask.T.eq(torch.tensor(warm[2])).all(1).float().mean() > 0.5
    assert (batch.mask_end, batch.burn_in, batch.eta) == (4, 2, 0.9)


def test_every_transition_of_short_episodes_is_taught_whatever_the_burn_in() -> None:
    """Defect: windows that began with the burn-in taught nothing of episodes that short."""
    replay, stream = make(sequence_length=4, burn_in=8), Stream(0, longest=6)
    plain = filled(replay, stream, 90)
    batch = replay.sample(2_000, CLOCK)
    assert bool(batch.mask.any(0).all())
    taught = {s.tobytes() for s in batch.state[:-1][batch.mask].numpy()}
    assert taught >= set(plain.starts())


def test_slots_at_and_behind_the_end_are_not_taught() -> None:
    replay, stream = make(sequence_length=5, burn_in=1), Stream(0)
    filled(replay, stream, 90)
    batch = replay.sample(64, CLOCK)
    over = batch.last.cumsum(0)[:-1] > 0
    assert not bool((batch.mask & over).any())
    taught = batch.mask.sum(0)
    reaches_an_end = over.any(0)
    assert bool((taught[~reaches_an_end] == 5).all())
    assert bool(reaches_an_end.any())


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_stacked_frames_are_those_of_plain_lists(sampler: str) -> None:
    spec = replace(SPEC, frame_stack=4)
    replay, stream = make(spec=spec, capacity=90, sampler=sampler, n_step=2), Stream(1, spec=spec)
    plain = PlainReplay(replay)
    for _ in range(12):
        steps = stream.steps(13, crash=0.05)
        replay.add(steps)
        plain.add(steps)
        batch = replay.sample(30, CLOCK)
        assert batch.obs.shape[2:] == (2, 16)
        for b in range(30):
            plain.check(batch, b)


def test_stacked_images_grow_along_their_channels() -> None:
    spec = EnvSpec(
        n_agents=1, n_actions=3, obs_shape=(2, 5, 5), obs_dtype="uint8", frame_stack=3, state_dim=1
    )
    replay, stream = make(spec=spec, n_envs=1), Stream(2, spec=spec, n_envs=1)
    plain = filled(replay, stream, 60)
    batch = replay.sample(10, CLOCK)
    assert batch.obs.shape == (2, 10, 1, 6, 5, 5)
    for b in range(10):
        plain.check(batch, b)


def test_bytes_are_stored_as_bytes_and_frames_once() -> None:
    spec = EnvSpec(n_agents=1, n_actions=3, obs_shape=(84, 84), obs_dtype="uint8", frame_stack=4)
    single, stacked = (make(spec=s, n_envs=1) for s in (replace(spec, frame_stack=1), spec))
    assert stacked.plan().bytes_per_step == single.plan().bytes_per_step < 84 * 84 + 20


def with_hidden(steps: Steps) -> Steps:
    rng = np.random.default_rng(len(steps.last))
    shape = (*steps.action.shape, 6)
    return replace(steps, hidden=rng.random(shape, np.float32))


def test_a_stored_recurrent_state_is_that_of_the_first_slot() -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sequence_length": 4}
    replay, stream = make(**given), Stream(0)
    assert replay.keeps_hidden
    plain, steps = PlainReplay(replay), with_hidden(stream.steps(60))
    replay.add(steps)
    plain.add(steps)
    batch = replay.sample(10, CLOCK)
    assert batch.hidden is not None
    for b in range(10):
        e, start = plain.start_of(batch, b)
        np.testing.assert_array_equal(batch.hidden[b], plain.rings[e].slots[start]["hidden"])


def test_a_zero_recurrent_state_is_not_stored() -> None:
    replay = make(hidden_dim=6)
    assert not replay.keeps_hidden
    filled(replay, Stream(0), 60)
    assert replay.sample(2, CLOCK).hidden is None


def test_the_shortest_legal_ring_gets_ready() -> None:
    replay, stream = make(n_envs=1, capacity=4), Stream(0, n_envs=1)
    for _ in range(20):
        replay.add(stream.steps(1))
    assert replay.ready(1)
    assert replay.n_steps == 4


def test_memory_is_what_was_planned() -> None:
    replay, stream = make(capacity=500), Stream(0)
    for _ in range(40):
        replay.add(stream.steps(50))
    assert replay.n_steps == 3 * 167
    assert replay.bytes_in_use <= replay.plan().worst_case_bytes


# teams


def one_row(batch: Batch, plain: PlainReplay, b: int) -> tuple[int, dict[str, np.ndarray]]:
    e, start = plain.start_of(batch, b)
    assert batch.agent is not None
    return int(batch.agent[b, 0]), plain.rings[e].slots[start]


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_independent_windows_show_one_agent_and_its_own_reward(sampler: str) -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sampler": sampler}
    replay, stream = make(agents="independent", **given), Stream(0)
    plain, steps = PlainReplay(replay), with_hidden(stream.steps(60))
    replay.add(steps)
    plain.add(steps)
    batch = replay.sample(40, CLOCK)
    assert batch.hidden is not None
    seen = set()
    for b in range(40):
        agent, slot = one_row(batch, plain, b)
        seen.add(agent)
        np.testing.assert_array_equal(batch.obs[0, b], slot["obs"][[agent]])
        np.testing.assert_array_equal(batch.avail_actions[0, b], slot["avail_actions"][[agent]])
        assert batch.action[0, b].tolist() == [slot["action"][agent]]
        assert batch.reward[0, b].tolist() == [slot["reward"][agent]]
        np.testing.assert_array_equal(batch.hidden[b], slot["hidden"][[agent]])
    assert seen == {0, 1}
    assert batch.last_action.shape == (2, 40, 1)


def test_independent_windows_of_a_team_with_one_reward_all_carry_it() -> None:
    spec = replace(SPEC, n_rewards=1)
    replay, stream = make(spec=spec, agents="independent"), Stream(0, spec=spec)
    plain = filled(replay, stream, 60)
    batch = replay.sample(10, CLOCK)
    for b in range(10):
        _, slot = one_row(batch, plain, b)
        assert batch.reward[0, b].tolist() == slot["reward"].tolist()


def test_agents_of_one_start_have_priorities_of_their_own() -> None:
    replay = make(n_envs=1, capacity=4, agents="independent", sampler="proportional")
    stream = Stream(0, n_envs=1, longest=50)
    stream.left[:] = 40
    filled(replay, stream, 4)  # slots 0, 1 and 2 may start
    batch = replay.sample(200, CLOCK)
    mine = batch.index[batch.agent[:, 0] == 0].unique()
    replay.update_priority(mine, torch.full((len(mine),), 1e-9))
    again = replay.sample(200, CLOCK)
    assert again.agent is not None
    assert float((again.agent == 1).float().mean()) > 0.99


# priorities


def prioritised(**given: Any) -> tuple[ReplayBuffer, PlainReplay, Stream]:
    """Copy 0 alone, with the starts 0 … 9 of one long episode."""
    replay = make(**{"n_envs": 1, "capacity": 40, "sampler": "proportional", **given})
    stream = Stream(0, n_envs=1, longest=200)
    stream.left[:] = 200
    return replay, filled(replay, stream, 11), stream


def items(replay: ReplayBuffer) -> torch.Tensor:
    """The items that can be drawn."""
    assert replay.priorities is not None
    return torch.from_numpy(
        np.flatnonzero(replay.priorities.tree[np.arange(replay.priorities.tree.n)])
    )


def test_new_items_enter_at_the_largest_priority_so_far() -> None:
    replay, _, stream = prioritised()
    assert replay.priorities is not None
    replay.update_priority(torch.tensor([3]), torch.tensor([7.0]))
    replay.update_priority(torch.tensor([3]), torch.tensor([0.5]))
    replay.add(stream.steps(1))
    assert replay.priorities.tree[np.array([3, 10])].tolist() == pytest.approx([0.5, 7], rel=1e-5)


def test_priorities_are_raised_to_alpha_above_a_floor() -> None:
    replay, _, _ = prioritised(alpha=0.5, priority_floor=0.25)
    assert replay.priorities is not None
    replay.update_priority(torch.tensor([0, 1]), torch.tensor([0.0, 3.75]))
    assert replay.priorities.tree[np.array([0, 1])].tolist() == [0.5, 2]


def test_draws_are_stratified() -> None:
    replay, _, _ = prioritised()
    for _ in range(5):  # ten equal items, ten shares: each exactly once
        assert sorted(replay.sample(10, CLOCK).index.tolist()) == list(range(10))


def test_draws_are_in_proportion_to_priorities() -> None:
    replay, _, _ = prioritised(priority_floor=1e-12)
    replay.update_priority(torch.arange(10), torch.arange(1.0, 11))
    count = np.bincount(replay.sample(5_500, CLOCK).index, minlength=10)
    assert np.abs(count - 100 * np.arange(1, 11)).max() <= 1  # stratified: exact but for the edges


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_undo_the_sampling_and_are_at_most_one(beta: float) -> None:
    replay, _, _ = prioritised(beta=beta, beta_end=beta, priority_floor=1e-12)
    replay.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = replay.sample(6, CLOCK)
    probability = (batch.index + 1) / 55
    weight = (10 * probability) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())
    assert batch.weight.dtype == torch.float32


@pytest.mark.parametrize(("env_steps", "beta"), [(0, 0.4), (50, 0.7), (100, 1.0), (900, 1.0)])
def test_beta_follows_the_clock(env_steps: int, beta: float) -> None:
    replay, _, _ = prioritised(beta=0.4, beta_end=1.0, beta_env_steps=100, priority_floor=1e-12)
    replay.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = replay.sample(6, Clock(env_steps=env_steps))
    weight = (batch.index + 1.0) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())


def test_beta_rises_over_the_whole_run_if_not_told_otherwise() -> None:
    replay, _, _ = prioritised(
        beta=0.4, beta_end=1.0, beta_env_steps=None, total_env_steps=100, priority_floor=1e-12
    )
    replay.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = replay.sample(6, Clock(env_steps=50))
    weight = (batch.index + 1.0) ** -0.7
    torch.testing.assert_close(batch.weight, weight / weight.max())


def test_uniform_windows_weigh_one() -> None:
    replay = make()
    filled(replay, Stream(0), 60)
    assert replay.sample(5, CLOCK).weight.tolist() == [1] * 5


def test_an_overwritten_item_takes_no_priority() -> None:
    replay, _, stream = prioritised()
    assert replay.priorities is not None
    replay.add(
        stream.steps(31)
    )  # 42 slots of 40: slots 0 and 1 are gone, 2 has lost what it did before
    before = replay.priorities.tree.total
    replay.update_priority(torch.arange(3), torch.full((3,), 100.0))
    assert replay.priorities.tree.total == before
    assert replay.priorities.largest == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_priority_that_is_no_number_is_ignored(bad: float) -> None:
    replay, _, _ = prioritised()
    assert replay.priorities is not None
    replay.update_priority(torch.tensor([0, 1]), torch.tensor([bad, 3.0]))
    assert replay.priorities.tree[np.array([0, 1])].tolist() == pytest.approx([1, 3], rel=1e-5)
    assert replay.priorities.largest == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_exactly_the_legal_starts_have_a_priority(chunk: int) -> None:
    given = {"sampler": "proportional", "sequence_length": 15, "capacity": 60}
    replay, stream = make(**given), Stream(1)
    plain = PlainReplay(replay)
    for _ in range(40):
        steps = stream.steps(chunk, crash=0.1)
        replay.add(steps)
        plain.add(steps)
        assert len(items(replay)) == len(plain.starts())


# state


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
@pytest.mark.parametrize("n_slots", [0, 5, 20, 70, 400])
def test_a_loaded_replay_goes_on_exactly(sampler: str, n_slots: int) -> None:
    given = {"sampler": sampler, "capacity": 100, "n_step": 2}
    one, other, stream = make(**given), make(**given, rng=generator(1)), Stream(n_slots)
    for _ in range(n_slots // 5):
        one.add(stream.steps(5))
        if one.ready(4):
            one.update_priority(one.sample(4, CLOCK).index, torch.rand(4) * 3)
    other.add(Stream(99).steps(33))  # must leave no trace
    other.load_state_dict(saved(one))
    for _ in range(30):
        steps = stream.steps(7, crash=0.1)
        one.add(steps)
        other.add(steps)
        a, b = one.sample(5, CLOCK), other.sample(5, CLOCK)
        for name in ("obs", "last_action", "action", "reward", "mask", "weight", "index"):
            assert torch.equal(getattr(a, name), getattr(b, name))
        for replay, batch in ((one, a), (other, b)):
            replay.update_priority(batch.index, batch.reward[0, :, 0])
    assert one.n_steps == other.n_steps


def test_stored_recurrent_states_are_loaded() -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored"}
    one, other = make(**given), make(**given)
    one.add(with_hidden(Stream(0).steps(60)))
    other.load_state_dict(saved(one))
    a, b = one.sample(5, CLOCK).hidden, other.sample(5, CLOCK).hidden
    assert a is not None
    assert b is not None
    assert torch.equal(a, b)


REFUSED = [
    (
        {"n_envs": 2, "capacity": 200},
        r"3 environment copies, this run has 2: set hardware\.n_envs=3",
    ),
    ({"capacity": 400}, r"keeps 300 steps, this one 402: use the buffer\.capacity"),
    ({"n_step": 3}, r"windows of 1 transitions, this one 3: use the algo\.loss\.n_step"),
    ({"sampler": "proportional"}, r"use the buffer\.sampler and buffer\.agents"),
    ({"storage": "float16"}, r"'obs' of a step should be float16.*float32"),
    ({"spec": replace(SPEC, obs_shape=(5,))}, r"'obs' of a step should be float32 \(2, 5\)"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_a_state_that_does_not_fit_is_refused(given: dict[str, Any], said: str) -> None:
    one = make()
    filled(one, Stream(0), 60)
    with pytest.raises(ValueError, match=said):
        make(**given).load_state_dict(saved(one))


# refusals


def test_more_than_memory_is_refused_with_a_capacity_that_fits() -> None:
    max_bytes = 1_000_000
    with pytest.raises(ValueError, match=r"needs 7\.00 GB for buffer\.capacity=100000000") as e:
        make(capacity=100_000_000, max_bytes=max_bytes)
    assert f"({bytes_per_slot(SPEC, 'float32')} bytes each), but may use 0.00 GB" in str(e.value)
    fits = int(str(e.value).partition("set buffer.capacity=")[2].partition(" ")[0])
    assert make(capacity=fits, max_bytes=max_bytes).bytes_in_use == 0
    assert fits * bytes_per_slot(SPEC, "float32") > 0.9 * max_bytes


def test_the_bytes_it_asks_for_are_enough() -> None:
    with pytest.raises(ValueError, match=r": set buffer\.max_bytes=\d+ or more\.$") as e:
        make(capacity=1000, max_bytes=1000)
    enough = int(str(e.value).partition("set buffer.max_bytes=")[2].partition(" ")[0])
    make(capacity=1000, max_bytes=enough)


def test_the_free_memory_is_the_limit_where_none_is_set() -> None:
    with pytest.raises(ValueError, match=r"needs .* GB for buffer\.capacity"):
        make(capacity=10**11)


def test_a_ring_too_short_for_a_window_is_refused_with_one_that_is_not() -> None:
    given = {"sequence_length": 30, "burn_in": 10}
    with pytest.raises(ValueError, match=r"one window of 40 transitions .*capacity=129 or more"):
        make(capacity=100, **given)
    replay, stream = make(capacity=129, **given), Stream(0)
    for _ in range(3):
        replay.add(stream.steps(60))
    assert replay.ready(1)


def test_independent_agents_need_a_reward_each_or_one() -> None:
    with pytest.raises(ValueError, match=r"agents=independent needs one reward, or one per agent"):
        make(spec=replace(SPEC, n_rewards=3), agents="independent")
