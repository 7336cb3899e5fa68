"""Stacked frames: what a network learns from is what the policy saw, and what Gymnasium stacks."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

import rltrain
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.types import EnvSpec
from tests.env.scripted import Plain

WORDS = ["hardware.n_envs=2", "hardware.threads=1", "logger.wandb.mode=disabled"]
WORDS += ["algo.batch_size=4", "test.n_envs=1"]
SHORT = ["env=gymnasium", "env.max_episode_steps=9"]
CONV = ["algo/network=conv", "algo.network.filters=[[4,3,2]]", "algo.network.hidden_sizes=[8]"]
TEAM = {"n_agents": 2, "n_actions": 2, "obs_shape": (1, 12, 12), "max_steps": 7}
STORED = ["algo.learning_starts=20", "buffer.capacity=200"]


class Images(Plain):
    """Random images of 12 x 12 bytes."""

    observation_space = gymnasium.spaces.Box(0, 255, (12, 12, 1), np.uint8)

    def step(self, action):
        return self.seen(), 1.0, bool(self.np_random.random() < 0.1), False, {}

    def seen(self):
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)


class TeamOfImages:
    """Two agents with random images of 12 x 12 bytes."""

    spec = EnvSpec(**TEAM, obs_dtype="uint8", frame_stack=3)

    def reset(self, seed):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.observation()

    def step(self, action):
        self.t += 1
        reward = np.array([float(action.sum())], np.float32)
        return self.observation(), reward, self.t == 7 or self.rng.random() < 0.1, False, {}

    def observation(self):
        obs = self.rng.integers(0, 256, (2, 1, 12, 12), np.uint8)
        return Observation(obs, np.ones((2, 2), np.uint8), np.zeros(0, np.float32))

    def close(self):
        pass


def team_of_images(*, n_envs):
    return SyncVectorEnv(make=TeamOfImages, n_envs=n_envs)


class Stacks:
    """Stacks by their newest frame, from an environment that Gymnasium stacks."""

    def __init__(self, make_env, n_frames):
        self.make_env, self.n_frames = make_env, n_frames
        self.by_newest = {}

    def __call__(self):
        note, make_env, n_frames = self.by_newest, self.make_env, self.n_frames

        class Newest(gymnasium.ObservationWrapper):
            """Notes what Gymnasium stacks and shows only the newest frame of it."""

            def __init__(self):
                env = make_env()
                super().__init__(FrameStackObservation(env, n_frames))
                self.observation_space = env.observation_space

            def observation(self, observation):
                note[observation[-1].tobytes()] = observation.copy()
                return observation[-1]

        return Newest()


def trained(overrides, folder, env=None):
    """A trainer that has learned, and every stack its policy acted on, by the newest frame."""
    trainer = rltrain.make_trainer([*WORDS, *overrides], folder, env=env)
    policy, acted = trainer.rollout.policy, {}
    n_frames, values = trainer.rollout.env.spec.frame_stack, policy.values

    def spy(agents, obs, hidden):
        for stack in obs.reshape(-1, *obs.shape[2:]):
            newest = stack[-(len(stack) // n_frames) :]
            acted[newest.tobytes()] = stack.copy()
        return values(agents, obs, hidden)

    policy.values = spy
    trainer.run(120)
    assert trainer.clock.updates > 0
    assert trainer.metrics.take()["learn/skipped_updates"] == 0
    return trainer, acted, n_frames


def assert_windows_are(stacks, trainer, n_frames):
    """Every real step of sampled windows is one of ``stacks``; behind the end all is zero."""
    batch = trainer.buffer.sample(8, trainer.clock)
    dtype = trainer.rollout.env.obs.dtype
    obs = batch.obs.numpy().astype(dtype)  # [T+1, B, N, n_frames * O0, …]
    real = batch.real.numpy() if batch.real is not None else np.ones(batch.last.shape, bool)
    for stack in obs[real].reshape(-1, *obs.shape[3:]):
        newest = stack[-(len(stack) // n_frames) :]
        np.testing.assert_array_equal(stack, stacks[newest.tobytes()])
    assert not obs[~real].any()
    return batch


def slow(*overrides):
    return pytest.param(list(overrides), marks=pytest.mark.slow)


CARTPOLE = [
    slow("algo=dqn", *STORED, "env.frame_stack=4"),
    ["algo=dqn", "buffer=episode", *STORED, "env.frame_stack=8"],
    slow("algo=drqn", *STORED, "buffer.sequence_length=3", "env.frame_stack=4"),
    ["algo=iql", *STORED, "env.frame_stack=4"],
    ["algo=pqn", "algo.steps_per_collect=15", "env.frame_stack=4"],
]
IMAGES = [
    slow("algo=dqn", *STORED, "env.frame_stack=2"),
    ["algo=dqn", "buffer=episode", *STORED, "env.frame_stack=4"],
    ["algo=pqn", "algo.steps_per_collect=15", "env.frame_stack=4"],
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("overrides", CARTPOLE, ids=" ".join)
def test_windows_of_vectors_are_what_gymnasium_stacks(tmp_path, overrides):
    n_frames = int(overrides[-1].partition("=")[2])
    stacks = Stacks(lambda: gymnasium.make("CartPole-v1"), n_frames)
    trainer, acted, n_frames = trained([*overrides, *SHORT], tmp_path, env=stacks)
    assert_windows_are(acted, trainer, n_frames)
    gymnasiums = {key: stack.reshape(-1) for key, stack in stacks.by_newest.items()}
    assert_windows_are(gymnasiums, trainer, n_frames)


@pytest.mark.parametrize("overrides", IMAGES, ids=" ".join)
def test_windows_of_images_are_what_gymnasium_stacks(tmp_path, overrides):
    n_frames = int(overrides[-1].partition("=")[2])
    stacks = Stacks(Images, n_frames)
    trainer, acted, n_frames = trained([*overrides, *SHORT, *CONV], tmp_path, env=stacks)
    assert_windows_are(acted, trainer, n_frames)
    channels_first = {key: stack[..., 0] for key, stack in stacks.by_newest.items()}
    assert_windows_are(channels_first, trainer, n_frames)


@pytest.mark.parametrize("overrides", [["algo=vdn"], slow("algo=iql")], ids=" ".join)
def test_a_team_with_images_learns_from_stacked_frames(tmp_path, overrides):
    own = ["env=two_step", f"env._target_={__name__}.team_of_images", *STORED]
    trainer, acted, n_frames = trained([*overrides, *own, *CONV], tmp_path)
    assert assert_windows_are(acted, trainer, n_frames).obs.shape[2:] == (2, 3, 12, 12)
