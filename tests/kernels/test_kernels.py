"""``hardware.kernels`` chooses how networks are computed, in one place."""

import copy
import json

import pytest
import torch

import rltrain
from rltrain import kernels
from rltrain.algo.loss.td import TDLoss
from rltrain.kernels.layers.td_step import CompiledTDLoss
from rltrain.kernels.recurrent.team_step import CompiledSequenceLoss
from rltrain.types import EnvSpec
from tests.algo.batches import AGENTS, SPEC
from tests.helpers import python

TINY = ["hardware.threads=1", "logger.wandb.mode=disabled", "logger.console=false"]
PLAIN = EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,))

UPDATE = """
import sys, json
import rltrain
from rltrain.types import Clock
from tests.algo.batches import SPEC, make_batch
for algo, network in (("qmix", "gru"), ("iql", "mlp")):
    words = [f"algo={algo}", f"algo/network={network}", "hardware.kernels=torch"]
    learner = rltrain.make_learner(words, SPEC)
    learner.update(make_batch([4, 3], SPEC), Clock())
print(json.dumps([name for name in sys.modules if "numba" in name or name.endswith("_kernel")]))
"""


@pytest.mark.slow
def test_torch_imports_no_compiled_code(request):
    done = python("-c", UPDATE, cwd=request.config.rootpath, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize(("choice", "compiled"), [("auto", True), ("torch", False)])
def test_the_switch_chooses_loss_and_network(choice, compiled):
    learner = rltrain.make_learner(["algo=dqn", f"hardware.kernels={choice}", *TINY], PLAIN)
    assert isinstance(learner.loss, CompiledTDLoss) is compiled
    assert isinstance(learner.loss, TDLoss) is not compiled
    assert ("step" in vars(learner.online.agents)) is compiled
    learner = rltrain.make_learner(["algo=qmix", f"hardware.kernels={choice}", *TINY], SPEC)
    assert isinstance(learner.loss, CompiledSequenceLoss) is compiled
    assert ("unroll" in vars(learner.online.agents.rnn)) is compiled


def test_copies_compute_with_their_own_weights():
    """As the learner copies the target, and parameter noise the agents that act."""
    agents = AGENTS["mlp"](spec=SPEC, last_action=False, agent_id=False)
    kernels.compile_agents(agents)
    other = copy.deepcopy(agents)
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
        obs, action = torch.randn(1, 2, 3), torch.zeros(1, 2, dtype=torch.int64)
        q, _ = other.step(obs, action, torch.zeros(1, 2, 0))
        assert not q.any()
        assert not other.torso(obs).any()
        assert agents.torso(obs).any()
        q, _ = agents.step(obs, action, torch.zeros(1, 2, 0))
        assert q.any()


def test_a_network_of_ones_own_is_left_alone():
    class Own(type(AGENTS["mlp"](spec=SPEC))):
        """Computes something else."""

    agents = AGENTS["mlp"](spec=SPEC, last_action=False, agent_id=False)
    own = Own(
        embed=agents.input, torso=agents.torso, head=agents.head, distribution=agents.distribution
    )
    kernels.compile_agents(own)
    assert "step" not in vars(own)


def test_the_banner_says_what_was_chosen(command, small, capsys):
    assert command("algo=vdn", *small, "logger.console=true", "total_env_steps=20") == 0
    assert "compiled kernels" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "atol"),
    [
        (["algo=dqn", "env=cartpole", "tuned=none"], 1e-4),
        (["algo=rainbow", "env=cartpole"], 1e-3),
        (["algo=qmix", "env=two_step", "algo.batch_size=4"], 1e-4),
    ],
)
def test_both_choices_learn_the_same(overrides, atol, tmp_path):
    """To rounding, which grows with the number of updates: Adam makes steps of the same size from
    the smallest gradients, of which a distribution has the most."""
    learned = []
    for choice in ("compiled", "torch"):
        trainer = rltrain.make_trainer(
            [*overrides, f"hardware.kernels={choice}", "hardware.n_envs=2", *TINY]
            + (["algo.learning_starts=64"] if "env=cartpole" in overrides else []),
            run_dir=tmp_path / choice,
        )
        trainer.run(96)
        assert trainer.clock.updates > 3
        learned.append(trainer.learner.state_dict()["online"])
        trainer.close()
    torch.testing.assert_close(*learned, rtol=1e-3, atol=atol)
