import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from rltrain.algo.network.agent_input import ActionAndAgent
from rltrain.algo.network.distribution import ImplicitQuantile
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.head import NoisyLinear
from rltrain.algo.network.lstm import LSTMAgents, PackedLSTM
from rltrain.algo.network.packing import PackedGRU
from rltrain.kernels.recurrent.packed_gru import gru
from rltrain.types import inside
from tests.algo.batches import (
    AGENTS,
    BOTH,
    DISTRIBUTIONS,
    SPEC,
    make_batch,
    require_acting_equals_unrolling,
    spec_of,
)


def gru_agents(spec=SPEC, hidden_dim=8):
    torch.manual_seed(0)
    return AGENTS["gru"](spec=spec, hidden_dim=hidden_dim)


@pytest.mark.parametrize(
    ("name", "count"),
    [("5m_vs_6m", 30412), ("8m", 32462), ("3s5z", 35534), ("MMM2", 39250), ("2c_vs_64zg", 55430)],
)
def test_gru_agents_have_the_published_number_of_parameters(name, count):
    agents = gru_agents(spec_of(name), hidden_dim=64)
    assert sum(p.numel() for p in agents.parameters()) == count


@pytest.mark.parametrize("kind", AGENTS)
def test_inputs_are_obs_previous_action_and_agent_id(kind):
    agents = AGENTS[kind](spec=replace(SPEC, obs_scale=0.5))
    obs = torch.tensor([[[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]])
    x = agents.input(obs, torch.tensor([[-1, 2]]), None)
    assert x.tolist() == [[[1, 2, 3, 0, 0, 0, 0, 1, 0], [4, 5, 6, 0, 0, 1, 0, 0, 1]]]


def test_inputs_name_the_agent_of_a_row_where_the_batch_does():
    agents = gru_agents()
    x = agents.input(torch.zeros(1, 1, 3), torch.tensor([[-1]]), torch.tensor([[1]]))
    assert x[0, 0, -2:].tolist() == [0, 1]


def test_inputs_may_be_the_observation_alone():
    agents = AGENTS["mlp"](spec=SPEC, last_action=False, agent_id=False)
    obs = torch.ones(1, 2, 3)
    assert torch.equal(agents.input(obs, torch.zeros(1, 2, dtype=torch.int64), None), obs)


@pytest.mark.parametrize("lengths", [[4, 4, 4], [4, 3, 1], [1, 4, 2], [3, 2, 2]])
def test_packed_unroll_equals_the_padded_one(lengths):
    """Values, hidden states and every gradient; windows in any order, all shorter than T too."""
    agents = gru_agents()
    batch = make_batch(lengths, n_steps=4)
    batch = replace(batch, hidden=torch.randn(len(lengths), 2, 8))
    real = inside(batch.last)
    packed = agents._unroll_packed(batch, real, batch.hidden)
    padded = agents._unroll_padded(batch, real, batch.hidden)
    grads = [
        torch.autograd.grad(o.q.square().sum() + o.hidden.sum(), list(agents.parameters()))
        for o in (packed, padded)
    ]
    for ours, plain in zip((*packed[:2], *grads[0]), (*padded[:2], *grads[1]), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)
    assert (packed.q[~real] == 0).all()


def burned_in():
    """Windows of 5, 4, 2 and 5 transitions, of which 3, 1 and 0 warm up and all of the last."""
    batch = make_batch([5, 4, 2, 5], n_steps=5)
    mask = batch.mask & (torch.arange(5).unsqueeze(1) >= torch.tensor([3, 1, 0, 5]))
    return replace(batch, mask=mask, hidden=torch.randn(4, 2, 8))


@pytest.mark.parametrize("path", ["_unroll_packed", "_unroll_padded"])
def test_no_gradient_passes_through_the_steps_that_warm_up(path, monkeypatch):
    """As in R2D2: each window is the same as one that begins later, with the state that the steps
    before have led to."""
    agents = gru_agents()
    monkeypatch.setattr(agents, "_unroll_packed", getattr(agents, path))
    batch, weights = burned_in(), list(agents.parameters())
    output = agents.unroll(batch)
    with torch.no_grad():
        plain = agents.unroll(batch)
    expected = torch.zeros(())
    for b, start in enumerate([3, 1, 0]):
        end = start + int(batch.mask[:, b].sum()) + 1
        torch.testing.assert_close(output.q[start:end, b], plain.q[start:end, b])
        assert (output.q[:start, b] == 0).all()
        state = (plain.hidden[start - 1, b] if start else batch.hidden[b]).unsqueeze(0)
        for t in range(start, end):
            q, state = agents.step(batch.obs[t, b : b + 1], batch.last_action[t, b : b + 1], state)
            expected = expected + q.square().sum()
    ours = torch.autograd.grad(output.q[:, :3].square().sum(), weights)
    for gradient, theirs in zip(ours, torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(gradient, theirs, rtol=1e-4, atol=1e-5)


def test_windows_that_warm_up_nothing_are_unrolled_as_they_are():
    agents, batch = gru_agents(), make_batch([3, 2])
    assert batch.warm_up is None
    masked = replace(batch, mask=batch.mask & (torch.arange(3).unsqueeze(1) > 0))
    assert masked.warm_up.tolist() == [1, 1]
    assert replace(masked, burn_in=0).warm_up is None
    assert torch.equal(agents.unroll(replace(masked, burn_in=0)).q, agents.unroll(batch).q)


def test_recurrence_gives_the_gradient_of_its_input_and_first_state():
    torch.manual_seed(0)
    cell = PackedGRU(3, 4).double()
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    first = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weights = [*cell.parameters()]

    def packed(x, first, *_):
        return gru(cell, x, first, [3, 2, 1])

    assert torch.autograd.gradcheck(packed, (x, first, *weights))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_observation_that_is_not_finite_makes_the_step_so(bad):
    """The learner skips a step by its gradient's norm."""
    agents = gru_agents()
    batch = make_batch([4, 3, 1])
    batch.obs[1, 1, 0, 0] = bad
    loss = agents.unroll(batch).q.square().sum()
    grads = torch.autograd.grad(loss, list(agents.parameters()))
    assert not torch.nn.utils.get_total_norm(grads).isfinite()


@pytest.mark.parametrize("kind", AGENTS)
def test_unroll_gives_what_the_actor_saw(kind):
    """Step by step with ``step``, as acting does, against the whole window."""
    agents = AGENTS[kind](spec=SPEC)
    hidden = torch.zeros(2, 2, agents.hidden_dim)
    require_acting_equals_unrolling(agents, make_batch([5, 5]), hidden)


def test_unroll_starts_from_the_stored_hidden_state():
    agents = gru_agents()
    batch = make_batch([5, 5])
    whole = agents.unroll(batch)
    cut = {name: getattr(batch, name)[2:] for name in ("obs", "last_action", "last", "mask")}
    tail = replace(batch, **cut, hidden=whole.hidden[1].detach())
    torch.testing.assert_close(agents.unroll(tail).q, whole.q[2:])


def test_feed_forward_values_of_the_last_slot_carry_no_gradient():
    agents = AGENTS["mlp"](spec=SPEC)
    q = agents.unroll(make_batch([3, 3])).q
    assert not torch.autograd.grad(q[-1].sum(), [*agents.parameters()], retain_graph=True)[0].any()
    assert torch.autograd.grad(q[0].sum(), list(agents.parameters()))[0].any()


def test_layers_start_as_pytorch_starts_them():
    agents = gru_agents(hidden_dim=64)
    bound = 1 / math.sqrt(64)
    for weight in (agents.rnn.weight_ih, agents.rnn.weight_hh, agents.fc2.weight):
        assert bound * 0.95 < weight.abs().max() <= bound


@pytest.mark.parametrize("kind", ["categorical", "quantile", "implicit_quantile"])
def test_recurrent_agents_give_any_distribution(kind):
    """Acting step by step gives the values of the unrolled window; padding gives zeros."""
    distribution = DISTRIBUTIONS[kind]
    torch.manual_seed(0)
    agents = GRUAgents(spec=SPEC, hidden_dim=8, **BOTH, distribution=distribution).eval()
    batch = make_batch(lengths=[4, 2])
    with torch.no_grad():
        out = agents.unroll(batch)
        hidden = torch.zeros(2, 2, 8)
        for t in range(5):
            q, hidden = agents.step(batch.obs[t], batch.last_action[t], hidden)
            torch.testing.assert_close(q[0], out.q[t, 0])
    n_outputs = 2 if kind == "implicit_quantile" else distribution.n_outputs
    assert out.dist.shape == (5, 2, 2, 4, n_outputs)
    if kind != "implicit_quantile":  # its values are means over levels of their own
        torch.testing.assert_close(distribution.mean(out.dist[:, 0]), out.q[:, 0])
    assert (out.tau is None) == (kind != "implicit_quantile")
    assert not out.dist[3:, 1].any()


def test_one_agent_alone_is_not_numbered():
    spec = replace(SPEC, n_agents=1)
    assert AGENTS["mlp"](spec=spec).input.dim == 3 + 4
    assert AGENTS["mlp"](spec=SPEC).input.dim == 3 + 4 + 2


def test_stacked_frames_are_seen_together():
    spec = replace(SPEC, frame_stack=4)
    assert AGENTS["mlp"](spec=spec, last_action=False, agent_id=False).input.dim == 12


def test_noise_is_in_the_head_alone():
    agents = AGENTS["mlp"](spec=SPEC, noisy_sigma=0.5, head_sizes=[4])
    kinds = [
        [type(m) for m in part.modules() if isinstance(m, nn.Linear | NoisyLinear)]
        for part in (agents.torso, agents.head)
    ]
    assert kinds == [[nn.Linear], [NoisyLinear, NoisyLinear]]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_q_is_the_mean_of_the_distribution(distribution):
    agents = AGENTS["mlp"](spec=SPEC, distribution=DISTRIBUTIONS[distribution], dueling=True)
    output = agents.unroll(make_batch([3, 2]))
    n_levels = {"scalar": None, "categorical": 5, "quantile": 3, "implicit_quantile": 3}
    if distribution == "scalar":
        assert output.dist is None
    else:
        assert output.dist.shape == (4, 2, 2, 4, n_levels[distribution])
        torch.testing.assert_close(output.q, DISTRIBUTIONS[distribution].mean(output.dist))
    assert (output.tau is not None) == (distribution == "implicit_quantile")


def test_quantile_levels_are_as_many_as_their_use_wants_and_uniform():
    agents = AGENTS["mlp"](spec=SPEC, distribution=DISTRIBUTIONS["implicit_quantile"])
    batch = make_batch([2] * 300)
    tau = agents.unroll(batch).tau
    with torch.no_grad():
        target_tau = agents.unroll(batch, start=1).tau
    assert (tau.shape, target_tau.shape) == ((3, 300, 2, 3), (3, 300, 2, 2))
    assert (target_tau[0] == 0).all()
    shares = torch.histc(tau, 4, 0, 1) / tau.numel()
    assert shares.tolist() == pytest.approx([1 / 4] * 4, abs=0.03)
    assert not torch.equal(tau, agents.unroll(batch).tau)


def test_actions_in_targets_are_chosen_by_quantile_levels_of_their_own():
    """Defect: by the few levels that also give their value, which is more often overestimated."""
    distribution = ImplicitQuantile(online=3, target=2, acting=5000, cosines=4)
    agents = AGENTS["mlp"](spec=SPEC, distribution=distribution)
    batch = make_batch([3, 2])
    with torch.no_grad():
        first, second = agents.unroll(batch, start=1), agents.unroll(batch, start=1)
    assert first.dist.shape[-1] == 2
    noise = (first.dist.mean(-1) - second.dist.mean(-1))[1:].std()
    assert (first.q - second.q)[1:].std() < noise / 10  # 5000 levels against 2
    assert (first.q - first.dist.mean(-1))[1:].std() > noise / 4


def test_quantile_levels_in_evaluation_are_midpoints_and_draw_nothing():
    """Tests must not move the random stream that training draws from."""
    agents = AGENTS["mlp"](spec=SPEC, distribution=DISTRIBUTIONS["implicit_quantile"]).eval()
    obs, last_action = torch.randn(1, 2, 3), torch.zeros(1, 2, dtype=torch.int64)
    state = torch.get_rng_state()
    q, _ = agents.step(obs, last_action, torch.zeros(1, 2, 0))
    assert torch.equal(torch.get_rng_state(), state)
    features = agents.torso(agents.input(obs, last_action, None)).flatten(0, 1)
    tau = torch.tensor([0.125, 0.375, 0.625, 0.875]).expand(2, -1)
    torch.testing.assert_close(q[0], agents.head(features, tau).mean(-1))


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, None), (1, 3)])
def test_steps_that_are_not_needed_are_left_out(start, stop):
    agents = AGENTS["mlp"](spec=SPEC)
    batch = make_batch([3, 3])
    whole, part = agents.unroll(batch).q, agents.unroll(batch, start, stop).q
    needed = slice(start, stop)
    torch.testing.assert_close(part[needed], whole[needed])
    left_out = torch.ones(4, dtype=torch.bool)
    left_out[needed] = False
    assert not part[left_out].any()


@pytest.mark.parametrize("last_action", [False, True])
def test_memory_does_not_grow_with_the_square_of_the_actions(last_action):
    """Defect: a table of all previous actions, which no other agents than these read, was built."""
    n_actions = 1_000_000
    spec = replace(SPEC, n_agents=1, n_actions=n_actions)
    rest = ActionAndAgent(spec=spec, last_action=last_action, agent_id=True)
    assert sum(each.numel() for each in rest.buffers()) <= n_actions + 1
    joined = rest(torch.zeros(2, 1, 3), torch.tensor([[-1], [7]]), None)
    assert joined.shape == (2, 1, 3 + last_action * n_actions)
    assert joined.nonzero().tolist() == ([[1, 0, 3 + 7]] if last_action else [])


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
