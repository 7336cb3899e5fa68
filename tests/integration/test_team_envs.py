"""Environments of several agents from Python, from the command and by id: they train, and reach
known returns. Agents that have left are in no statistics.
"""

from contextlib import ExitStack

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test
from pettingzoo.utils import BaseParallelWrapper
from pettingzoo.utils.conversions import parallel_to_aec

import rltrain
from rltrain.env.smac import parallel_env
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import over, weights, without


class Meeting(ParallelEnv):
    """Agents of unequal sizes are paid 1 when their actions agree with what the first one sees. The
    first one leaves after two steps.
    """

    metadata = {"name": "meeting"}  # noqa: RUF012
    possible_agents = ["tall", "small"]  # noqa: RUF012

    def observation_space(self, agent):
        return spaces.Box(0, 1, (3 if agent == "tall" else 1,))

    def action_space(self, agent):
        return spaces.Discrete(2 if agent == "tall" else 3)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.t = list(self.possible_agents), 0
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        self.wanted = int(self.rng.integers(2))
        tall = np.array([self.wanted, 1 - self.wanted, 0], np.float32)
        every = {"tall": tall, "small": np.array([self.wanted], np.float32)}
        return {agent: every[agent] for agent in self.agents}

    def step(self, actions):
        acting, self.t = self.agents, self.t + 1
        rewards = {agent: float(actions[agent] == self.wanted) for agent in acting}
        ended = {agent: agent == "tall" and self.t == 2 for agent in acting}
        cut = {agent: agent == "small" and self.t == 5 for agent in acting}
        self.agents, before = list(acting), self.agents
        seen = self.seen()
        self.agents = [a for a in before if not ended[a] and not cut[a]]
        return seen, rewards, ended, cut, {agent: {} for agent in acting}


@pytest.fixture
def make(small, tmp_path):
    """Make a trainer of the small run in another environment; it is closed after the test."""
    with ExitStack() as trainers:

        def made(*words, env=Meeting, folder="run"):
            words = over(without(small, "env="), *words)
            trainer = rltrain.make_trainer(words, tmp_path / folder, env=env)
            trainers.callback(trainer.close)
            return trainer

        yield made


def test_a_class_of_ones_own_trains(make):
    trainer = make("algo=qmix")
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    spec = trainer.rollout.env.spec
    assert (spec.obs_sizes, spec.action_sizes, spec.state_dim) == ((3, 1), (2, 3), 4)
    assert 0 <= trainer.test(episodes=2)["test/return_mean"] <= 7


def test_a_policy_acts_on_observations_by_the_names_of_agents(make):
    trainer = make("algo=vdn")
    trainer.run(30)
    policy, arrays = (rltrain.load_policy(trainer.save("weights")) for _ in range(2))
    env = Meeting()
    obs, _ = env.reset(seed=3)
    while env.agents:
        actions = policy.act({agent: obs[agent] for agent in env.agents})
        assert list(actions) == env.agents
        rows, available = np.zeros((2, 3), np.float32), np.eye(2, 3)[[0, 0]]
        for i, agent in enumerate(env.possible_agents):
            if agent in env.agents:
                rows[i, : len(obs[agent])] = obs[agent]
                available[i, : env.action_space(agent).n] = 1
        assert [*actions.values()] == list(arrays.act(rows, available)[-len(env.agents) :])
        obs, *_ = env.step(actions)
    with pytest.raises(ValueError, match=r"\['big'\]: expected names among \['tall', 'small'\]"):
        policy.act({"big": np.zeros(3)})
    with pytest.raises(ValueError, match=r"numbers of the shape \(1,\)"):
        policy.act({"small": np.zeros(3)})
    obs, _ = env.reset(seed=0)
    assert policy.act(obs, {"tall": [0, 1], "small": [0, 0, 1]}) == {"tall": 1, "small": 2}
    with pytest.raises(ValueError, match="of the agent small expected 3 entries of 0 and 1"):
        policy.act(obs, {"small": [1, 1]})


def test_an_aec_environment_trains(make):
    trainer = make("algo=vdn", env=lambda: parallel_to_aec(Meeting()))
    trainer.run(30)
    assert trainer.rollout.env.spec.n_agents == 2


def test_individual_rewards_are_for_methods_without_a_mixer(make):
    overrides = ["env=pettingzoo", "env.reward=individual"]
    with pytest.raises(UsageError, match=r"mixer qmix learns .*expected env\.reward=sum or mean"):
        make(*overrides, "algo=qmix", folder="mixed")
    trainer = make(*overrides, "algo=iql")
    trainer.run(60)
    assert trainer.rollout.env.spec.n_rewards == 2


@pytest.mark.slow
def test_our_battles_handed_back_train_to_the_same_numbers(make):
    overrides = ["algo=qmix", "buffer.capacity=100", "test.interval=1000000", "algo.batch_size=2"]
    overrides += ["save.interval=1000000"]
    ours = [*overrides, "env=smac", "env.map_name=2m_vs_1z", "env.time_limit=bootstrap"]
    theirs = [*overrides, "env=pettingzoo", "env.reward=mean", "+env.kwargs.map_name=2m_vs_1z"]
    one = make(*ours, env=None, folder="one")
    two = make(*theirs, env=parallel_env, folder="two")
    for trainer in (one, two):
        trainer.run(500)
    assert one.clock == two.clock
    assert one.clock.updates > 0
    assert torch.equal(weights(one), weights(two))
    assert one.test(episodes=3) == two.test(episodes=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "reward", "level"),
    [*((algo, "sum", 6.5) for algo in ("iql", "vdn", "qmix")), ("iql", "individual", 3.2)],
)
def test_a_team_of_unequal_agents_of_which_one_leaves_learns(single, tmp_path, algo, reward, level):
    """2 steps with two agents and 3 with one: a team that does what it sees returns 7, the mean
    over the agents is that of 2 and 5.
    """
    given = ("env=", "total_env_steps", "algo.exploration", "test", "save", "buffer", "algo.batch")
    words = [f"algo={algo}", "env=pettingzoo", f"env.reward={reward}", "test.n_envs=4"]
    words += ["test.interval=1000000", "save.interval=1000000", "test.episodes=20"]
    words += ["algo.exploration.env_steps=2000", "algo.target_update.episodes=50"]
    words += ["algo.network.last_action=true", "algo.network.agent_id=true", "buffer.capacity=1000"]
    trainer = rltrain.make_trainer([*without(single, *given), *words], tmp_path, env=Meeting)
    trainer.run(6_000)
    assert trainer.test(episodes=20)["test/return_mean"] > level


def test_our_battles_pass_pettingzoos_own_test():
    parallel_api_test(parallel_env(map_name="3m"), num_cycles=60)


MODULE = """
from tests.integration.test_team_envs import Meeting
def small_one(size=2): return Meeting()
"""


def test_an_id_names_a_module_beside_the_user_and_checkpoints_need_trust(small, tmp_path, command):
    (tmp_path / "teams_of_mine.py").write_text(MODULE)
    words = ["algo=vdn", "total_env_steps=20", "hydra.run.dir=run", "env=pettingzoo"]
    words += ["env.id=teams_of_mine:small_one", "+env.kwargs.size=3"]
    assert command(*over(small, *words)) == 0
    with pytest.raises(CheckpointError, match=r"trust=\[teams_of_mine\]"):
        rltrain.evaluate("run", episodes=1)
    assert rltrain.evaluate("run", episodes=1, trust=["teams_of_mine"]).metrics


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
