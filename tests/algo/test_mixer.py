from dataclasses import replace

import pytest
import torch

from rltrain.algo.mixer import QMix
from tests.algo.batches import MAPS, MIXERS, SPEC, spec_of

COUNTS = {  # two layers, one layer
    "5m_vs_6m": (31521, 25377),
    "8m": (51201, 59521),
    "3s5z": (60417, 76417),
    "MMM2": (84929, 134401),
    "2c_vs_64zg": (72129, 54913),
}


def mix(mixer, q, state):
    return mixer(q, q.detach(), torch.zeros(q.shape, dtype=torch.int64), state)


@pytest.mark.parametrize("layers", [2, 1])
@pytest.mark.parametrize("name", MAPS)
def test_qmix_has_the_published_number_of_parameters(name, layers):
    mixer = QMix(spec=spec_of(name), embed_dim=32, hypernet_layers=layers, hypernet_dim=64)
    assert sum(p.numel() for p in mixer.parameters()) == COUNTS[name][2 - layers]


@pytest.mark.parametrize(("kind", "n_streams"), [("independent", 2), ("sum", 1), ("qmix", 1)])
def test_mixers_give_their_number_of_streams(kind, n_streams):
    mixer = MIXERS[kind](spec=SPEC)
    assert mixer.n_streams == n_streams
    assert mix(mixer, torch.randn(3, 4, 2), torch.randn(3, 4, 5)).shape == (3, 4, n_streams)


def test_sum_adds_the_agents_values():
    mixed = mix(MIXERS["sum"](spec=SPEC), torch.tensor([[[1.0, 2.0]]]), torch.zeros(1, 1, 5))
    assert mixed.tolist() == [[[3]]]


@pytest.mark.parametrize("layers", [2, 1])
def test_qmix_never_falls_when_an_agents_value_rises(layers):
    torch.manual_seed(0)
    mixer = QMix(spec=SPEC, embed_dim=8, hypernet_layers=layers, hypernet_dim=8)
    q = (3 * torch.randn(50, 4, 2)).requires_grad_()
    slope = torch.autograd.grad(mix(mixer, q, 3 * torch.randn(50, 4, 5)).sum(), q)[0]
    assert (slope >= 0).all()
    assert slope.mean() > 0


@pytest.mark.parametrize(("kind", "name"), [("sum", "Sum"), ("qmix", "QMix")])
def test_team_mixers_refuse_one_reward_per_agent(kind, name):
    message = (
        rf"{name} needs one team reward, but the environment gives 2, one per agent: "
        r"set env\.reward=sum, or algo=iql, which learns from each agent's own\."
    )
    with pytest.raises(ValueError, match=message):
        MIXERS[kind](spec=replace(SPEC, n_rewards=2))


def test_qmix_refuses_an_environment_without_state():
    with pytest.raises(ValueError, match=r"needs a global state.*type algo=vdn or algo=iql"):
        MIXERS["qmix"](spec=replace(SPEC, state_dim=0))


def test_qmix_names_dqn_for_one_agent():
    with pytest.raises(ValueError, match=r"type algo=dqn for one agent"):
        MIXERS["qmix"](spec=replace(SPEC, n_agents=1, state_dim=0))
