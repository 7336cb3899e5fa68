"""mode=export: the file gives the policy's values, the script acts with it, and what cannot be
exported is said.
"""

import importlib.util
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import rltrain
from rltrain.config.catalog import CONF
from rltrain.env.smac import StarCraft2Env
from rltrain.errors import UsageError
from rltrain.mode.export.network import ComparedAgents, export
from rltrain.types import Output
from tests.env.scripted import Sampled
from tests.env.team.scripted import Scripted
from tests.helpers import python
from tests.integration.promises.envs import Images, Keys
from tests.mode.test_export_folder import ONE_AGENT, saved

IMAGES = ["env=gymnasium", "algo/network=conv", "algo.network.filters=[[4,3,2]]"]
IMAGES += ["algo.network.hidden_sizes=[8]", "hardware.threads=1", "env.frame_stack=2"]


def loaded_script(folder):
    """The ``Policy`` of the script next to an exported network."""
    spec = importlib.util.spec_from_file_location("act", folder / "act.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OnnxPolicy()


@pytest.fixture
def exported_run(own_folder, monkeypatch):
    """Exports an untrained run, also of an environment that is passed as an object.

    Returns the folder of the export, the policy of its script and that of the run.
    """

    def done(overrides, env=None):
        if env is not None:
            opened = opened_with(env)
            monkeypatch.setattr("rltrain.mode.export.network.open_checkpoint", opened)
        run = saved(overrides, own_folder / "run", env)
        folder = export(run, ["test.episodes=2"], None)
        return folder, loaded_script(folder), rltrain.load_policy(run)

    return done


def record_in(folder):
    return json.loads((folder / "export.json").read_text())


@pytest.mark.slow
def test_the_script_on_the_page_plays_a_battle(own_folder, monkeypatch, capsys):
    run = saved(["algo=qmix", "env=smac", "hardware.threads=1", "hardware.n_envs=1"], own_folder)
    folder = export(run, ["test.episodes=1"], None)
    page = (CONF.parent / "docs/models.md").read_text(encoding="utf-8")
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "session" in c)
    assert len([line for line in code.splitlines() if line]) <= 20
    monkeypatch.chdir(folder)
    exec(compile(code, "page", "exec"), scope := {})
    assert scope["total"] >= 0
    policy = rltrain.load_policy(run)
    env, over = StarCraft2Env(map_name="3m", seed=0), False
    env.reset()
    while not over:
        obs, available = np.array(env.get_obs()), np.array(env.get_avail_actions())
        reward, over, _ = env.step(policy.act(obs, available))
        scope["total"] -= reward
    assert scope["total"] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        ([1.0, 4.0], [1.0, 5.0], 0.25),
        ([1.0, 4.0], [1.0, math.nan], math.nan),
        ([1.0, -math.inf], [1.0, -math.inf], 0.0),
        ([1.0, -math.inf], [1.5, -math.inf], 0.5),
        ([1.0, -math.inf], [1.0, -9.0], math.inf),
    ],
)
def test_values_that_are_not_numbers_differ(ours, theirs, difference):
    """Defect: a NaN of the file was no difference, and beside an infinite value nothing was."""
    q, written = torch.tensor([[ours]]), [None, np.float32([[theirs]])]
    compared = SimpleNamespace(network=SimpleNamespace(examples={"obs": q}), difference=0.0)
    compared.agents = SimpleNamespace(step=lambda *given: (q, q[..., :0]))
    compared.n_steps, compared.session = 0, SimpleNamespace(run=lambda *given: written)
    ComparedAgents.step(compared, q, q, q)
    written[1] = q.numpy()
    ComparedAgents.step(compared, q, q, q)
    assert compared.difference == pytest.approx(difference, nan_ok=True)


@pytest.mark.slow
def test_script_acts_as_the_policy_of_a_recurrent_team(command, small, own_folder):
    run = rltrain.train(small).run_dir
    assert command("mode=export", f"checkpoint={run}", "load_step=best", "test.episodes=4") == 0
    (folder,) = (run / "onnx").iterdir()
    record = record_in(folder)
    assert record["compared_steps"] > 0
    assert record["largest_relative_difference"] < 1e-5
    exported, policy = loaded_script(folder), rltrain.load_policy(run, load_step="best")
    rng = np.random.default_rng(0)
    for t in range(20):
        if t == 10:
            exported.reset(), policy.reset()
        obs = rng.normal(size=(2, 3)).astype(np.float32)
        available = np.array([[1, t % 2], [t % 3 == 0, 1]])
        given = available.tolist() if t % 4 == 1 else available
        assert (exported.act(obs, given) == policy.act(obs, available)).all()
        assert exported.hidden == pytest.approx(policy.policy.hidden, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["algo=dqn", "algo.network.dueling=true", "algo.network.layer_norm=true"],
        ["algo=c51", "algo.network.noisy_sigma=0.5"],
        ["algo=qrdqn", "algo.network.last_action=true"],
        ["algo=iqn", "algo.network.normalize_obs=true"],
        ["algo=drqn", "algo/distribution=quantile", "algo/loss=quantile"],
    ],
    ids=["dueling", "categorical-noisy", "quantile", "implicit-quantile", "recurrent-quantile"],
)
def test_every_kind_of_network_is_exported(overrides, own_folder, exported_run):
    done, exported, policy = exported_run([*ONE_AGENT, *overrides])
    for obs in np.random.default_rng(0).normal(size=(20, 1, 4)).astype(np.float32):
        assert exported.act(obs) == policy.act(obs)
    exported.reset()
    policy.reset()
    assert exported.act(obs.astype(np.float64)) == policy.act(obs)  # NumPy's own type
    with (done / "act.py").open("a") as script:
        script.write("# mine")
    with pytest.raises(UsageError, match=r"is not empty \(act\.py\).* Move them elsewhere"):
        export(own_folder / "run", ["test.episodes=2"], None)


class Pictures(Images):
    """Actions are numbered from 1."""

    action_space = spaces.Discrete(3, start=1)


@pytest.mark.slow
def test_stacked_images_reach_the_network_as_bytes(exported_run):
    done, exported, policy = exported_run(["algo=dqn", *IMAGES], Pictures)
    assert record_in(done)["inputs"]["obs"] == "uint8 [batch, 1, 2, 6, 6]"
    for _ in range(2):
        exported.reset(), policy.reset()
        for obs in np.random.default_rng(0).integers(0, 256, (4, 1, 1, 6, 6), np.uint8):
            assert exported.act(obs) == policy.act(obs)


@pytest.mark.slow
def test_a_network_with_an_encoder_per_key_is_exported(exported_run):
    overrides = [word.replace("conv", "multi_input") for word in IMAGES]
    _, exported, policy = exported_run(["algo=dqn", *overrides], Keys)
    for obs in np.random.default_rng(0).random((6, 1, 37), np.float32):
        assert exported.act(obs) == policy.act(obs)


class OwnSpaces(Sampled):
    """A category, numbers and an image; two choices."""

    observation_space = spaces.Dict(
        {
            "b": spaces.Box(-1, 1, (2,)),
            "a": spaces.Discrete(3, start=1),
            "c": spaces.Box(0, 200, (12, 12, 3), np.uint8),
        }
    )
    action_space = spaces.MultiDiscrete([2, 3], start=[1, 0])


@pytest.mark.slow
def test_the_record_says_how_observations_and_actions_are_converted(exported_run):
    done, exported, policy = exported_run(["algo=dqn", "env=gymnasium"], OwnSpaces)
    record = record_in(done)
    n, first = zip(*record["action_components"], strict=True)
    space = OwnSpaces.observation_space
    for _ in range(8):
        obs, parts = space.sample(), []
        for name, part in record["observation_space"]["dict"]:
            category = "discrete" in part
            one_hot = np.eye(part["discrete"])[obs[name] - part["start"]] if category else None
            scale = part["high"] if "channels" in part else 1
            parts.append(one_hot if category else obs[name].ravel() / scale)
        action = np.unravel_index(exported.act(np.concatenate(parts)), n) + np.array(first)
        assert (action == policy.act(obs)).all()


def opened_with(maker):
    """``open_checkpoint`` for a run whose environment was passed as an object."""
    from rltrain.config.python_objects import with_env
    from rltrain.mode.evaluate import open_checkpoint

    def opened(*arguments, **options):
        found, settings = open_checkpoint(*arguments, **{**options, "plays": False})
        return found, with_env(settings, maker)

    return opened


class Branching(nn.Module):
    """Agents whose computation depends on the values of a tensor."""

    hidden_dim = 0

    def __init__(self, *, spec):
        super().__init__()
        self.linear = nn.Linear(spec.obs_shape[0], spec.n_actions)

    def unroll(self, batch, start=0, stop=None):
        return Output(self.linear(batch.obs), batch.obs[..., :0])

    def step(self, obs, last_action, hidden):
        q = self.linear(obs)
        return (q if float(q.sum()) > 0 else q.detach().numpy()), hidden


WITHOUT_ONNX = {
    "Branching": r"Branching \(algo\.network\) cannot be exported",
    "Drawing": "gives different values as ONNX",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_ONNX)
def test_a_network_that_onnx_does_not_compute_is_refused(own_folder, name):
    network = f"algo.network={{_target_: tests.mode.test_export.{name}}}"
    run = saved([*ONE_AGENT, "algo=dqn", network], own_folder / "run")
    with pytest.raises(rltrain.errors.CheckpointError, match=r"trust=\[tests\]"):
        export(run, [], None)
    with pytest.raises(UsageError, match=WITHOUT_ONNX[name]):
        export(run, ["trust=[tests]"], None)
    assert not (run / "onnx").exists()


class Drawing(Branching):
    """Agents that draw noise in evaluation mode."""

    def step(self, obs, last_action, hidden):
        return self.linear(obs) + torch.rand(obs.shape[0], 1, 1), hidden


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch, own_folder):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"mode=export needs onnx, .*pip install .*onnx"):
        export(own_folder, [], None)


def script_prints(folder):
    return python("act.py", cwd=folder, check=True).stdout.strip()


REWARD = "env.kwargs.sutton_barto_reward=true"
LIMITED = ["algo=dqn", "env.max_episode_steps=5", f"+{REWARD}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "typed", "prints"),
    [
        (["algo=qmix", "env=two_step"], [], r"qmix on two_step.*: .* zeros give .* \[\d \d\]"),
        ([*ONE_AGENT, *LIMITED], [REWARD], "CartPole-v1: return 0 in 5 steps"),
    ],
)
def test_the_script_prints_actions_or_plays_a_game(own_folder, overrides, typed, prints):
    """Defect: without its keywords and its time limit."""
    folder = export(saved(overrides, own_folder / "run"), ["test.episodes=2", *typed], None)
    assert re.fullmatch(prints, script_prints(folder))


@pytest.mark.slow
def test_the_script_plays_and_takes_an_observation_as_gymnasium_gives_it(exported_run):
    words = ["algo=dqn", "env=cartpole", "env.frame_stack=2"]
    folder, exported, policy = exported_run(words)
    assert re.fullmatch(r"CartPole-v1: return \d+ in \d+ steps", script_prints(folder))
    for obs in np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32):
        action = exported.act(obs)
        assert isinstance(action, int)
        assert action == policy.act(obs[None])[0]


def named_team():
    """Two agents with first actions of their own."""
    return Scripted(actions=(spaces.Discrete(2, start=5), spaces.Discrete(3, start=-1)))


@pytest.mark.slow
def test_the_script_numbers_actions_of_a_team_as_its_environment(exported_run):
    done, exported, policy = exported_run(["algo=vdn", "env=pettingzoo"], named_team)
    assert (record_in(done)["first_action"], len(record_in(done)["agents"])) == ("5,-1", 2)
    obs, available = np.ones((2, 2), np.float32), np.array([[0, 1, 0], [0, 0, 1]])
    assert exported.act(obs, available).tolist() == [6, 1]
    assert policy.act(obs, available).tolist() == [6, 1]
