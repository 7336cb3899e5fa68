"""Every loss solves a small corridor."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from rltrain.algo.loss.q_lambda import LambdaLoss
from rltrain.algo.optimizer import adam
from rltrain.algo.target_update import TargetUpdate
from rltrain.algo.targets import unscale
from rltrain.types import Clock, EnvSpec
from tests.algo import batches
from tests.marks import slow_except

# a corridor: right, right, right ends with reward 1; left ends at once with 0.1
N_CELLS, GAMMA = 3, 0.9

CORRIDOR = EnvSpec(n_agents=1, n_actions=2, obs_shape=(N_CELLS + 1,))

SOLUTION = torch.tensor([[0.1, GAMMA**2], [0.1, GAMMA], [0.1, 1.0]])


def corridor():
    """Every transition as a window."""
    cell = torch.arange(N_CELLS).repeat_interleave(2)
    action = torch.tensor([0, 1] * N_CELLS)
    ends = (action == 0) | (cell == N_CELLS - 1)
    reward = torch.where(action == 0, 0.1, (cell == N_CELLS - 1).float())
    batch = batches.make_batch([1] * len(cell), spec=CORRIDOR)
    return replace(
        batch,
        obs=F.one_hot(torch.stack([cell, cell + 1]), N_CELLS + 1).float().unsqueeze(2),
        avail_actions=torch.ones_like(batch.avail_actions),
        last=torch.stack([torch.zeros_like(ends), ends]),
        action=action.view(1, -1, 1),
        reward=reward.view(1, -1, 1),
        terminated=ends.unsqueeze(0),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", slow_except(("td", "categorical"), [*batches.LOSSES, "q_lambda"]))
def test_every_loss_solves_a_corridor(name):
    """To the known values; the Munchausen term only to the known order of the actions."""
    distribution = "scalar" if name == "q_lambda" else batches.LOSSES[name][0]
    given = {"distribution": batches.DISTRIBUTIONS[distribution], "hidden_sizes": [16]}
    model = batches.make_model("mlp", "independent", CORRIDOR, **given, last_action=False)
    loss = (
        batches.make_loss(name, GAMMA) if name != "q_lambda" else LambdaLoss(gamma=GAMMA, trace=0.0)
    )
    learner = batches.make_learner(
        model,
        spec=CORRIDOR,
        loss=loss,
        optimizer=partial(adam, lr=2e-2, betas=[0.9, 0.999], eps=1e-8),
        target_update=TargetUpdate(episodes=None, env_steps=None, updates=5, tau=1.0),
    )
    torch.manual_seed(0)
    batch = corridor()
    for update in range(250):
        if name == "q_lambda":
            td_target = loss.targets(model, batch, batch.last)
            batch = replace(batch, td_target=td_target.view(1, -1, 1))
        learner.update(batch, Clock(updates=update))
    with torch.no_grad():
        q = model.agents.unroll(batch).q[0, ::2, 0]  # [cells, A]
    assert q.argmax(1).tolist() == [1] * N_CELLS
    if name != "munchausen":
        tolerance = 0.1 if name == "implicit_quantile" else 0.04
        q = unscale(q, 1e-3) if name == "huber" else q  # it learns rescaled values
        torch.testing.assert_close(q, SOLUTION, rtol=0, atol=tolerance)
