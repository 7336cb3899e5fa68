"""mode=import: weights, moments and step of PyMARL's checkpoint folders, and what is refused."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rltrain
from rltrain.algo import adam, rmsprop
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.migrate import named_parts
from rltrain.migrate.pymarl_files import read_folder
from rltrain.mode.import_checkpoint import load_files
from rltrain.types import EnvSpec
from tests.migrate.test_pymarl_files import Evil

SPEC = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3)  # of env=two_step
OVERRIDES = ["algo=qmix", "algo.network.hidden_dim=8", "algo.mixer.embed_dim=4"]
DEFAULTS = {
    rmsprop: {"lr": 5e-4, "alpha": 0.99, "eps": 1e-5},
    adam: {"lr": 5e-4, "betas": [0.9, 0.999], "eps": 1e-8},
}
OVERRIDES += ["algo.mixer.hypernet_dim=5", "hardware.threads=1"]
MLP = ["algo/network=mlp", "algo.network.hidden_sizes=[8,8]", "algo.network.last_action=true"]


class RNNAgent(nn.Module):
    """PyMARL's, by its names."""

    def __init__(self, n_inputs=3 + 2 + 2, hidden=8, memory=True, norm=False):
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, hidden)
        self.rnn = nn.GRUCell(hidden, hidden) if memory else nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, 2)
        if norm:  # PyMARL2's use_layer_norm
            self.layer_norm = nn.LayerNorm(hidden)

    def forward(self, inputs, hidden):
        x = F.relu(self.fc1(inputs))
        h = self.rnn(x, hidden) if isinstance(self.rnn, nn.GRUCell) else F.relu(self.rnn(x))
        return self.fc2(h), h


class QMixer(nn.Module):
    """The parameters of PyMARL's, in its order."""

    def __init__(self):
        super().__init__()
        self.hyper_w_1 = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 8))
        self.hyper_w_final = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4))
        self.hyper_b_1 = nn.Linear(3, 4)
        self.V = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def pymarl_folder(path, agent, mixer=None, kind=rmsprop, **options):
    """Write a folder as PyMARL does, after a step on random gradients; returns the optimizer.

    The file is that of ``optimizer.state_dict()``, which would import torch._dynamo (seconds).
    """
    path.mkdir(parents=True)
    parameters = [*agent.parameters(), *(mixer.parameters() if mixer else ())]
    optimizer = kind(parameters, **(options or DEFAULTS[kind]))
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    torch.save(agent.state_dict(), path / "agent.th")
    if mixer is not None:
        torch.save(mixer.state_dict(), path / "mixer.th")
    (group,) = optimizer.param_groups
    state = {i: optimizer.state[parameter] for i, parameter in enumerate(parameters)}
    options = {**group, "params": list(state)}
    torch.save({"state": state, "param_groups": [options]}, path / "opt.th")
    return optimizer


def imported(folder, overrides=OVERRIDES):
    """A learner with the weights of a folder, and the remarks."""
    learner = rltrain.make_learner(overrides, SPEC)
    return learner, load_files(learner, read_folder(folder, None))


@pytest.fixture
def folder(own_folder):
    torch.manual_seed(0)
    return own_folder / "models" / "qmix_2026" / "4000"


def test_imported_run_has_the_values_of_pymarl_and_goes_on_from_its_step(command, folder, small):
    agent = RNNAgent()
    pymarl_folder(folder, agent, QMixer())
    pymarl_folder(folder.with_name("2000"), RNNAgent(), QMixer())
    code = command("mode=import", f"checkpoint={folder.parents[1]}", *small, *OVERRIDES)
    assert code == 0
    (run,) = Path("outputs/qmix-two_step").glob("*-s0-*")
    policy = rltrain.load_policy(run)
    assert policy.step == 4000
    obs, hidden, last = torch.rand(4, 2, 3), torch.zeros(2, 8), torch.zeros(2, 2)
    for step in obs:
        q, hidden = agent(torch.cat([step, last, torch.eye(2)], -1), hidden)
        action = policy.act(step.numpy())
        assert (action == q.argmax(-1).numpy()).all()
        assert torch.allclose(torch.from_numpy(policy.policy.hidden[0]), hidden, atol=1e-6)
        last = F.one_hot(q.argmax(-1), 2).float()
    assert rltrain.evaluate(run, episodes=2).metrics["test/episode_length_mean"] == 2
    resumed = rltrain.resume(run, total_env_steps=4060)
    assert resumed.history["env_steps"][0] == 4000
    assert resumed.history["env_steps"][-1] >= 4060
    assert resumed.metrics["train/epsilon"] == pytest.approx(0.05)


def test_the_printed_commands_name_what_must_be_trusted(command, folder, small, capsys):
    """Defect: as they were printed they were refused."""
    pymarl_folder(folder, RNNAgent(), QMixer())
    Path("my_game.py").write_text("from rltrain.env import TwoStepGames as make\n")
    typed = [*small, *OVERRIDES, "env._target_=my_game.make", "total_env_steps=3000"]
    assert command("mode=import", f"checkpoint={folder}", *typed, "hydra.run.dir=run") == 0
    said = capsys.readouterr().out
    assert "rltrain mode=evaluate checkpoint=run trust=[my_game]\n" in said
    assert "rltrain resume=run total_env_steps=6000 trust=[my_game]\n" in said


@pytest.mark.parametrize("kind", [rmsprop, adam])
def test_next_step_is_that_of_the_optimizer_that_was_saved(folder, kind):
    agent, mixer = RNNAgent(), QMixer()
    optimizer = pymarl_folder(folder, agent, mixer, kind)
    learner, remarks = imported(folder, [*OVERRIDES, f"algo/optimizer={kind.__name__}"])
    assert remarks == ()
    named = {f"agents.{name}": p for name, p in agent.named_parameters()}
    named |= {f"mixer.{name}": p for name, p in mixer.named_parameters()}
    ours = dict(learner.online.named_parameters())
    assert ours.keys() == named.keys()
    for name, parameter in named.items():
        gradient = torch.randn_like(parameter)
        parameter.grad = gradient
        ours[name].grad.copy_(gradient)
    optimizer.step()
    learner.optimizer.step()
    for name, parameter in named.items():
        assert torch.allclose(ours[name], parameter, atol=1e-7), name
    target = learner.target.state_dict()
    assert not torch.equal(target["agents.fc1.weight"], ours["agents.fc1.weight"])


def test_agents_without_memory_become_feed_forward_ones(folder):
    agent = RNNAgent(memory=False)
    pymarl_folder(folder, agent)
    learner, _ = imported(folder, ["algo=vdn", *MLP])
    obs, last = torch.rand(1, 2, 3), torch.tensor([[-1, 1]])
    q, _ = learner.online.agents.step(obs, last, torch.zeros(1, 2, 0))
    one_hot = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    theirs, _ = agent(torch.cat([obs[0], one_hot, torch.eye(2)], -1), None)
    assert torch.allclose(q[0], theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("agent", "overrides", "message"),
    [
        (
            {"hidden": 16},
            [],
            r"\[16, 7\], expected \[8, 7\]; .*Type algo.network.hidden_dim=16",
        ),
        ({"n_inputs": 3}, [], r"Type algo.network.last_action=false algo.network.agent_id=false\."),
        ({"n_inputs": 9}, [], "2 agents, 2 actions, observation 3, state 3. .*map_name"),
        ({"norm": True}, [], r"Type algo.network.layer_norm=true\."),
        ({"memory": False}, [], r"algo/network=mlp algo.network.hidden_sizes=\[8,8\]"),
        ({}, ["algo=vdn", "algo.network.hidden_dim=8"], "Type algo=qmix"),
        ({}, [*OVERRIDES[:2], "algo.mixer.embed_dim=9"], "algo.mixer.embed_dim=4 .*dim=5"),
    ],
)
def test_other_sizes_are_named_with_what_to_type(folder, agent, overrides, message):
    pymarl_folder(folder, RNNAgent(**agent), QMixer())
    with pytest.raises(UsageError, match=message):
        imported(folder, overrides or OVERRIDES)


def of_first(**moments):
    """A change of the first parameter's moments; None removes one."""

    def change(saved):
        both = {**saved["state"][0], **moments}
        saved["state"][0] = {name: x for name, x in both.items() if x is not None}

    return change


def of_agent(name, change):
    return lambda saved: saved.update({name: change(saved[name])})


NO_OPTIMIZER = "opt.th is not an optimizer's state_dict"
NO_FIT = "does not fit: "


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("opt.th", of_first(square_avg=torch.full((8, 7), float("nan"))), NO_OPTIMIZER),
        ("opt.th", of_first(square_avg=torch.zeros(8, 7).to_sparse()), NO_OPTIMIZER),
        ("opt.th", of_first(square_avg=torch.zeros(8, 7) * 1j), NO_OPTIMIZER),
        ("opt.th", of_first(square_avg=torch.zeros(56)), "square_avg has different sizes"),
        ("opt.th", of_first(square_avg=None), NO_OPTIMIZER),
        ("opt.th", of_first(step=None), NO_OPTIMIZER),
        *(
            ("opt.th", of_first(step=step), NO_OPTIMIZER)
            for step in (torch.ones(2), torch.tensor(float("nan")), -3, 10**16, torch.tensor(1j))
        ),
        ("agent.th", of_agent("fc1.weight", torch.flatten), NO_FIT),
        ("agent.th", of_agent("fc2.weight", torch.sum), r"fc2.weight has \[\], expected"),
        ("agent.th", of_agent("rnn.weight_ih", torch.sum), NO_FIT),
        ("agent.th", lambda saved: saved.pop("fc1.weight"), NO_FIT),
        ("agent.th", of_agent("fc1.weight", torch.Tensor.to_sparse), "is not a state_dict"),
        ("mixer.th", of_agent("hyper_b_1.weight", torch.sum), NO_FIT),
        ("mixer.th", of_agent("hyper_w_1.0.weight", torch.sum), NO_FIT),
    ],
)
def test_damaged_tensors_are_answered(folder, file, change, message):
    """Defects: NaN was taken over, and the others ended in tracebacks."""
    pymarl_folder(folder, RNNAgent(), QMixer())
    content = torch.load(folder / file, weights_only=True)
    change(content)
    torch.save(content, folder / file)
    with pytest.raises(RltrainError, match=message):
        imported(folder)


def test_an_optimizer_that_starts_again_is_not_named_as_imported(command, folder, small, capsys):
    pymarl_folder(folder, RNNAgent(), QMixer())
    torch.save({"state": {}, "param_groups": []}, folder / "opt.th")
    assert command("mode=import", f"checkpoint={folder}", *small, *OVERRIDES) == 0
    assert "Imported agent.th, mixer.th of" in capsys.readouterr().out


def test_moments_of_another_optimizer_are_refused_with_its_name(folder):
    pymarl_folder(folder, RNNAgent(), QMixer(), adam, **{**DEFAULTS[adam], "lr": 1e-3})
    with pytest.raises(UsageError, match=r"Type algo/optimizer=adam algo\.optimizer\.lr=0\.001"):
        imported(folder)


def test_what_differs_or_is_missing_is_said(folder):
    pymarl_folder(folder, RNNAgent(), QMixer(), lr=1e-3, alpha=0.99, eps=1e-5)
    learner, (remark,) = imported(folder)
    assert "type algo.optimizer.lr=0.001 to keep it" in remark
    (folder / "opt.th").unlink()
    (remark,) = load_files(learner, read_folder(folder, None))
    assert remark == "There is no opt.th: the optimizer starts from scratch."
    (folder / "mixer.th").unlink()
    with pytest.raises(UsageError, match=r"there is no mixer\.th, .*Type algo=vdn \(or algo=iql\)"):
        load_files(learner, read_folder(folder, None))


@pytest.mark.parametrize("name", ["agent.th", "mixer.th", "opt.th"])
def test_a_pickle_that_wants_to_run_code_is_refused(command, folder, small, name):
    pymarl_folder(folder, RNNAgent(), QMixer())
    torch.save({"fc1.weight": torch.zeros(8, 7), "more": Evil()}, folder / name)
    with pytest.raises(CheckpointError, match=rf"{name} is refused: .*posix.system"):
        command("mode=import", f"checkpoint={folder}", *small, *OVERRIDES)
    assert not Path("executed").exists()
    assert not Path("outputs").exists()


class NonSharedAgents(nn.Module):
    """EPyMARL's non_shared_mac, by its names."""

    def __init__(self, **options):
        super().__init__()
        self.agents = nn.ModuleList(RNNAgent(3 + 2, **options) for _ in range(2))


@pytest.mark.parametrize("groups", ["[[0],[1]]", "[[1],[0]]"])
@pytest.mark.parametrize("memory", [True, False])
def test_a_network_per_agent_becomes_a_group_per_agent(folder, groups, memory):
    theirs, mixer = NonSharedAgents(memory=memory), QMixer()
    optimizer = pymarl_folder(folder, theirs, mixer)
    overrides = [*OVERRIDES, f"algo.network.groups={groups}"]
    if not memory:
        overrides = [w for w in overrides if "hidden_dim" not in w]
        overrides += MLP
    learner, remarks = imported(folder, overrides)
    assert remarks == ()
    obs, last = torch.rand(1, 2, 3), torch.tensor([[-1, 1]])
    hidden = torch.zeros(1, 2, 8 if memory else 0)
    q, _ = learner.online.agents.step(obs, last, hidden)
    one_hot = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    for i, agent in enumerate(theirs.agents):
        expected, _ = agent(torch.cat([obs[:, i], one_hot[i : i + 1]], -1), torch.zeros(1, 8))
        assert torch.allclose(q[0, i], expected[0], atol=1e-6)
    moments = learner.state_dict()["optimizer"]["square_avg"]
    order = theirs.agents if groups == "[[0],[1]]" else reversed(theirs.agents)
    expected = [optimizer.state[p]["square_avg"] for a in order for p in a.parameters()]
    expected = torch.cat([moment.flatten() for moment in expected])
    assert torch.equal(moments[: len(expected)], expected)


def test_networks_and_groups_that_differ_are_refused_with_the_groups_to_type(folder):
    pymarl_folder(folder, NonSharedAgents(), QMixer())
    with pytest.raises(UsageError, match=r"Type algo\.network\.groups=\[\[0\],\[1\]\]\."):
        imported(folder, [*OVERRIDES, "algo.network.agent_id=false"])
    pymarl_folder(folder.with_name("2"), RNNAgent(), QMixer())
    with pytest.raises(UsageError, match=r"Type algo\.network\.groups=null"):
        imported(folder.with_name("2"), [*OVERRIDES, "algo.network.groups=[[0],[1]]"])


def test_of_a_run_the_nearest_step_is_taken_and_said(folder):
    for step in (1000, 2000):
        pymarl_folder(folder.with_name(str(step)), RNNAgent())
    files = read_folder(folder.parent, 1400)
    assert files.env_steps == 1000
    assert files.remarks == ("There is no checkpoint of env step 1,400: 1,000 is the nearest.",)
    pymarl_folder(folder.parents[1] / "vdn_2026" / "1000", RNNAgent())
    with pytest.raises(UsageError, match="the models of 2 runs"):
        read_folder(folder.parents[1], None)
    with pytest.raises(CheckpointError, match=r"There is no agent\.th"):
        read_folder(folder, None)
    pymarl_folder(folder.with_name(f"{10**17}"), RNNAgent())
    with pytest.raises(CheckpointError, match="expected at most 1,000,000,000,000,000"):
        read_folder(folder.with_name(f"{10**17}"), None)


@pytest.mark.parametrize("algo", ["qtran", "qplex", "ow_qmix"])
def test_other_mixers_and_their_moments_are_taken_over(folder, algo):
    overrides = [f"algo={algo}", "algo.network.hidden_dim=8", "hardware.threads=1"]
    parts = named_parts(rltrain.make_learner([*overrides, "seed=1"], SPEC).online)
    optimizer = pymarl_folder(folder, parts["agent"], parts["mixer"])
    learner, remarks = imported(folder, [*overrides, "seed=2"])
    ours = named_parts(learner.online)
    for part in ("agent", "mixer"):
        for name, tensor in parts[part].state_dict().items():
            assert torch.equal(ours[part].state_dict()[name], tensor), name
    if "central_mixer" in ours:
        assert any("no central networks" in remark for remark in remarks)
        return
    assert remarks == ()
    moments = learner.state_dict()["optimizer"]["square_avg"]
    of_parameter = {
        p.data_ptr(): optimizer.state[q]["square_avg"]
        for part in ("agent", "mixer")
        for p, q in zip(ours[part].parameters(), parts[part].parameters(), strict=True)
    }
    expected = [of_parameter[p.data_ptr()].flatten() for p in learner.online.parameters()]
    assert torch.equal(moments, torch.cat(expected))
