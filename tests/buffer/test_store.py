"""The step store: addresses, blocks, types, and memory that follows what was written."""

import numpy as np
import psutil
import pytest
import torch

from rltrain.buffer.fields import n_bytes, step_fields
from rltrain.buffer.store import BLOCK, Store
from rltrain.hardware.device import set_allocator_policy
from rltrain.types import EnvSpec

CPU = torch.device("cpu")
SPEC = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=5)


def store(n_envs: int = 2, n_blocks: int = 8) -> Store:
    fields = step_fields(SPEC, "float32")
    return Store(spec=SPEC, n_envs=n_envs, n_blocks=n_blocks, fields=fields, device=CPU)


def numbered(first: int, n_steps: int, n_envs: int = 2) -> dict[str, np.ndarray]:
    """Steps [T, E] of which the state is 1000 * e + number."""
    name = first + np.arange(n_steps)[:, None] + 1000 * np.arange(n_envs)  # [T, E]
    fields = {
        key: np.zeros((n_steps, n_envs, *shape), dtype)
        for key, (shape, dtype) in step_fields(SPEC, "float32").items()
    }
    fields["state"][:] = name[:, :, None]
    return fields


def names(s: Store, e: int, number: np.ndarray) -> list[int]:
    return [int(n) for n in s.read("state", s.rows(e, number))[:, 0]]


def test_bytes_per_step_is_the_sum_of_its_fields() -> None:
    # obs 2*4*4, avail_actions 2*3, state 5*4, last, action 2, reward 4, terminated
    assert n_bytes(step_fields(SPEC, "float32")) == 32 + 6 + 20 + 1 + 2 + 4 + 1
    assert n_bytes(step_fields(SPEC, "float16")) == 16 + 6 + 10 + 1 + 2 + 4 + 1
    assert n_bytes(step_fields(SPEC, "float32", hidden_dim=3)) == 66 + 2 * 3 * 4


def test_many_actions_take_two_bytes() -> None:
    few, many = (EnvSpec(n_agents=1, n_actions=a, obs_shape=(1,)) for a in (256, 257))
    assert step_fields(few, "float32")["action"][1] == np.uint8
    assert step_fields(many, "float32")["action"][1] == np.int16


@pytest.mark.parametrize(
    ("precision", "step_goal", "total_goal"), [("float32", 36465, 11.5e9), ("float16", 18735, 6e9)]
)
def test_5000_episodes_of_27m_vs_30m_fit_the_goal(precision, step_goal, total_goal):
    spec = EnvSpec(n_agents=27, n_actions=36, obs_shape=(285,), state_dim=1170, max_steps=180)
    assert n_bytes(step_fields(spec, precision)) == step_goal
    assert 5_000 * 61 * step_goal <= total_goal


def test_steps_are_found_across_block_borders() -> None:
    s = store()
    for first in range(0, 60, 20):
        s.append(numbered(first, 20))
    assert names(s, 1, np.arange(25, 40)) == list(range(1025, 1040))
    assert names(s, 0, np.array([59, 0, 31, 32])) == [59, 0, 31, 32]


def test_a_step_can_be_read_while_its_episode_is_open() -> None:
    s = store()
    s.append(numbered(0, 1))
    assert names(s, 1, np.array([0])) == [1000]


def test_released_blocks_are_used_again_for_ever() -> None:
    s = store(n_blocks=4)
    for first in range(0, 50 * BLOCK, BLOCK):
        s.append(numbered(first, BLOCK))
        for e in range(2):
            s.release(e, max(first, 0))  # one full block stays
        assert names(s, 1, first + np.arange(BLOCK)) == list(range(1000 + first, 1032 + first))
        assert s.bytes_in_use == 2 * BLOCK * s.bytes_per_step
    assert s.free_blocks == 2


def test_a_block_stays_until_its_last_step_is_released() -> None:
    s = store()
    s.append(numbered(0, BLOCK))
    s.release(0, BLOCK - 1)
    assert s.free_blocks == 6
    s.release(0, BLOCK)
    assert s.free_blocks == 7


def test_rewind_forgets_the_newest_steps_and_frees_whole_blocks() -> None:
    s = store()
    s.append(numbered(0, BLOCK))
    s.append(numbered(BLOCK, BLOCK))
    s.rewind(0, 10)
    assert (s.end.tolist(), s.free_blocks) == ([10, 2 * BLOCK], 5)
    again = numbered(500, 3)
    s.append(again)
    assert names(s, 0, np.arange(8, 13)) == [8, 9, 500, 501, 502]


def test_blocks_to_append_counts_what_append_takes() -> None:
    s = store()
    for n_steps in (1, BLOCK - 1, 1, 5):
        free, needed = s.free_blocks, s.blocks_to_append(n_steps)
        s.append(numbered(0, n_steps))
        assert free - s.free_blocks == needed


def test_one_environment_may_own_far_more_blocks_than_another() -> None:
    s = store(n_blocks=40)
    for first in range(0, 20 * BLOCK, BLOCK):
        s.append(numbered(first, BLOCK))
        s.release(1, first + BLOCK)
    assert names(s, 0, np.arange(20 * BLOCK)) == list(range(20 * BLOCK))
    assert s.free_blocks == 20


def test_the_padding_step_is_empty_and_last() -> None:
    s, row = store(), np.array([store().padding])
    assert s.read("last", row).tolist() == [True]
    assert s.read("avail_actions", row).tolist() == [[[True, False, False]] * 2]
    for name in ("obs", "state", "action", "reward", "terminated"):
        assert not s.read(name, row).any()


def test_restart_takes_the_blocks_of_the_given_numbers() -> None:
    s = store()
    s.append(numbered(0, 40))
    s.restart(np.array([0, 70]))
    assert (s.begin.tolist(), s.end.tolist(), s.free_blocks) == ([0, 70], [0, 70], 7)


def test_uint8_observations_stay_uint8_and_float16_halves_the_rest() -> None:
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(8, 8), obs_dtype="uint8", state_dim=2)
    types = {name: dtype for name, (_, dtype) in step_fields(spec, "float16").items()}
    assert (types["obs"], types["state"], types["reward"]) == (np.uint8, np.float16, np.float32)


def test_memory_follows_the_written_steps_not_the_cap() -> None:
    set_allocator_policy()  # the arrays are not malloc's, so it must not touch them either
    process = psutil.Process()
    before = process.memory_info().rss
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1 << 18,))  # 1 MiB a step
    layout = step_fields(spec, "float32")
    s = Store(spec=spec, n_envs=1, n_blocks=1 << 8, fields=layout, device=CPU)  # 8 GiB reserved
    assert process.memory_info().rss - before < 32 << 20
    fields = {name: np.ones((BLOCK, 1, *shape), dtype) for name, (shape, dtype) in layout.items()}
    with_fields = process.memory_info().rss
    s.append(fields)
    assert 30 << 20 < process.memory_info().rss - with_fields < 64 << 20
    assert s.bytes_in_use == BLOCK * s.bytes_per_step


def test_widening_the_block_table_keeps_blocks_taken_in_the_same_append() -> None:
    s = store(n_blocks=64)
    for first in range(0, 8 * BLOCK, BLOCK):
        s.append(numbered(first, BLOCK))
    s.release(0, 2 * BLOCK)  # environment 0 has room in the table, 1 needs a wider one
    s.append(numbered(8 * BLOCK, BLOCK))
    newest = 8 * BLOCK + np.arange(BLOCK)
    assert names(s, 0, newest) == newest.tolist()
    assert names(s, 1, newest) == (1000 + newest).tolist()


@pytest.mark.parametrize("n_actions", [2, 256, 257, 32_768, 32_769, 70_000])
def test_every_action_can_be_stored(n_actions):
    spec = EnvSpec(n_agents=1, n_actions=n_actions, obs_shape=(1,))
    _, kind = step_fields(spec, "float32")["action"]
    assert np.array(n_actions - 1).astype(kind) == n_actions - 1
