"""LSTM agents, layer normalization and orthogonal initialization."""

import pytest
import torch
from torch import nn

from rltrain.algo.network.lstm import LSTMAgents, PackedLSTM
from tests.algo.batches import AGENTS, SPEC, make_batch, require_acting_equals_unrolling


def lstm(**settings):
    torch.manual_seed(0)
    return LSTMAgents(spec=SPEC, hidden_dim=8, last_action=True, agent_id=True, **settings)


def test_the_cell_over_a_sequence_equals_pytorchs():
    torch.manual_seed(0)
    cell, whole = PackedLSTM(3, 4), nn.LSTM(3, 4)
    whole.load_state_dict({f"{name}_l0": w for name, w in cell.state_dict().items()})
    x = torch.randn(5, 2, 3)
    expected, (_, last) = whole(x)
    states = cell.unroll_padded(x, torch.zeros(2, 8))
    torch.testing.assert_close(states[..., :4], expected)
    torch.testing.assert_close(states[-1, :, 4:], last[0])


def test_packed_windows_equal_padded_ones():
    agents, batch = lstm(), make_batch([5, 3, 1])
    packed = agents.unroll(batch)
    agents._unroll_packed = agents._unroll_padded
    padded = agents.unroll(batch)
    torch.testing.assert_close(packed.q, padded.q)
    torch.testing.assert_close(packed.hidden, padded.hidden)


def test_acting_gives_the_values_of_learning():
    agents, batch = lstm(layer_norm=True), make_batch([3])
    require_acting_equals_unrolling(agents, batch, torch.zeros(1, 2, agents.hidden_dim))
    assert agents.hidden_dim == 16


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_orthogonal_initialization_has_the_gain_of_the_last_layer(kind):
    sizes = {"hidden_sizes": [8, 8]} if kind == "mlp" else {}
    agents = AGENTS[kind](spec=SPEC, orthogonal=0.01, **sizes)
    first, last = [m for m in agents.modules() if isinstance(m, nn.Linear)][:: 2 if sizes else 1]
    singular = torch.linalg.svdvals(first.weight)
    torch.testing.assert_close(singular, torch.ones_like(singular))
    torch.testing.assert_close(last.weight @ last.weight.T, 1e-4 * torch.eye(4), atol=1e-8, rtol=0)
    assert (last.bias == 0).all()


def test_layer_norm_normalizes_what_the_last_layer_reads():
    agents, batch = AGENTS["gru"](spec=SPEC, layer_norm=True), make_batch([2])
    output = agents.unroll(batch)
    expected = agents.fc2(nn.functional.layer_norm(output.hidden, (8,)))
    torch.testing.assert_close(output.q, expected)
