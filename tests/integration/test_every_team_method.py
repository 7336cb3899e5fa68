"""Every method for teams on every kind of environment, three iterations each.

Methods and environments are composed once and combined here, since composing takes longer than
training.
"""

from dataclasses import replace
from functools import cache

import pytest

from rltrain.api import settings_from
from rltrain.config.python_objects import with_objects
from rltrain.errors import UsageError
from rltrain.mode.train import built
from tests.conftest import SMALL
from tests.integration.test_choices import TEAMS
from tests.integration.test_team_envs import Meeting
from tests.marks import each_once

TINY = [w for w in SMALL if not w.startswith(("env=", "hardware.n_envs", "test.n_envs"))]
TINY += ["hardware.n_envs=1", "test.n_envs=1", "algo.batch_size=1", "algo.network.hidden_dim=8"]
TINY += ["algo.steps_per_collect=12", "buffer.capacity=40", "test.interval=1000000"]
TINY += ["save.interval=1000000"]
ENVS = {
    "two_step": ["env=two_step"],
    "lbf": ["env=lbf", "env.id=Foraging-5x5-2p-1f-v3", "env.max_episode_steps=4"],
    "spread": ["env=mpe", "env.max_episode_steps=4"],
    "own": ["env=pettingzoo"],
    "3m": ["env=smac", "env.map_name=3m"],
}


@cache
def composed(*overrides):
    return settings_from([*TINY, *overrides])


def trainer_of(env, folder, *overrides):
    """A trainer of the method that the overrides name, in one of ``ENVS``."""
    method, where = composed(*overrides), composed("algo=iql", *ENVS[env])
    nodes = {name: where.nodes[name] for name in ("env", "test.env")}
    settings = replace(
        method,
        nodes={**method.nodes, **nodes},
        choices={**method.choices, "env": where.choices["env"]},
        plain={**method.plain, "env": where.plain["env"]},
    )
    return built(with_objects(settings, Meeting if env == "own" else None, None), folder)


def three_iterations(trainer):
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    trainer.close()


@pytest.mark.sampled(3)
@each_once(algo=sorted(TEAMS), env=ENVS)
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
