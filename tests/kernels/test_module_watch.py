"""Compiled code computes only what plain PyTorch would: hooks and replaced parts are noticed."""

import importlib
import logging

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

import rltrain
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.policy import Policy
from rltrain.errors import UsageError
from rltrain.interfaces import Model
from rltrain.kernels import compile_agents, compile_loss, compile_policy, module_watch
from rltrain.kernels.layers.td_step import CompiledTDLoss
from rltrain.kernels.recurrent.team_step import CompiledSequenceLoss
from rltrain.kernels.recurrent.weights import misfit
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import SPEC, make_batch
from tests.marks import each_once, slow_except

PLAIN = EnvSpec(n_agents=1, n_actions=2, obs_shape=(3,))
TINY = ["hardware.threads=1", "logger=[]", "algo.max_grad_norm=null"]


@pytest.fixture(autouse=True)
def lines(caplog):
    """The lines that are logged, each for the first time."""
    module_watch.forget_reasons()
    caplog.set_level(logging.WARNING, "rltrain")
    return caplog


def learner_of(algo, kernels="auto"):
    spec = SPEC if algo in ("qmix", "vdn", "iql") else PLAIN
    return rltrain.make_learner([f"algo={algo}", f"hardware.kernels={kernels}", *TINY], spec), spec


def update(learner, spec):
    """The gradient of one batch; the weights stay."""
    state = learner.state_dict()
    torch.manual_seed(0)
    learner.update(make_batch([4, 3], spec), Clock())
    gradient = learner.gradient_step.flat.gradient.clone()
    learner.load_state_dict(state)
    return gradient


def double(module, inputs, output):
    return 2 * output


PARTS = [
    ("qmix", lambda m: m.mixer),
    ("qmix", lambda m: m.mixer.hyper_w_1),
    ("qmix", lambda m: m.mixer.V[2]),
    ("qmix", lambda m: m.agents.fc1),
    ("vdn", lambda m: m.mixer),
    ("vdn", lambda m: m.agents.fc2),
    ("vdn", lambda m: m.agents.input),
    ("iql", lambda m: m.mixer),
    ("dqn", lambda m: m.mixer),
    ("dqn", lambda m: m.agents.head),
    ("dqn", lambda m: m.agents.head.advantage),
    ("dqn", lambda m: m.agents.head.advantage[-1]),
    ("dqn", lambda m: m.agents.torso),
    ("dqn", lambda m: m.agents.torso[0]),
    ("c51", lambda m: m.agents.torso[0]),
    ("noisy", lambda m: m.agents.head.advantage[-1]),
]


BOTH = [(*part_of, network) for network in ("online", "target") for part_of in PARTS]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", slow_except(BOTH[::4], BOTH))
def test_a_hook_of_any_part_is_called(case, lines):
    """Registered after the learner was built; without it compiled code computes again."""
    (algo, part, network), found = case, {}
    for kernels in ("auto", "torch"):
        learner, spec = learner_of(algo, kernels)
        assert (type(learner.loss) in (CompiledTDLoss, CompiledSequenceLoss)) is (kernels == "auto")
        before = update(learner, spec)
        handle = part(getattr(learner, network)).register_forward_hook(double)
        found[kernels] = update(learner, spec)
        update(learner, spec)
        handle.remove()
        torch.testing.assert_close(update(learner, spec), before, rtol=0, atol=0)
        assert (found[kernels] - before).abs().max() > 1e-3 or (network, algo) == ("target", "c51")
    torch.testing.assert_close(found["auto"], found["torch"], rtol=1e-4, atol=1e-5)
    said = [r.getMessage() for r in lines.records if "a hook of" in r.getMessage()]
    assert len(said) == len(set(said)) >= 1
    assert "PyTorch computes it, as with hardware.kernels=torch" in said[0]


@pytest.mark.parametrize("algo", ["dqn", "c51", "noisy", "iql", "qmix"])
def test_frozen_parameters_are_not_trained(algo, lines):
    """Also those that are frozen after the learner was built. Defect: compiled steps did."""
    found = {}
    for kernels in ("auto", "torch"):
        learner, spec = learner_of(algo, kernels)
        frozen = next(learner.online.parameters())
        assert update(learner, spec)[: frozen.numel()].any()
        frozen.requires_grad_(False)
        found[kernels] = update(learner, spec)
        assert not found[kernels][: frozen.numel()].any()
        frozen.requires_grad_(True)
        assert update(learner, spec)[: frozen.numel()].any()
    torch.testing.assert_close(found["auto"], found["torch"], rtol=1e-4, atol=1e-5)
    assert any("is not trained" in r.getMessage() for r in lines.records)


def twice(weight):
    weight.grad *= 2


def hook_everywhere(module):
    return nn.modules.module.register_module_forward_hook(
        lambda m, x, y: 2 * y if m is module else None
    )


def replace_forward(module):
    plain = module.forward
    module.forward = lambda *x: 2 * plain(*x)


KINDS = {
    "forward": lambda m: m.register_forward_hook(double),
    "pre": lambda m: m.register_forward_pre_hook(lambda m, x: tuple(2 * y for y in x)),
    "full_backward": lambda m: m.register_full_backward_hook(lambda m, x, y: (2 * x[0],)),
    "backward_pre": lambda m: m.register_full_backward_pre_hook(lambda m, y: (2 * y[0],)),
    "after_accumulation": lambda m: m.weight.register_post_accumulate_grad_hook(twice),
    "of_a_weight": lambda m: m.weight.register_hook(lambda gradient: 2 * gradient),
    "everywhere": hook_everywhere,
    "replaced_method": replace_forward,
}


@each_once(kind=KINDS, part_of=[PARTS[2], PARTS[5], PARTS[11]])
def test_every_kind_of_hook_takes_effect(kind, part_of):
    (algo, part), found = part_of, {}
    for kernels in ("auto", "torch"):
        learner, spec = learner_of(algo, kernels)
        before = update(learner, spec)
        handle = KINDS[kind](part(learner.online))
        found[kernels] = update(learner, spec)
        if kind == "everywhere":
            handle.remove()
        assert not torch.equal(found[kernels], before)
    torch.testing.assert_close(found["auto"], found["torch"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algo", ["dqn", "munchausen_dqn"])
def test_hooks_of_the_optimizer_are_called(algo):
    learner, spec = learner_of(algo)
    called = []
    learner.optimizer.register_step_post_hook(lambda *x: called.append("post"))
    learner.optimizer.register_step_pre_hook(lambda *x: called.append("pre"))
    learner.update(make_batch([4, 3], spec), Clock())
    assert called == ["pre", "post"]


@pytest.mark.parametrize("algo", ["qmix", "dqn", "noisy", "iqn"])
def test_hooks_are_called_while_acting(algo):
    learner, spec = learner_of(algo)
    agents = learner.online.agents
    rng = np.random.default_rng(0)
    given = {"exploration": FixedEpsilon(epsilon=0), "n_envs": 3, "noisy": False}
    policy = Policy(agents=agents, spec=spec, rng=rng, **given)
    compile_policy(policy)
    batch = make_batch([4], spec)
    obs = np.broadcast_to(batch.obs[0].numpy(), (3, *spec_shape(spec))).copy()

    def act():
        available = np.ones((3, spec.n_agents, spec.n_actions))
        policy.act(obs, available, np.zeros(3, bool), Clock())

    act()
    called = []
    last = agents.fc2 if algo == "qmix" else agents.head.advantage[-1]
    last.register_forward_hook(lambda *x: called.append(1))
    act()
    assert called == [1]


def spec_shape(spec):
    return (spec.n_agents, *spec.obs_shape)


def pruned(layer):
    prune.l1_unstructured(layer, "weight", 0.5)


def parametrized(layer):
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    parametrize.register_parametrization(layer, "weight", Doubled())


def qmix_model():
    torch.manual_seed(0)
    return Model(
        GRUAgents(spec=SPEC, hidden_dim=5, last_action=True, agent_id=True),
        QMix(spec=SPEC, embed_dim=4, hypernet_layers=2, hypernet_dim=6),
    )


@pytest.mark.parametrize("change", [pruned, parametrized])
@pytest.mark.parametrize("layer", ["agents.fc1", "agents.fc2", "mixer.V.2", "mixer.hyper_b_1"])
def test_parametrized_and_pruned_layers_are_left_to_pytorch(change, layer):
    results = []
    for compiled in (False, True):
        model = qmix_model()
        change(model.get_submodule(layer))
        loss = TDLoss(gamma=0.9, double=True, n_step=1)
        if compiled:
            compile_agents(model.agents)
            loss = compile_loss(loss, model)
        results.append(loss(model, model, make_batch([4, 3], SPEC), Clock()).loss_sum.item())
    assert results[0] == pytest.approx(results[1], rel=1e-5)


def three_layers(mixer, name):
    old = getattr(mixer, name)
    layers = nn.Sequential(old[0], nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), old[2])
    setattr(mixer, name, layers)


def wider(mixer, name):
    old = getattr(mixer, name)
    n_in, n_out = old[0].in_features, old[2].out_features
    setattr(mixer, name, nn.Sequential(nn.Linear(n_in, 9), nn.ReLU(), nn.Linear(9, n_out)))


def without_bias(mixer, name):
    old = getattr(mixer, name)
    old[2] = nn.Linear(old[2].in_features, old[2].out_features, bias=False)


def other_activation(mixer, name):
    getattr(mixer, name)[1] = nn.Tanh()


def one_layer(mixer, name):
    old = getattr(mixer, name)
    setattr(mixer, name, nn.Linear(old[0].in_features, old[2].out_features))


FORMS = [three_layers, wider, without_bias, other_activation, one_layer]
"""Of a hyper-network."""
OTHER_FORMS = [(f, n) for f in FORMS for n in ("hyper_w_1", "hyper_w_final", "V")]
OTHER_FORMS.remove((three_layers, "V"))  # whose layers are as wide as the mixing network


@pytest.mark.parametrize(("change", "name"), OTHER_FORMS)
def test_hyper_networks_of_another_form_train_rightly(change, name, lines):
    model = qmix_model()
    assert misfit(model) is None
    change(model.mixer, name)
    loss = TDLoss(gamma=0.9, double=True, n_step=1)
    batch = make_batch([4, 3], SPEC)
    assert compile_loss(loss, model) is loss
    assert loss(model, model, batch, Clock()).loss_sum.isfinite()
    if not (change is one_layer and name == "hyper_w_1"):  # then there is no counterpart
        assert any("PyTorch computes it" in r.getMessage() for r in lines.records)
        said = r"hardware\.kernels=compiled: .*Type hardware\.kernels=auto"
        with pytest.raises(ValueError, match=said):
            compile_loss(loss, model, choice="compiled")


@pytest.mark.parametrize("name", ["fc1", "fc2", "rnn"])
@pytest.mark.parametrize("algo", ["qmix", "vdn"])
def test_sizes_are_compared_before_memory_is_read(algo, name):
    learner, _ = learner_of(algo, "torch")
    assert misfit(learner.online) is None
    part = learner.online.agents.get_submodule(name)
    for key, weight in list(part.named_parameters()):
        part._parameters[key] = nn.Parameter(torch.zeros(*weight.shape[:-1], weight.shape[-1] + 8))
        assert f"{name}.{key} has shape" in misfit(learner.online)
        part._parameters[key] = weight
    assert misfit(learner.online) is None


@pytest.mark.parametrize(
    ("algo", "module", "name", "plain"),
    [
        ("qmix", "rltrain.algo.mixer.qmix:QMix", "forward", "loss"),
        ("qmix", "rltrain.algo.loss.td:TDLoss", "_td_target", "loss"),
        ("dqn", "rltrain.algo.loss.td:TDLoss", "_td_target", "loss"),
        ("c51", "rltrain.algo.loss.distributional:CategoricalLoss", "__call__", "loss"),
        ("dqn", "rltrain.algo.mixer.sum:Independent", "forward", "loss"),
        ("dqn", "rltrain.algo.optimizer:GradientStep", "take", "step"),
        ("dqn", "rltrain.algo.network.head:Head", "forward", "loss"),
    ],
)
def test_a_changed_class_is_named_and_left_to_torch(algo, module, name, plain, monkeypatch, lines):
    cls = getattr(importlib.import_module(module.partition(":")[0]), module.partition(":")[2])
    old = vars(cls)[name]
    monkeypatch.setattr(cls, name, lambda *args, **options: old(*args, **options))
    learner, spec = learner_of(algo)
    if plain == "loss":
        assert type(learner.loss) not in (CompiledTDLoss, CompiledSequenceLoss)
    else:
        assert "take" not in vars(learner.gradient_step)
    said = [r.getMessage() for r in lines.records]
    file = module.partition(":")[0].replace(".", "/")
    wanted = f"{file}.py: {cls.__name__}.{name} was changed: PyTorch computes it"
    assert len([line for line in said if line.startswith(wanted)]) == 1
    update(learner, spec)
    assert len(lines.records) == len(said)  # once
    with pytest.raises(UsageError, match=rf"{cls.__name__}\.{name} was changed"):
        learner_of(algo, "compiled")


def test_edits_of_what_a_run_does_not_use_are_no_matter(monkeypatch, lines):
    monkeypatch.setattr(QMix, "forward", lambda *x: None)
    for algo in ("vdn", "iql", "dqn"):
        learner, _ = learner_of(algo, "compiled")
        assert type(learner.loss) in (CompiledTDLoss, CompiledSequenceLoss)
    assert not lines.records


def test_every_run_of_a_process_says_what_pytorch_computes(lines):
    """Defect: only the first run did."""
    for _ in range(2):
        lines.clear()
        learner, spec = learner_of("qmix")
        learner.online.mixer.register_forward_hook(double)
        update(learner, spec)
        assert [r.message for r in lines.records if "a hook of Model" in r.getMessage()]
