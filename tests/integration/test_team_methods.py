"""Every method for teams on every kind of environment, and with other parts, three iterations each;
what single agents teach a team.

Methods and environments are composed once and combined here, since composing takes longer than
training.
"""

from dataclasses import replace
from functools import cache

import pytest
import torch

import rltrain
from rltrain.api import settings_from
from rltrain.buffer.replay import one_agent
from rltrain.config.python_objects import with_objects
from rltrain.errors import UsageError
from rltrain.mode.train import built
from rltrain.types import Clock
from tests.conftest import SMALL
from tests.helpers import over, three_iterations, without
from tests.integration.test_choices import TEAMS
from tests.integration.test_team_envs import Meeting
from tests.marks import each_once

TINY = over(
    *(without(SMALL, "env="), "hardware.n_envs=1", "test.n_envs=1", "algo.batch_size=1"),
    *("algo.network.hidden_dim=8", "algo.steps_per_collect=12", "buffer.capacity=40"),
    *("test.interval=1000000", "save.interval=1000000"),
)
ENVS = {
    "two_step": ["env=two_step"],
    "lbf": ["env=lbf", "env.id=Foraging-5x5-2p-1f-v3", "env.max_episode_steps=4"],
    "spread": ["env=mpe", "env.max_episode_steps=4"],
    "own": ["env=pettingzoo"],
    "3m": ["env=smac", "env.map_name=3m"],
}
OTHERS = {
    "rware": ["env=rware", "env.id=rware-tiny-2ag-v2", "env.max_episode_steps=4"],
    "magent": ["env=magent", "env.max_episode_steps=4"],
    "matrix": ["env=matrix", "env.length=3"],
    "stag_hunt": ["env=stag_hunt", "env.max_episode_steps=4"],
}


@cache
def composed(*overrides):
    return settings_from([*TINY, *overrides])


def trainer_of(env, folder, *overrides):
    """A trainer of the method that the overrides name, in one of the environments."""
    method, where = composed(*overrides), composed("algo=iql", *{**ENVS, **OTHERS}[env])
    nodes = {name: where.nodes[name] for name in ("env", "test.env")}
    settings = replace(
        method,
        nodes={**method.nodes, **nodes},
        choices={**method.choices, "env": where.choices["env"]},
        plain={**method.plain, "env": where.plain["env"]},
    )
    return built(with_objects(settings, Meeting if env == "own" else None, None), folder)


@pytest.mark.sampled(3)
@each_once(algo=sorted(TEAMS), env=[*ENVS, *OTHERS])
def test_every_method_learns_in_every_kind_of_environment(tmp_path, algo, env):
    trainer = trainer_of(env, tmp_path, f"algo={algo}")
    three_iterations(trainer)
    assert trainer.clock.updates > 0
    assert {**trainer.latest, **trainer.metrics.take()}["learn/skipped_updates"] == 0


@pytest.mark.parametrize(
    "part", ["algo/network=hpn", "algo/network=attention", "algo/mixer=entities"]
)
@pytest.mark.parametrize("env", ENVS)
def test_parts_for_units_learn_in_battles_and_are_refused_elsewhere(tmp_path, env, part):
    overrides = ["algo=qmix", part]
    if env != "3m":
        with pytest.raises(UsageError, match=r"the blocks (allies|enemies) and .*Type env=smac"):
            trainer_of(env, tmp_path, *overrides)
        return
    trainer = trainer_of(env, tmp_path, *overrides)
    three_iterations(trainer)
    assert trainer.clock.updates > 0


EXCHANGED = {
    "algo=ow_qmix algo/network=hpn": "3m",
    "algo=qmix algo/network=lstm algo.network.layer_norm=true": "two_step",
    "algo=ow_qmix algo.network.groups=[[0],[1]] algo.network.orthogonal=0.01": "two_step",
    "algo=qtran algo/network=mlp algo.network.groups=[[1],[0]]": "two_step",
}


@pytest.mark.slow
@pytest.mark.parametrize("words", EXCHANGED)
def test_parts_can_be_exchanged(tmp_path, words):
    """Also agents for units with a critic."""
    overrides = [*without(TINY, "algo.network."), *ENVS[EXCHANGED[words]], *words.split()]
    three_iterations(rltrain.make_trainer(overrides, run_dir=tmp_path), 2)


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
