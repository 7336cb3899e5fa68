"""ReplayBuffer against plain Python lists: windows, eligibility, priorities, state, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.fields import bytes_per_step
from rltrain.buffer.replay import ReplayBuffer
from rltrain.common.seeding import generator
from rltrain.types import Batch, Clock, EnvSpec, Steps
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
        """Steps that a window may teach from."""
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
        names = ("obs", "avail_actions", "state", "last", "action", "reward", "terminated")
        for e, ring in enumerate(self.rings):
            if steps.lost[e]:
                ring.lose()
            for t in range(len(steps.last)):
                step = {name: getattr(steps, name)[t, e] for name in names}
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
        assert key in starts, "a window teaches from where none may"
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
    buffer.add(steps)
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
    buffer, stream = make(capacity=capacity, **given), Stream(3)
    plain = PlainBuffer(buffer)
    checked = 0
    for _ in range(40):
        steps = stream.steps(int(rng.integers(1, 50)), crash=0.1)
        buffer.add(steps)
        plain.add(steps)
        if not buffer.ready(1):
            continue
        batch = buffer.sample(8, CLOCK)
        for b in range(8):
            plain.check(batch, b)
        checked += 1
    assert checked > 25


@pytest.mark.parametrize("given", WINDOWS, ids=lambda g: "-".join(map(str, g.values())))
def test_every_start_with_stored_successors_is_drawn_alike_and_no_other(
    given: dict[str, Any],
) -> None:
    buffer, stream = make(capacity=60, **given), Stream(5)
    plain = filled(buffer, stream, 77)
    batch = buffer.sample(8_000, CLOCK)
    learned = batch.mask.int().argmax(0)  # the first one of each window
    keys = [batch.state[t, b].numpy().tobytes() for b, t in enumerate(learned.tolist())]
    starts = plain.starts()
    assert set(keys) == set(starts)
    count = np.array([keys.count(key) for key in starts])
    expected = 8_000 / len(starts)
    degrees = len(starts) - 1
    # four standard deviations of the chi-square distribution
    limit = degrees + 4 * (2 * degrees) ** 0.5
    assert ((count - expected) ** 2 / expected).sum() < limit


def test_a_window_waits_for_all_its_successors() -> None:
    buffer, stream = make(n_envs=1, n_step=3), Stream(0, n_envs=1)
    stream.left[:] = 12
    buffer.add(stream.steps(4))
    assert not buffer.ready(1)  # step 0 may start, and a single step might have been a final one
    buffer.add(stream.steps(1))
    assert buffer.ready(1)
    assert buffer.starts.stop.tolist() == [2]


def test_a_terminal_reward_is_reached_once_its_successors_are_stored() -> None:
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    steps = stream.steps(5)  # three transitions, the final step, one step of the next episode
    buffer.add(
        replace(steps, terminated=steps.terminated | np.array([0, 0, 1, 0, 0], bool)[:, None])
    )
    batch = buffer.sample(50, CLOCK)
    assert bool(batch.terminated.any())
    ends = batch.terminated[0]
    np.testing.assert_array_equal(batch.reward[0, ends][0], steps.reward[2, 0])
    assert bool(batch.last[1, ends].all())


def test_a_truncated_episode_ends_without_termination_and_shows_its_last_observation() -> None:
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    steps = stream.steps(5)
    buffer.add(replace(steps, terminated=np.zeros_like(steps.terminated)))
    batch = buffer.sample(50, CLOCK)
    ends = batch.last[1]
    assert bool(ends.any())
    assert not bool(batch.terminated.any())
    np.testing.assert_array_equal(batch.obs[1, ends][0], steps.obs[3, 0])


def test_only_steps_that_see_n_steps_are_learned_from() -> None:
    buffer, stream = make(n_step=3, sequence_length=2, burn_in=2), Stream(0, longest=100)
    stream.left[:] = 90
    filled(buffer, stream, 30)
    batch = buffer.sample(64, CLOCK)
    warm = [[False] * n + [True] * 2 + [False] * (4 - n) for n in range(3)]
    assert {tuple(row) for row in batch.mask.T.tolist()} <= set(map(tuple, warm))
    assert batch.mask.T.eq(torch.tensor(warm[2])).all(1).float().mean() > 0.5
    assert (batch.mask_end, batch.burn_in, batch.eta) == (4, 2, 0.9)


def test_every_transition_of_short_episodes_is_learned_from_whatever_the_burn_in() -> None:
    """Defect: windows that began with the burn-in learned nothing of episodes that short."""
    buffer, stream = make(sequence_length=4, burn_in=8), Stream(0, longest=6)
    plain = filled(buffer, stream, 90)
    batch = buffer.sample(2_000, CLOCK)
    assert bool(batch.mask.any(0).all())
    learned = {s.tobytes() for s in batch.state[:-1][batch.mask].numpy()}
    assert learned >= set(plain.starts())


def test_steps_at_and_behind_the_end_are_not_learned_from() -> None:
    buffer, stream = make(sequence_length=5, burn_in=1), Stream(0)
    filled(buffer, stream, 90)
    batch = buffer.sample(64, CLOCK)
    over = batch.last.cumsum(0)[:-1] > 0
    assert not bool((batch.mask & over).any())
    learned = batch.mask.sum(0)
    reaches_an_end = over.any(0)
    assert bool((learned[~reaches_an_end] == 5).all())
    assert bool(reaches_an_end.any())


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_stacked_frames_are_those_of_plain_lists(sampler: str) -> None:
    spec = replace(SPEC, frame_stack=4)
    buffer, stream = make(spec=spec, capacity=90, sampler=sampler, n_step=2), Stream(1, spec=spec)
    plain = PlainBuffer(buffer)
    for _ in range(12):
        steps = stream.steps(13, crash=0.05)
        buffer.add(steps)
        plain.add(steps)
        batch = buffer.sample(30, CLOCK)
        assert batch.obs.shape[2:] == (2, 16)
        for b in range(30):
            plain.check(batch, b)


def test_stacked_images_grow_along_their_channels() -> None:
    spec = EnvSpec(
        n_agents=1, n_actions=3, obs_shape=(2, 5, 5), obs_dtype="uint8", frame_stack=3, state_dim=1
    )
    buffer, stream = make(spec=spec, n_envs=1), Stream(2, spec=spec, n_envs=1)
    plain = filled(buffer, stream, 60)
    batch = buffer.sample(10, CLOCK)
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


def test_a_stored_recurrent_state_is_that_of_the_first_step() -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sequence_length": 4}
    buffer, stream = make(**given), Stream(0)
    assert buffer.keeps_hidden
    plain, steps = PlainBuffer(buffer), with_hidden(stream.steps(60))
    buffer.add(steps)
    plain.add(steps)
    batch = buffer.sample(10, CLOCK)
    assert batch.hidden is not None
    for b in range(10):
        e, start = plain.start_of(batch, b)
        np.testing.assert_array_equal(batch.hidden[b], plain.rings[e].steps[start]["hidden"])


def test_a_zero_recurrent_state_is_not_stored() -> None:
    buffer = make(hidden_dim=6)
    assert not buffer.keeps_hidden
    filled(buffer, Stream(0), 60)
    assert buffer.sample(2, CLOCK).hidden is None


def test_the_shortest_legal_ring_gets_ready() -> None:
    buffer, stream = make(n_envs=1, capacity=4), Stream(0, n_envs=1)
    for _ in range(20):
        buffer.add(stream.steps(1))
    assert buffer.ready(1)
    assert buffer.n_steps == 4


def test_memory_is_what_was_planned() -> None:
    buffer, stream = make(capacity=500), Stream(0)
    for _ in range(40):
        buffer.add(stream.steps(50))
    assert buffer.n_steps == 3 * 167
    assert buffer.store.bytes_in_use <= buffer.plan().worst_case_bytes


# teams


def one_row(batch: Batch, plain: PlainBuffer, b: int) -> tuple[int, dict[str, np.ndarray]]:
    e, start = plain.start_of(batch, b)
    assert batch.agent is not None
    return int(batch.agent[b, 0]), plain.rings[e].steps[start]


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_independent_windows_show_one_agent_and_its_own_reward(sampler: str) -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sampler": sampler}
    buffer, stream = make(agents="independent", **given), Stream(0)
    plain, steps = PlainBuffer(buffer), with_hidden(stream.steps(60))
    buffer.add(steps)
    plain.add(steps)
    batch = buffer.sample(40, CLOCK)
    assert batch.hidden is not None
    seen = set()
    for b in range(40):
        agent, step = one_row(batch, plain, b)
        seen.add(agent)
        np.testing.assert_array_equal(batch.obs[0, b], step["obs"][[agent]])
        np.testing.assert_array_equal(batch.avail_actions[0, b], step["avail_actions"][[agent]])
        assert batch.action[0, b].tolist() == [step["action"][agent]]
        assert batch.reward[0, b].tolist() == [step["reward"][agent]]
        np.testing.assert_array_equal(batch.hidden[b], step["hidden"][[agent]])
    assert seen == {0, 1}
    assert batch.last_action.shape == (2, 40, 1)


def test_independent_windows_of_a_team_with_one_reward_all_carry_it() -> None:
    spec = replace(SPEC, n_rewards=1)
    buffer, stream = make(spec=spec, agents="independent"), Stream(0, spec=spec)
    plain = filled(buffer, stream, 60)
    batch = buffer.sample(10, CLOCK)
    for b in range(10):
        _, step = one_row(batch, plain, b)
        assert batch.reward[0, b].tolist() == step["reward"].tolist()


def test_agents_of_one_start_have_priorities_of_their_own() -> None:
    buffer = make(n_envs=1, capacity=4, agents="independent", sampler="proportional")
    stream = Stream(0, n_envs=1, longest=50)
    stream.left[:] = 40
    filled(buffer, stream, 4)  # steps 0, 1 and 2 may start
    batch = buffer.sample(200, CLOCK)
    mine = batch.index[batch.agent[:, 0] == 0].unique()
    buffer.update_priority(mine, torch.full((len(mine),), 1e-9))
    again = buffer.sample(200, CLOCK)
    assert again.agent is not None
    assert float((again.agent == 1).float().mean()) > 0.99


# priorities


def prioritized(**given: Any) -> tuple[ReplayBuffer, PlainBuffer, Stream]:
    """Environment 0 alone, with the starts 0 … 9 of one long episode."""
    buffer = make(**{"n_envs": 1, "capacity": 40, "sampler": "proportional", **given})
    stream = Stream(0, n_envs=1, longest=200)
    stream.left[:] = 200
    return buffer, filled(buffer, stream, 11), stream


def items(buffer: ReplayBuffer) -> torch.Tensor:
    """The items that can be drawn."""
    assert buffer.starts.priorities is not None
    return torch.from_numpy(
        np.flatnonzero(buffer.starts.priorities.tree[np.arange(buffer.starts.priorities.tree.n)])
    )


def test_new_items_enter_at_the_largest_priority_so_far() -> None:
    buffer, _, stream = prioritized()
    assert buffer.starts.priorities is not None
    buffer.update_priority(torch.tensor([3]), torch.tensor([7.0]))
    buffer.update_priority(torch.tensor([3]), torch.tensor([0.5]))
    buffer.add(stream.steps(1))
    assert buffer.starts.priorities.tree[np.array([3, 10])].tolist() == pytest.approx(
        [0.5, 7], rel=1e-5
    )


def test_priorities_are_raised_to_alpha_above_a_floor() -> None:
    buffer, _, _ = prioritized(alpha=0.5, priority_floor=0.25)
    assert buffer.starts.priorities is not None
    buffer.update_priority(torch.tensor([0, 1]), torch.tensor([0.0, 3.75]))
    assert buffer.starts.priorities.tree[np.array([0, 1])].tolist() == [0.5, 2]


def test_draws_are_stratified() -> None:
    buffer, _, _ = prioritized()
    for _ in range(5):  # ten equal items, ten shares: each exactly once
        assert sorted(buffer.sample(10, CLOCK).index.tolist()) == list(range(10))


def test_draws_are_in_proportion_to_priorities() -> None:
    buffer, _, _ = prioritized(priority_floor=1e-12)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    count = np.bincount(buffer.sample(5_500, CLOCK).index, minlength=10)
    assert np.abs(count - 100 * np.arange(1, 11)).max() <= 1  # stratified: exact but for the edges


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_undo_the_sampling_and_are_at_most_one(beta: float) -> None:
    buffer, _, _ = prioritized(beta=beta, beta_end=beta, priority_floor=1e-12)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = buffer.sample(6, CLOCK)
    probability = (batch.index + 1) / 55
    weight = (10 * probability) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())
    assert batch.weight.dtype == torch.float32


@pytest.mark.parametrize(("env_steps", "beta"), [(0, 0.4), (50, 0.7), (100, 1.0), (900, 1.0)])
def test_beta_follows_the_clock(env_steps: int, beta: float) -> None:
    buffer, _, _ = prioritized(beta=0.4, beta_end=1.0, beta_env_steps=100, priority_floor=1e-12)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = buffer.sample(6, Clock(env_steps=env_steps))
    weight = (batch.index + 1.0) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())


def test_beta_rises_over_the_whole_run_if_not_told_otherwise() -> None:
    buffer, _, _ = prioritized(
        beta=0.4, beta_end=1.0, beta_env_steps=None, total_env_steps=100, priority_floor=1e-12
    )
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = buffer.sample(6, Clock(env_steps=50))
    weight = (batch.index + 1.0) ** -0.7
    torch.testing.assert_close(batch.weight, weight / weight.max())


def test_uniform_windows_weigh_one() -> None:
    buffer = make()
    filled(buffer, Stream(0), 60)
    assert buffer.sample(5, CLOCK).weight.tolist() == [1] * 5


def test_an_overwritten_item_takes_no_priority() -> None:
    buffer, _, stream = prioritized()
    assert buffer.starts.priorities is not None
    buffer.add(
        stream.steps(31)
    )  # 42 steps of 40: steps 0 and 1 are gone, 2 has lost what it did before
    before = buffer.starts.priorities.tree.total
    buffer.update_priority(torch.arange(3), torch.full((3,), 100.0))
    assert buffer.starts.priorities.tree.total == before
    assert buffer.starts.priorities.largest == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_priority_that_is_no_number_is_ignored(bad: float) -> None:
    buffer, _, _ = prioritized()
    assert buffer.starts.priorities is not None
    buffer.update_priority(torch.tensor([0, 1]), torch.tensor([bad, 3.0]))
    assert buffer.starts.priorities.tree[np.array([0, 1])].tolist() == pytest.approx(
        [1, 3], rel=1e-5
    )
    assert buffer.starts.priorities.largest == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_exactly_the_legal_starts_have_a_priority(chunk: int) -> None:
    given = {"sampler": "proportional", "sequence_length": 15, "capacity": 60}
    buffer, stream = make(**given), Stream(1)
    plain = PlainBuffer(buffer)
    for _ in range(40):
        steps = stream.steps(chunk, crash=0.1)
        buffer.add(steps)
        plain.add(steps)
        assert len(items(buffer)) == len(plain.starts())


# state


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
@pytest.mark.parametrize("n_steps", [0, 5, 20, 70, 400])
def test_a_loaded_replay_goes_on_exactly(sampler: str, n_steps: int) -> None:
    given = {"sampler": sampler, "capacity": 100, "n_step": 2}
    one, other, stream = make(**given), make(**given, rng=generator(1)), Stream(n_steps)
    for _ in range(n_steps // 5):
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
        for buffer, batch in ((one, a), (other, b)):
            buffer.update_priority(batch.index, batch.reward[0, :, 0])
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
        r"3 environments, this run has 2: set hardware\.n_envs=3",
    ),
    ({"capacity": 400}, r"has 100 steps per environment, this one 134: use the buffer\.capacity"),
    ({"n_step": 3}, r"has 1 transitions in a window, this one 3: use the algo\.loss\.n_step"),
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
    assert f"({bytes_per_step(SPEC, 'float32')} bytes each), but may use 1.00 MB" in str(e.value)
    fits = int(str(e.value).partition("set buffer.capacity=")[2].partition(" ")[0])
    assert make(capacity=fits, max_bytes=max_bytes).store.bytes_in_use == 0
    assert fits * bytes_per_step(SPEC, "float32") > 0.9 * max_bytes


def test_the_bytes_it_asks_for_are_enough() -> None:
    with pytest.raises(ValueError, match=r": set buffer\.max_bytes=\d+ or more\.$") as e:
        make(capacity=1000, max_bytes=1000)
    enough = int(str(e.value).partition("set buffer.max_bytes=")[2].partition(" ")[0])
    make(capacity=1000, max_bytes=enough)


def test_the_free_memory_is_the_limit_where_none_is_set() -> None:
    with pytest.raises(ValueError, match=r"needs .* TB for buffer\.capacity"):
        make(capacity=10**11)


def test_a_ring_too_short_for_a_window_is_refused_with_one_that_is_not() -> None:
    given = {"sequence_length": 30, "burn_in": 10}
    with pytest.raises(ValueError, match=r"one window of 40 transitions .*capacity=129 or more"):
        make(capacity=100, **given)
    buffer, stream = make(capacity=129, **given), Stream(0)
    for _ in range(3):
        buffer.add(stream.steps(60))
    assert buffer.ready(1)


def test_independent_agents_need_a_reward_each_or_one() -> None:
    with pytest.raises(ValueError, match=r"agents=independent needs one reward, or one per agent"):
        make(spec=replace(SPEC, n_rewards=3), agents="independent")
