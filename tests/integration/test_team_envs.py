"""Environments of several agents from Python, from the command and by id: they train, and reach
known returns.
"""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import parallel_to_aec

import rltrain
from rltrain.env.smac import parallel_env
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import weights

ALGOS = ("iql", "vdn", "qmix")


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


def without(small, *keys):
    return [w for w in small if not w.startswith(tuple(f"{key}=" for key in ("env", *keys)))]


def test_a_class_of_ones_own_trains(small, tmp_path):
    trainer = rltrain.make_trainer([*without(small), "algo=qmix"], tmp_path, env=Meeting)
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    spec = trainer.rollout.env.spec
    assert (spec.obs_sizes, spec.action_sizes, spec.state_dim) == ((3, 1), (2, 3), 4)
    assert 0 <= trainer.test(episodes=2)["test/return_mean"] <= 7
    trainer.close()


def test_a_policy_acts_on_observations_by_the_names_of_agents(small, tmp_path):
    trainer = rltrain.make_trainer([*without(small), "algo=vdn"], tmp_path, env=Meeting)
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
    trainer.close()


def test_masks_by_name_limit_what_a_policy_chooses(small, tmp_path):
    trainer = rltrain.make_trainer([*without(small), "algo=vdn"], tmp_path, env=Meeting)
    policy = rltrain.load_policy(trainer.save("weights"))
    obs, _ = Meeting().reset(seed=0)
    masks = {"tall": [0, 1], "small": [0, 0, 1]}
    assert policy.act(obs, masks) == {"tall": 1, "small": 2}
    with pytest.raises(ValueError, match="of the agent small expected 3 entries of 0 and 1"):
        policy.act(obs, {"small": [1, 1]})


def test_an_aec_environment_trains(small, tmp_path):
    words = [*without(small), "algo=vdn"]
    trainer = rltrain.make_trainer(words, tmp_path, env=lambda: parallel_to_aec(Meeting()))
    trainer.run(30)
    assert trainer.rollout.env.spec.n_agents == 2


def test_individual_rewards_are_for_methods_without_a_mixer(small, tmp_path):
    overrides = [*without(small), "env=pettingzoo", "env.reward=individual"]
    with pytest.raises(UsageError, match=r"mixer qmix learns .*expected env\.reward=sum or mean"):
        rltrain.make_trainer([*overrides, "algo=qmix"], tmp_path / "mixed", env=Meeting)
    trainer = rltrain.make_trainer([*overrides, "algo=iql"], tmp_path / "own", env=Meeting)
    trainer.run(60)
    assert trainer.rollout.env.spec.n_rewards == 2


@pytest.mark.slow
def test_our_battles_handed_back_train_to_the_same_numbers(small, tmp_path):
    overrides = [*without(small, "buffer.capacity", "test.interval"), "algo=qmix"]
    overrides += ["buffer.capacity=100", "test.interval=1000000", "save.interval=1000000"]
    overrides = [*(w for w in overrides if "algo.batch_size" not in w), "algo.batch_size=2"]
    ours = [*overrides, "env=smac", "env.map_name=2m_vs_1z", "env.time_limit=bootstrap"]
    theirs = [*overrides, "env=pettingzoo", "env.reward=mean", "+env.kwargs.map_name=2m_vs_1z"]
    one = rltrain.make_trainer(ours, tmp_path / "one")
    two = rltrain.make_trainer(theirs, tmp_path / "two", env=parallel_env)
    for trainer in (one, two):
        trainer.run(500)
    assert one.clock == two.clock
    assert one.clock.updates > 0
    assert torch.equal(weights(one), weights(two))
    assert one.test(episodes=3) == two.test(episodes=3)


def learned(env, folder, small, *overrides, env_steps=6_000):
    """The return of a test after a short training."""
    given = ("total_env_steps", "algo.exploration", "test", "save", "buffer", "algo.batch_size")
    kept = [w for w in without(small) if not w.startswith(given)]
    kept += ["test.interval=1000000", "save.interval=1000000", "test.episodes=20", "test.n_envs=4"]
    kept += ["algo.exploration.env_steps=2000", "algo.target_update.episodes=50"]
    kept += ["algo.network.last_action=true", "algo.network.agent_id=true", "buffer.capacity=1000"]
    trainer = rltrain.make_trainer([*kept, "env=pettingzoo", *overrides], folder, env=env)
    trainer.run(env_steps)
    return trainer.test(episodes=20)["test/return_mean"]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ALGOS)
def test_a_team_of_unequal_agents_of_which_one_leaves_learns(small, tmp_path, algo):
    """2 steps with two agents and 3 with one: a team that does what it sees returns 7."""
    assert learned(Meeting, tmp_path, small, f"algo={algo}", "env.reward=sum") > 6.5


@pytest.mark.slow
def test_individual_rewards_teach_every_agent(small, tmp_path):
    """The mean over the agents of 2 and 5."""
    assert learned(Meeting, tmp_path, small, "algo=iql", "env.reward=individual") > 3.2


def test_our_battles_pass_pettingzoos_own_test():
    parallel_api_test(parallel_env(map_name="3m"), num_cycles=60)


MODULE = """
from tests.integration.test_team_envs import Meeting
def small_one(size=2): return Meeting()
"""


def test_an_id_names_a_module_beside_the_user_and_checkpoints_need_trust(small, tmp_path, command):
    (tmp_path / "teams_of_mine.py").write_text(MODULE)
    overrides = [*without(small, "total_env_steps"), "algo=vdn", "total_env_steps=20"]
    overrides += ["env=pettingzoo", "env.id=teams_of_mine:small_one", "+env.kwargs.size=3"]
    assert command(*overrides, "hydra.run.dir=run") == 0
    with pytest.raises(CheckpointError, match=r"trust=\[teams_of_mine\]"):
        rltrain.evaluate("run", episodes=1)
    assert rltrain.evaluate("run", episodes=1, trust=["teams_of_mine"]).metrics


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("no_such_module", "No module named 'no_such_module'. Expected an installed module"),
        ("json:Nothing", "the module json has no class or function Nothing"),
        ("json", "the module json has no parallel_env or env"),
    ],
)
def test_an_id_that_makes_nothing_is_refused(small, tmp_path, id, said):
    overrides = [*without(small), "env=pettingzoo", f"env.id={id}"]
    with pytest.raises(UsageError, match=f"env.id={id} cannot be created: {said}"):
        rltrain.make_trainer(overrides, tmp_path / "run")


SMALLEST = {
    "rware": ["env.id=rware-tiny-2ag-v2", "env.max_episode_steps=4"],
    "magent": ["env.max_episode_steps=4"],
    "matrix": ["env.length=3"],
    "stag_hunt": ["env.max_episode_steps=4"],
}


@pytest.mark.slow
@pytest.mark.parametrize("env", SMALLEST)
@pytest.mark.parametrize("algo", ALGOS)
def test_every_environment_trains_a_team(small, tmp_path, env, algo):
    overrides = without(small, "buffer.capacity", "hardware.n_envs", "test.n_envs")
    overrides += [f"env={env}", *SMALLEST[env], "buffer.capacity=40", "algo.batch_size=1"]
    overrides += [f"algo={algo}", "hardware.n_envs=1", "test.n_envs=1", "test.interval=1000000"]
    trainer = rltrain.make_trainer(overrides, tmp_path)
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    trainer.close()


@pytest.mark.slow
def test_a_resumed_run_equals_the_uninterrupted_one(small, tmp_path):
    """The open episodes are repeated from their seeds and actions."""
    overrides = [*without(small), "algo=qmix"]
    whole = rltrain.make_trainer(overrides, tmp_path / "whole", env=Meeting)
    first = rltrain.make_trainer(overrides, tmp_path / "part", env=Meeting)
    whole.run(120)
    first.run(49)
    first.save()
    first.close()
    second = rltrain.make_trainer(overrides, tmp_path / "part", env=Meeting)
    second.restore(tmp_path / "part")
    second.started = True
    second.run(120)
    assert second.clock == whole.clock
    assert whole.clock.updates > 2
    assert torch.equal(weights(second), weights(whole))
