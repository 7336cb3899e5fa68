import math
from dataclasses import replace
from functools import partial

import pytest
import torch

import rltrain
from rltrain.algo.loss.qtran import QTranCritic
from rltrain.algo.loss.weighted import CentralCritic
from rltrain.algo.mixer.qatten import Qatten, Units
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.qplex import QPlex, QPlexAttention
from rltrain.algo.targets import pick
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import AGENTS, CRITICS, MAPS, MIXERS, SPEC, make_batch, spec_of

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


QPLEX_COUNTS = {  # kernels and layers
    (4, 1): (18878, 37748, 47156, 76976, 52144),
    (4, 2): (107574, 185556, 228564, 342248, 344728),
    (10, 3): (373752, 554682, 652986, 916454, 920374),
}
CRITIC_COUNTS = {
    "qtran": (37690, 47398, 53542, 68654, 97110),
    "central": (184066, 220674, 245250, 300034, 308226),
    "agents": (30412, 32462, 35534, 39250, 55430),
}


def n_parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("kind", QPLEX_COUNTS)
def test_qplex_has_the_published_number_of_parameters(kind):
    kernels, layers = kind
    sizes = {"hypernet_dim": 64, "kernels": kernels, "kernel_layers": layers, "kernel_dim": 64}
    counts = [n_parameters(QPlex(spec=spec_of(name), **sizes)) for name in MAPS]
    assert counts == list(QPLEX_COUNTS[kind])


def test_agents_and_critics_have_the_published_number_of_parameters():
    for map_name, *expected in zip(MAPS, *CRITIC_COUNTS.values(), strict=True):
        spec = spec_of(map_name)
        qtran = QTranCritic(spec=spec, hidden_dim=64, embed_dim=64)
        make = partial(AGENTS["gru"], spec=spec, hidden_dim=64)
        central = CentralCritic(spec=spec, make_agents=make, embed_dim=256)
        parts = qtran, central.mixer, central.agents
        assert [n_parameters(part) for part in parts] == expected


@pytest.mark.parametrize("kind", MIXERS)
def test_mixers_give_their_number_of_streams(kind):
    mixer, n_streams = MIXERS[kind](spec=SPEC), 2 if kind == "independent" else 1
    assert mixer.n_streams == n_streams
    assert mix(mixer, torch.randn(3, 4, 2), torch.randn(3, 4, 5)).shape == (3, 4, n_streams)


def test_sum_adds_the_agents_values():
    mixed = mix(MIXERS["sum"](spec=SPEC), torch.tensor([[[1.0, 2.0]]]), torch.zeros(1, 1, 5))
    assert mixed.tolist() == [[[3]]]


QMIXES = {n: partial(QMix, embed_dim=8, hypernet_layers=n, hypernet_dim=8) for n in (2, 1)}


@pytest.mark.parametrize("kind", [*QMIXES, "qatten", "qplex", "qplex_attention"])
def test_a_mixer_never_falls_when_an_agents_value_rises(kind):
    """QMIX by its layers; QPLEX through its values, as its gradient goes."""
    torch.manual_seed(0)
    mixer = (QMIXES | MIXERS)[kind](spec=SPEC)
    q = (3 * torch.randn(50, 4, 2)).requires_grad_()
    slope = torch.autograd.grad(mix(mixer, q, 3 * torch.randn(50, 4, 5)).sum(), q)[0]
    assert (slope >= 0).all()
    assert slope.mean() > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["sum", "qmix", "qatten", "qplex", "qplex_attention"])
def test_the_best_joint_action_is_that_of_the_agents(kind, seed):
    """All 16 joint actions of 2 agents in 20 states with random networks."""
    torch.manual_seed(seed)
    mixer = MIXERS[kind](spec=SPEC)
    q, state = 3 * torch.randn(1, 20, 2, 4), 3 * torch.randn(1, 20, 5)
    best = q.argmax(-1)
    joint = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    values = [
        mixer(pick(q, a), pick(q, best), a, state)
        for a in (each.expand(1, 20, 2) for each in joint)
    ]
    found = joint[torch.cat(values, -1).argmax(-1)]
    assert torch.equal(found, best)


def test_qplex_can_give_every_payoff_table_that_keeps_the_greedy_action():
    """λ differs between joint actions, so Q_tot is not a sum; a monotonic one would be."""
    torch.manual_seed(0)
    mixer = MIXERS["qplex"](spec=SPEC)
    q, state = torch.tensor([[[1.0, 0.0, -1.0, 0.5], [2.0, 1.0, 0.0, -1.0]]]), torch.randn(1, 1, 5)
    q = q.unsqueeze(0)

    def value(*action):
        a = torch.tensor(action).view(1, 1, 2)
        return mixer(pick(q, a), q.amax(-1), a, state).item()

    cross = value(1, 1) - value(0, 1) - value(1, 0) + value(0, 0)
    assert abs(cross) > 1e-4


def test_the_features_of_agents_are_their_rows_of_the_states_layout():
    layout = {"state": {"allies": {"start": 1, "count": 2, "size": 2}}}
    units = Units(replace(SPEC, layout=layout))
    state = torch.arange(5.0).view(1, 1, 5)
    assert units(state).tolist() == [[[[1, 2], [3, 4]]]]
    plain = Units(SPEC)
    assert plain(state)[0, 0, 1].tolist() == [0, 1, 2, 3, 4, 0, 1]


TWO = EnvSpec(n_agents=2, n_actions=2, obs_shape=(1,), state_dim=2)


def set_to(parameter, **entries):
    """Zero but for these entries, named by their place: ``_0_1`` is row 0, column 1."""
    with torch.no_grad():
        parameter.zero_()
        for place, value in entries.items():
            parameter[tuple(map(int, place.split("_")[1:]))] = value


def zeroed(mixer):
    for parameter in mixer.parameters():
        set_to(parameter)
    return mixer


def test_qatten_by_hand():
    """d = 4. First head: query (2, 0, 0, 0), keys 0 and ln 3 · e₁, so logits 2 ln(1, 3) / √4 =
    ln(1, 3), attention (¼, ¾), weight |-2|; second head: attention (½, ½), weight 1; c = 10:
    2 (¼ 4 + ¾ 8) + (½ 4 + ½ 8) + 10 = 14 + 6 + 10.
    """
    sizes = {"heads": 2, "query_dim": 1, "embed_dim": 4, "constant_dim": 1}
    mixer = zeroed(Qatten(spec=TWO, weighted_heads=True, **sizes))
    set_to(mixer.query_embedding_layers[0][2].bias, _0=2.0)
    set_to(mixer.key_embedding_layers[0].weight, _0_3=math.log(3))  # the id of the second agent
    set_to(mixer.head_embedding_layer[2].bias, _0=-2.0, _1=1.0)
    set_to(mixer.constant_layer[2].bias, _0=10.0)
    mixed = mix(mixer, torch.tensor([[[4.0, 8.0]]]), torch.ones(1, 1, 2))
    assert mixed.item() == pytest.approx(30, rel=1e-6)


def test_qplex_attention_by_hand():
    """One head as above (its query reads the state): weights 2 (¼, ¾); V(s) = 10 is divided among
    the agents and added again; greedy actions have no advantage: 2 (¼ 4 + ¾ 8) + 10.
    """
    sizes = {"heads": 1, "embed_dim": 4, "hypernet_dim": 1}
    kernels = {"kernels": 1, "kernel_layers": 1, "kernel_dim": 1}
    mixer = zeroed(
        QPlexAttention(spec=TWO, weighted_heads=True, attention_penalty=0.5, **sizes, **kernels)
    )
    attention = mixer.attention_weight
    set_to(attention.selector_extractors[0][0].weight, _0_0=1.0)
    set_to(attention.selector_extractors[0][2].weight, _0_0=2.0)
    set_to(attention.key_extractors[0].weight, _0_3=math.log(3))
    set_to(attention.hyper_w_head[2].bias, _0=-2.0)
    set_to(attention.V[2].bias, _0=10.0)
    state = torch.ones(1, 1, 2)
    mixed = mix(mixer, torch.tensor([[[4.0, 8.0]]]), state)
    assert mixed.item() == pytest.approx(24, rel=1e-6)
    logit = 2 * math.log(3)  # before the scaling; the other agent's is 0
    assert mixer.penalty(state).item() == pytest.approx(0.5 * logit**2 / 2, rel=1e-6)


TEAM_METHODS = ["vdn", "qmix", "qplex_attention", "ow_qmix", "cw_qmix", "qtran", "pqn", "drqn"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("algo", TEAM_METHODS)
def test_every_loss_adds_the_penalty_of_its_mixer(algo):
    """Defect: only that of ``TDLoss`` did."""
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=5)
    words = [f"algo={algo}", "algo/mixer=qplex_attention", "algo.mixer.attention_penalty=0.5"]
    learner = rltrain.make_learner([*words, "hardware.kernels=torch"], spec)
    batch = make_batch([3, 2], spec)
    if algo == "pqn":
        batch = replace(batch, td_target=torch.zeros_like(batch.reward))

    def loss_sum():
        torch.manual_seed(0)
        return learner.loss(learner.online, learner.target, batch, Clock()).loss_sum

    with_penalty = loss_sum()
    learner.online.mixer.attention_penalty = 0.0
    expected = learner.online.mixer.attention_weight.logits(batch.state[:-1])[batch.mask]
    expected = 0.5 * expected.square().mean(-1).sum()
    torch.testing.assert_close(with_penalty - loss_sum(), expected, rtol=1e-3, atol=1e-5)


REFUSING = {
    "sum": "Sum",
    "qmix": "QMix",
    "qatten": "Qatten",
    "qplex": "QPlex",
    "qplex_attention": "QPlexAttention",
}


NO_STATE = r"needs a global state.*Type algo=vdn or algo=iql"
ALONE = r"Type algo=dqn for one agent, without algo/mixer\."
ONE_EACH = (
    r"{} needs one team reward, but the environment returns 2, one per agent: "
    r"set env\.reward=sum, or algo=iql, which learns from each agent's own\."
)
WITH_NETWORKS = [kind for kind in REFUSING if kind != "sum"]
CRITICS_OF = {"qtran": CRITICS["qtran"], "central": partial(CRITICS["central"], make_agents=None)}


@pytest.mark.parametrize(
    ("make", "changes", "said"),
    [
        *((MIXERS[k], {"n_rewards": 2}, ONE_EACH.format(REFUSING[k])) for k in REFUSING),
        *((MIXERS[k], {"state_dim": 0}, NO_STATE) for k in WITH_NETWORKS),
        *((MIXERS[k], {"n_agents": 1, "state_dim": 0}, ALONE) for k in WITH_NETWORKS),
        *((make, {"n_rewards": 2}, "team reward") for make in CRITICS_OF.values()),
        *((make, {"state_dim": 0}, "global state") for make in CRITICS_OF.values()),
    ],
)
def test_environments_that_do_not_fit_are_refused_with_what_to_type(make, changes, said):
    with pytest.raises(ValueError, match=said):
        make(spec=replace(SPEC, **changes))
