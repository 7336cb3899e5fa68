"""Stable-Baselines3's DQN."""

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class MinAtarConv(BaseFeaturesExtractor):
    """The network of MinAtar's paper: 16 filters of 3 x 3 and 128 units."""

    def __init__(self, observation_space):
        super().__init__(observation_space, 128)
        height, width, channels = observation_space.shape
        self.conv = nn.Conv2d(channels, 16, 3)
        self.linear = nn.Linear(16 * (height - 2) * (width - 2), 128)

    def forward(self, obs):
        hidden = torch.relu(self.conv(obs.permute(0, 3, 1, 2)))
        return torch.relu(self.linear(hidden.flatten(1)))


def train(env, settings, warm_up, chunk, minatar=False):
    """Env steps of DQN after ``warm_up`` of them."""
    policy = {"net_arch": settings.pop("net_arch")}
    if minatar:
        import gymnasium
        import numpy as np
        from gymnasium.wrappers import TransformObservation
        from minatar import gym

        gym.register_envs()
        inner = gymnasium.make(env)
        floats = gymnasium.spaces.Box(0.0, 1.0, inner.observation_space.shape, np.float32)
        env = TransformObservation(inner, lambda obs: obs.astype(np.float32), floats)
        policy.update(features_extractor_class=MinAtarConv, normalize_images=False)
    policy_name = "MlpPolicy"
    model = DQN(policy_name, env, policy_kwargs=policy, device="cpu", **settings)
    model.learn(warm_up)

    def do():
        model.learn(chunk, reset_num_timesteps=False)
        return float(chunk)

    return do
