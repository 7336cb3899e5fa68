import json
from dataclasses import replace

import pytest
import torch

from rltrain.algo.network.conv import Convolutions, conv_agents
from rltrain.kernels.layers.stack import Stack
from rltrain.types import EnvSpec
from tests.algo.batches import PLAIN, SPEC, accelerated

PICTURES = EnvSpec(n_agents=1, n_actions=3, obs_shape=(2, 8, 9), obs_scale=0.5)


def pictures(spec=PICTURES, **changes):
    parts = {**PLAIN, "filters": [[4, 3, 2], [5, 2, 1]], "hidden_sizes": [6], "layer_norm": True}
    parts |= {"last_action": False, "agent_id": True}
    return accelerated(conv_agents(spec=spec, **{**parts, **changes}))


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_convolutions_see_stacked_frames_as_channels(frame_stack):
    """8 x 9 becomes 3 x 4, then 2 x 3, with 5 channels."""
    agents = pictures(replace(PICTURES, frame_stack=frame_stack))
    assert agents.torso.n_features == 5 * 2 * 3
    obs = torch.randn(7, 1, 2 * frame_stack, 8, 9)
    q, _ = agents.step(obs, torch.zeros(7, 1, dtype=torch.int64), torch.zeros(7, 1, 0))
    assert q.shape == (7, 1, 3)


def test_convolutions_see_scaled_pixels():
    agents = pictures()
    obs = torch.randn(1, 1, 2, 8, 9)
    assert torch.equal(agents.input(obs, None, None), obs * 0.5)


@pytest.mark.parametrize(("agent_id", "differ"), [(True, True), (False, False)])
def test_agents_with_the_same_image_differ_by_their_id(agent_id, differ):
    torch.manual_seed(0)
    agents = pictures(replace(PICTURES, n_agents=2), agent_id=agent_id)
    obs = torch.randn(1, 1, 2, 8, 9).expand(1, 2, -1, -1, -1)
    q, _ = agents.step(obs, torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, 0))
    assert torch.allclose(q[0, 0], q[0, 1]) is not differ


def test_convolutional_agents_evaluate_the_agent_that_a_window_names():
    agents = pictures(replace(PICTURES, n_agents=2))
    obs = torch.randn(1, 1, 2, 8, 9)
    action = torch.zeros(1, 2, dtype=torch.int64)
    q, _ = agents.step(obs.expand(1, 2, -1, -1, -1), action, torch.zeros(1, 2, 0))
    of_second, _, _ = agents._evaluate(obs, action[:, :1], torch.tensor([[1]]), ("acting",))
    torch.testing.assert_close(of_second[0], q[0, 1])


def test_convolutional_agents_see_the_previous_action():
    torch.manual_seed(0)
    agents = pictures(last_action=True)
    assert agents.uses_last_action
    assert not pictures().uses_last_action
    obs, hidden = torch.randn(1, 1, 2, 8, 9), torch.zeros(1, 1, 0)
    q = [agents.step(obs, torch.tensor([[a]]), hidden)[0] for a in (-1, 2)]
    assert not torch.equal(*q)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_convolutional_teams_act_as_they_learn(layer_norm):
    """Compiled layers, which see images alone, are not used where an agent's number joins them."""
    agents = pictures(
        replace(PICTURES, n_agents=2), layer_norm=layer_norm, last_action=True
    ).requires_grad_(False)
    assert Stack.of(agents) is None
    obs = torch.randn(3, 2, 2, 8, 9)
    action = torch.randint(3, (3, 2))
    acting, _ = agents.step(obs, action, torch.zeros(3, 2, 0))
    learning, _, _ = agents._evaluate(obs, action, None, ("acting",))
    torch.testing.assert_close(acting, learning.view_as(acting))


@pytest.mark.parametrize("filters", [[[4, 9, 1]], [[4, 3, 4], [4, 3, 1]]])
def test_convolutions_larger_than_the_image_are_refused(filters):
    with pytest.raises(ValueError, match=r"algo.network.filters.*leave nothing of a 8 x 9 image"):
        pictures(filters=filters)


@pytest.mark.parametrize("side", [*range(1, 40)])
def test_the_filters_that_are_suggested_for_an_image_fit_it(side):
    Convolutions(
        in_shape=(1, side, side), filters=json.loads(Convolutions.fitting(side)), norm=False
    )


@pytest.mark.parametrize("filters", [[[4, 3]], [[4, 3, 1, 1]]])
def test_filters_that_are_no_triples_are_refused(filters):
    with pytest.raises(ValueError, match=r"algo.network.filters.*channels, kernel, stride"):
        pictures(filters=filters)


def test_convolutions_refuse_what_is_no_image():
    with pytest.raises(ValueError, match=r"needs images.*set algo/network=mlp"):
        pictures(SPEC)
