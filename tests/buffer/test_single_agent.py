"""Windows that show one agent of a team."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rltrain.types import Batch
from tests.buffer.replays import CLOCK, PlainBuffer, filled, make, with_hidden
from tests.buffer.streams import SPEC, Stream, add


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


# priorities
