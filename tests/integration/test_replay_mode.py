"""``buffer.agents``: what a team learns from single agents is what it learns in lockstep."""

import pytest
import torch

import rltrain
from rltrain.buffer.replay import one_agent
from rltrain.types import Clock

TEAM = ["env=two_step", "algo.network.agent_id=true", "algo.network.last_action=true"]
TEAM += ["algo.learning_starts=20", "algo.batch_size=8", "test.n_envs=1", "test.episodes=1"]


@pytest.mark.parametrize(
    "overrides",
    [["algo=dqn", "algo.loss.n_step=2"], ["algo=drqn", "buffer.sequence_length=3"], ["algo=c51"]],
    ids=lambda w: w[0],
)
def test_single_agents_teach_together_what_the_team_teaches_in_lockstep(tmp_path, overrides):
    trainer = rltrain.make_trainer([*TEAM, *overrides], run_dir=tmp_path)
    trainer.run(60)
    learner, batch = trainer.learner, trainer.buffer.sample(8, Clock())

    def loss_of(batch):
        result = learner.loss(learner.online, learner.target, batch, Clock())
        return torch.as_tensor(result.loss_sum / result.count)

    alone = [loss_of(one_agent(batch, torch.full((8,), agent))) for agent in (0, 1)]
    torch.testing.assert_close((alone[0] + alone[1]) / 2, loss_of(batch))


@pytest.mark.parametrize("buffer", ["replay", "prioritized"])
def test_a_team_learns_from_single_agents(tmp_path, buffer):
    overrides = [*TEAM, "algo=dqn", f"buffer={buffer}", "buffer.agents=independent"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.run(120)
    assert trainer.clock.updates > 20
    assert trainer.metrics.take()["learn/skipped_updates"] == 0
    assert trainer.buffer.sample(8, trainer.clock).obs.shape[2] == 1
