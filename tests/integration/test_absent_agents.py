"""Agents that have left are in no statistics, and what is unusual about their end is said."""

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

import rltrain

IQL = [
    *("algo=iql", "env.reward=individual", "total_env_steps=300", "algo.learning_starts=100"),
    *("algo.batch_size=8", "test.episodes=1", "hardware.n_envs=2", "hardware.threads=1"),
    "logger.console=false",
]


class Leaving(ParallelEnv):
    """Observations around 5 and a reward of 1 a step; all but the first agent leave at step 2."""

    metadata = {"name": "leaving"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, truncates=False):
        self.possible_agents, self.agents, self.truncates = ["a", "b", "c"], [], truncates
        self.actions = {a: spaces.Discrete(2) for a in self.possible_agents}

    def observation_space(self, agent):
        return spaces.Box(-100, 100, (2,), np.float32)

    def action_space(self, agent):
        return self.actions[agent]

    def seen(self):
        return {a: self.rng.normal(5, 1, 2).astype(np.float32) for a in self.agents}

    def reset(self, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.agents = list(self.possible_agents)
        return self.seen(), {a: {} for a in self.agents}

    def step(self, actions):
        self.t += 1
        names, obs, none = self.agents, self.seen(), dict.fromkeys(self.agents, False)
        ends = {a: self.t == 20 or (a != "a" and self.t == 2) for a in names}
        self.agents = [a for a in names if not ends[a]]
        flags = (none, ends) if self.truncates else (ends, none)
        return obs, dict.fromkeys(names, 1.0), *flags, {a: {} for a in names}

    def state_dict(self):
        return {"agents": list(self.agents), "t": self.t, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.rng = np.random.default_rng()
        self.agents, self.t = list(state["agents"]), state["t"]
        self.rng.bit_generator.state = state["rng"]


class Limit(BaseParallelWrapper):
    """Ends an episode after seven steps; has a state of its own."""

    def reset(self, seed=None, options=None):
        self.n = 0
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        obs, reward, terminated, truncated, infos = super().step(actions)
        self.n += 1
        if self.n == 7:
            truncated = dict.fromkeys(truncated, True)
            self.env.agents = []
        return obs, reward, terminated, truncated, infos


def made(folder, *overrides, env=Leaving):
    return rltrain.make_trainer([*IQL, *overrides], run_dir=folder, env=env)


@pytest.mark.parametrize("agents", ["lockstep", "independent"])
def test_absent_agents_are_in_no_statistics(tmp_path, agents):
    words = ["algo.network.normalize_obs=true", "algo.reward_norm=standardize"]
    if agents == "independent":
        words += ["buffer=replay", "algo/network=mlp", "buffer.agents=independent"]
        words += ["algo.updates_per_episode=null", "algo.updates_per_env_step=0.2"]
    trainer = made(tmp_path, *words)
    trainer.train()
    norm = trainer.learner.online.agents.obs_norm
    assert norm.mean.numpy() == pytest.approx([5, 5], abs=0.3)
    assert norm.variance == pytest.approx([1, 1], abs=0.4)
    moments = trainer.learner.reward_norm
    assert (moments.count > 0).all()
    assert moments.mean.numpy() == pytest.approx([1, 1, 1])
    trainer.close()


@pytest.mark.parametrize(("truncates", "hints"), [(False, 0), (True, 1)])
def test_an_agent_that_is_truncated_before_the_others_is_a_hint(truncates, hints):
    found = rltrain.check_env(Leaving, truncates=truncates)
    assert found.problems == []
    assert sum("b is truncated at step 2, while others continue" in h for h in found.hints) == hints


def test_a_wrapper_is_in_the_state_of_its_environment(tmp_path):
    def wrapped():
        return Limit(Leaving())

    lengths = []
    trainer = made(tmp_path / "a", "algo.steps_per_collect=3", env=wrapped)
    trainer.run(100)
    trainer.save()
    trainer.close()
    trainer = made(tmp_path / "b", "algo.steps_per_collect=3", env=wrapped)
    trainer.restore(tmp_path / "a")
    for _ in range(30):
        steps = trainer.rollout.collect(1, trainer.clock)
        lengths += [episode.length for episode in steps.episodes]
    assert set(lengths) == {7}
    trainer.close()
