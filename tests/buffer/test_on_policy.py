"""OnPolicyBuffer: the carried step, the shuffle, targets computed once, state."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.on_policy import OnPolicyBuffer
from rltrain.common.conformance import conform
from rltrain.common.seeding import generator
from rltrain.interfaces import Buffer
from rltrain.types import STEP_FIELDS, Batch, Clock, EnvSpec
from tests.buffer.streams import SPEC, Stream, add, saved, stack_frames

CLOCK = Clock()


class Rewards:
    """Targets that are the rewards, so that every transition is told from the others."""

    def __init__(self) -> None:
        self.calls: list[tuple[Batch, torch.Tensor]] = []

    def __call__(self, batch: Batch, last: torch.Tensor) -> torch.Tensor:
        self.calls.append((batch, last))
        return batch.reward.view(len(last) - 1, last.shape[1], -1)


def make(**given: Any) -> Any:
    values: dict[str, Any] = {
        "spec": SPEC,
        "n_envs": 3,
        "device": torch.device("cpu"),
        "rng": generator(7, 4),
        "targets": Rewards(),
    }
    return conform(OnPolicyBuffer(**{**values, **given}), Buffer, "buffer")


def shown(buffer: Any, n: int) -> list[tuple[float, ...]]:
    """The rewards of the next ``n`` transitions, sorted."""
    return sorted(map(tuple, buffer.sample(n, CLOCK).reward[0].tolist()))


def rewards_of(*collects: Any) -> list[tuple[float, ...]]:
    """Rewards of the real transitions of collects in a row, without those of the last steps."""
    last = np.concatenate([c.last for c in collects])[:-1]
    reward = np.concatenate([c.reward for c in collects])[:-1]
    return sorted(map(tuple, reward[~last].tolist()))


def test_every_real_transition_is_shown_once_before_any_is_shown_again() -> None:
    buffer, steps = make(), Stream(0).steps(20)
    buffer.add(steps)
    expected = rewards_of(steps)
    assert buffer.n_steps == len(expected)
    for _ in range(3):
        assert shown(buffer, len(expected)) == expected


def test_minibatches_share_a_shuffle_and_the_next_one_differs() -> None:
    buffer = make()
    buffer.add(Stream(0).steps(20))
    n = buffer.n_steps
    first = torch.cat([buffer.sample(k, CLOCK).index for k in (7, 11, n - 18)])
    second = buffer.sample(n, CLOCK).index
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


def test_a_minibatch_may_span_two_shuffles() -> None:
    buffer, steps = make(), Stream(0).steps(20)
    buffer.add(steps)
    assert shown(buffer, 2 * buffer.n_steps) == sorted(2 * rewards_of(steps))


def test_the_last_step_is_carried_into_the_next_collect() -> None:
    buffer, stream = make(), Stream(0)
    first, second = stream.steps(8), stream.steps(5)
    buffer.add(first)
    buffer.add(second)
    carried = replace(
        first, **{n: getattr(first, n)[-1:] for n in ("last", "reward", "obs", "action")}
    )
    assert shown(buffer, buffer.n_steps) == rewards_of(carried, second)


def test_a_window_is_two_neighboring_steps() -> None:
    buffer, stream = make(), Stream(1)
    first, second = stream.steps(8), stream.steps(6)
    buffer.add(first)
    buffer.add(second)
    batch = buffer.sample(buffer.n_steps, CLOCK)
    steps = {n: np.concatenate([getattr(first, n), getattr(second, n)]) for n in STEP_FIELDS}
    for b, index in enumerate(batch.index.tolist()):
        t, e = divmod(index, 3)
        t += 7  # the carried step is the eighth of all
        for name in ("obs", "state", "avail_actions"):
            pair = steps[name][t : t + 2, e]
            np.testing.assert_array_equal(getattr(batch, name)[:, b], pair)
        assert batch.last[:, b].tolist() == [False, steps["last"][t + 1, e]]
        for name in ("action", "reward", "terminated"):
            np.testing.assert_array_equal(getattr(batch, name)[0, b], steps[name][t, e])
        began = steps["last"][t - 1, e]
        before = np.full(2, -1) if began else steps["action"][t - 1, e]
        np.testing.assert_array_equal(batch.last_action[0, b], before)
        np.testing.assert_array_equal(batch.last_action[1, b], steps["action"][t, e])


def test_nothing_came_before_the_first_step() -> None:
    buffer = make()
    buffer.add(Stream(0).steps(2))
    assert bool((buffer.sample(buffer.n_steps, CLOCK).last_action[0] == -1).all())


def test_targets_are_computed_once_per_collect_and_go_with_their_transitions() -> None:
    targets, stream = Rewards(), Stream(0)
    buffer = make(targets=targets)
    buffer.add(stream.steps(10))
    for _ in range(9):
        batch = buffer.sample(7, CLOCK)
        assert batch.td_target is not None
        assert torch.equal(batch.td_target, batch.reward)
    assert len(targets.calls) == 1
    buffer.add(stream.steps(10))
    buffer.sample(7, CLOCK)
    assert len(targets.calls) == 2


def test_targets_see_all_steps_in_order() -> None:
    targets, steps = Rewards(), Stream(0).steps(10)
    buffer = make(targets=targets)
    buffer.add(steps)
    buffer.sample(1, CLOCK)
    ((everything, last),) = targets.calls
    np.testing.assert_array_equal(last, steps.last)
    np.testing.assert_array_equal(everything.obs[0].view(9, 3, 2, 4), steps.obs[:-1])
    np.testing.assert_array_equal(everything.obs[1].view(9, 3, 2, 4), steps.obs[1:])


def test_final_steps_are_never_shown() -> None:
    buffer, stream = make(), Stream(0, longest=2)
    for _ in range(10):
        steps = stream.steps(5)
        buffer.add(steps)
        batch = buffer.sample(40, CLOCK)
        final = torch.from_numpy(buffer.steps["last"][:-1].reshape(-1))
        assert not bool(final[batch.index].any())


def test_the_carried_step_of_a_lost_environment_leads_nowhere_and_its_next_has_no_action() -> None:
    buffer, stream = make(), Stream(0, longest=50)
    stream.left[:] = 40
    buffer.add(stream.steps(4))
    buffer.add(replace(stream.steps(3), lost=np.array([False, True, False])))
    index = buffer.sample(buffer.n_steps, CLOCK).index.tolist()
    assert sorted(index) == [0, 2, 3, 4, 5, 6, 7, 8]  # t * 3 + environment; 1 is the carried step
    assert (buffer.last_action[1, :, 0] == -1).tolist() == [False, True, False]


@pytest.mark.parametrize("n_steps", [1, 2])
def test_without_a_transition_it_is_not_ready(n_steps: int) -> None:
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    assert not buffer.ready(1)
    steps = stream.steps(n_steps)
    buffer.add(replace(steps, last=np.array([[True], [False]])[:n_steps]))
    assert not buffer.ready(1)
    assert buffer.n_steps == 0


@pytest.mark.parametrize(("n_sampled", "n_frames"), [(0, 1), (1, 1), (3, 1), (1, 5)])
def test_a_loaded_buffer_goes_on_exactly(n_sampled: int, n_frames: int) -> None:
    spec = replace(SPEC, frame_stack=n_frames)
    one, other, stream = make(spec=spec), make(spec=spec, rng=generator(1)), Stream(0)
    other.add(Stream(5).steps(9))
    one.add(stream.steps(6))
    for _ in range(n_sampled):
        one.sample(5, CLOCK)
    other.load_state_dict(saved(one))
    for k in range(6):
        a, b = one.sample(5, CLOCK), other.sample(5, CLOCK)
        for name in ("obs", "last_action", "action", "reward", "index", "td_target"):
            assert torch.equal(getattr(a, name), getattr(b, name))
        if k == 3:
            add(stream.steps(4), one, other)


def test_an_empty_buffer_is_loaded() -> None:
    one, steps = make(), Stream(0).steps(5)
    one.load_state_dict(saved(make()))
    one.add(steps)
    assert shown(one, one.n_steps) == rewards_of(steps)


def test_a_state_of_another_number_of_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 environments, this run has 2: set hardware"):
        make(n_envs=2).load_state_dict(saved(make()))


@pytest.mark.parametrize("n_frames", [2, 4, 15])
def test_stacked_frames_reach_into_earlier_collects_but_not_into_other_episodes(n_frames):
    spec = replace(SPEC, frame_stack=n_frames)
    buffer, stream = make(spec=spec), Stream(3, spec=spec)
    obs = np.empty((0, 3, 2, 4), np.float32)
    last = np.empty((0, 3), bool)
    for n_steps in (6, 1, 2, 9, 5):
        steps = stream.steps(n_steps)
        buffer.add(steps)
        obs, last = np.concatenate([obs, steps.obs]), np.concatenate([last, steps.last])
        if len(obs) == 6:
            continue
        batch = buffer.sample(buffer.n_steps, CLOCK)
        carried = len(obs) - n_steps - 1
        stacked = np.stack([stack_frames(obs[:, e], last[:, e], n_frames) for e in range(3)], 1)
        for b, index in enumerate(batch.index.tolist()):
            t, e = divmod(index, 3)
            np.testing.assert_array_equal(
                batch.obs[:, b], stacked[carried + t : carried + t + 2, e]
            )


def test_stacked_images_grow_along_their_channels() -> None:
    spec = EnvSpec(
        n_agents=2, n_actions=3, obs_shape=(2, 5, 5), obs_dtype="uint8", frame_stack=3, state_dim=1
    )
    buffer, steps = make(spec=spec, n_envs=1), Stream(2, spec=spec, n_envs=1).steps(20)
    buffer.add(steps)
    batch = buffer.sample(buffer.n_steps, CLOCK)
    stacked = stack_frames(steps.obs[:, 0], steps.last[:, 0], 3)
    for b, t in enumerate(batch.index.tolist()):
        np.testing.assert_array_equal(batch.obs[:, b], stacked[t : t + 2])


def test_a_lost_environment_begins_a_new_stack() -> None:
    spec = replace(SPEC, frame_stack=3)
    buffer, stream = make(spec=spec), Stream(0, spec=spec, longest=50)
    stream.left[:] = 40
    buffer.add(stream.steps(4))
    after = stream.steps(3)
    buffer.add(replace(after, lost=np.array([False, True, False])))
    batch = buffer.sample(buffer.n_steps, CLOCK)
    first = batch.index.tolist().index(3 + 1)  # t = 1, the first step behind the carried one
    repeated = np.concatenate([after.obs[0, 1]] * 3, axis=1)
    np.testing.assert_array_equal(batch.obs[0, first], repeated)


def held(buffer: Any) -> int:
    return sum(array.nbytes for array in buffer.steps.values())


def test_every_frame_of_a_stack_is_held_once() -> None:
    single, stacked = make(), make(spec=replace(SPEC, frame_stack=4))
    stream = Stream(0)
    for _ in range(3):
        steps = stream.steps(20)
        add(steps, single, stacked)
    earlier = 3 * steps.obs[0].nbytes  # what the stack of the carried step looks back to
    assert held(stacked) == held(single) + earlier
    assert stacked.plan().bytes_per_step == single.plan().bytes_per_step


def test_a_loss_without_targets_is_refused() -> None:
    said = r"needs a loss that computes the targets of all .*algo=pqn"
    with pytest.raises(ValueError, match=said):
        make(targets=None)
