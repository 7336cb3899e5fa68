"""Windows of ReplayBuffer, also those that show one agent of a team, against plain Python lists."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rltrain.buffer import windows
from rltrain.types import STEP_FIELDS, Batch, EnvSpec, Steps
from tests.buffer.replays import CLOCK, WINDOWS, PlainBuffer, filled, make, with_hidden
from tests.buffer.streams import SPEC, Stream, add, saved
from tests.marks import each_once


@pytest.mark.sampled(2)
@pytest.mark.parametrize("capacity", [40, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("given", WINDOWS, ids=lambda g: "-".join(map(str, g.values())))
def test_windows_of_random_streams_are_those_of_plain_lists(given, capacity, monkeypatch):
    monkeypatch.setattr(windows, "LARGE", (1 << 24, 1)[len(given) % 2])
    rng = np.random.default_rng(capacity)
    buffer, stream = make(capacity=capacity, **given), Stream(3)
    plain = PlainBuffer(buffer)
    checked = 0
    for _ in range(40):
        add(stream.steps(int(rng.integers(1, 50)), crash=0.1), buffer, plain)
        if not buffer.ready(1):
            continue
        batch = buffer.sample(8, CLOCK)
        for b in range(8):
            plain.check(batch, b)
        checked += 1
    assert checked > 25


def test_a_batch_larger_than_the_buffer_is_refused() -> None:
    buffer = make(capacity=40)
    buffer.check(40)
    said = r"Type algo\.batch_size=40 or less, or buffer\.capacity=41"
    with pytest.raises(ValueError, match=said):
        buffer.check(41)


def test_a_buffer_smaller_than_a_block_shares_no_rows_between_environments() -> None:
    """Defect: the block an environment was writing was freed, and another one took it."""
    buffer, stream = make(n_envs=2, capacity=20), Stream(0, n_envs=2)
    append, shared = buffer.store.append, []

    def watched(fields: dict[str, np.ndarray]) -> None:
        first = buffer.store.end.copy()
        append(fields)
        rows = buffer.store.rows(np.arange(2), first + np.arange(len(fields["last"]))[:, None])
        shared.append(rows.size - len(np.unique(rows)))

    buffer.store.append = watched  # type: ignore[method-assign]
    for n_steps in (45, 15, 32):
        steps = stream.steps(n_steps)
        lost = np.array([False, True])  # its numbers are behind those of the other environment
        buffer.add(replace(steps, lost=lost))
    assert not any(shared)


@pytest.mark.parametrize("given", WINDOWS, ids=lambda g: "-".join(map(str, g.values())))
def test_every_start_with_stored_successors_is_equally_likely_and_no_other_drawn(given):
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


@pytest.mark.sampled(2)
@each_once(n_frames=[1, 3], given=WINDOWS)
def test_when_nothing_follows_windows_begin_up_to_the_final_step(given, n_frames):
    """Defect: the last T - 1 transitions of what filled the replay waited for successors."""
    spec = replace(SPEC, frame_stack=n_frames)
    for seed in range(12):  # one episode, shorter or longer than a window, or several
        buffer, stream = make(n_envs=1, spec=spec, **given), Stream(seed, spec=spec, n_envs=1)
        n_steps = 1 + int(stream.left[0])
        if seed % 3 == 0:
            n_steps += 20
        steps = stream.steps(n_steps + 12)
        n_steps += int(steps.last[n_steps - 1 :, 0].argmax())  # up to a final step
        steps = replace(steps, **{name: getattr(steps, name)[:n_steps] for name in STEP_FIELDS})
        plain = PlainBuffer(buffer)
        add(steps, buffer, plain)
        buffer.finish()
        (ring,) = plain.rings
        ring.complete = [True] * n_steps
        assert buffer.ready(1)
        for _ in range(2):
            batch = buffer.sample(400, CLOCK)
            assert {plain.start_of(batch, b) for b in range(8)} <= set(plain.starts().values())
            for b in range(8):
                plain.check(batch, b)
            learned = batch.mask.int().argmax(0).tolist()
            keys = {batch.state[t, b].numpy().tobytes() for b, t in enumerate(learned)}
            assert keys == set(plain.starts())
            buffer.load_state_dict(saved(buffer))


def one_episode(terminated: bool) -> tuple[Steps, Batch]:
    """Three transitions, the final step, one step of the next episode; what is drawn of them."""
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    steps = stream.steps(5)
    ends = np.array([0, 0, terminated, 0, 0], bool)[:, None]
    buffer.add(replace(steps, terminated=ends))
    return steps, buffer.sample(50, CLOCK)


def test_a_terminal_reward_is_reached_once_its_successors_are_stored() -> None:
    steps, batch = one_episode(terminated=True)
    assert bool(batch.terminated.any())
    ends = batch.terminated[0]
    np.testing.assert_array_equal(batch.reward[0, ends][0], steps.reward[2, 0])
    assert bool(batch.last[1, ends].all())


def test_a_truncated_episode_ends_without_termination_and_shows_its_last_observation() -> None:
    steps, batch = one_episode(terminated=False)
    ends = batch.last[1]
    assert bool(ends.any())
    assert not bool(batch.terminated.any())
    np.testing.assert_array_equal(batch.obs[1, ends][0], steps.obs[3, 0])


def test_only_steps_with_n_successors_are_learned_from() -> None:
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
        add(stream.steps(13, crash=0.05), buffer, plain)
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


def test_a_stored_recurrent_state_is_that_of_the_first_step() -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sequence_length": 4}
    buffer, stream = make(**given), Stream(0)
    assert buffer.keeps_hidden
    plain, steps = PlainBuffer(buffer), with_hidden(stream.steps(60))
    add(steps, buffer, plain)
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


def test_the_smallest_allowed_capacity_gets_ready() -> None:
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


def one_row(batch: Batch, plain: PlainBuffer, b: int) -> tuple[int, dict[str, np.ndarray]]:
    e, start = plain.start_of(batch, b)
    return int(batch.agent[b, 0]), plain.rings[e].steps[start]


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_independent_windows_show_one_agent_and_its_own_reward(sampler: str) -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored", "sampler": sampler}
    buffer, stream = make(agents="independent", **given), Stream(0)
    plain, steps = PlainBuffer(buffer), with_hidden(stream.steps(60))
    add(steps, buffer, plain)
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


def test_each_agent_of_a_start_has_its_own_priority() -> None:
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
