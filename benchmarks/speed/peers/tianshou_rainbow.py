"""Tianshou's Rainbow."""

import gymnasium
import torch
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.rainbow import RainbowDQN
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import NoisyLinear
from tianshou.utils.torch_utils import policy_within_training_step

N_ENVS, BATCH_SIZE, STEPS_PER_UPDATE = 10, 64, 10


def train(env_id, hidden_sizes, capacity, warm_up):
    """Env steps; one update of 64 per 10 of them, as in its example."""
    envs = DummyVectorEnv([lambda: gymnasium.make(env_id)] * N_ENVS)
    space, actions = envs.observation_space[0], envs.action_space[0]
    net = Net(
        state_shape=space.shape,
        action_shape=actions.n,
        hidden_sizes=hidden_sizes,
        softmax=True,
        num_atoms=51,
        dueling_param=({"linear_layer": NoisyLinear}, {"linear_layer": NoisyLinear}),
    )
    policy = C51Policy(model=net, action_space=actions, v_min=0.0, v_max=200.0)
    algorithm = RainbowDQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        n_step_return_horizon=3,
        target_update_freq=100,
    )
    buffer = PrioritizedVectorReplayBuffer(capacity, buffer_num=N_ENVS, alpha=0.6, beta=0.4)
    collector = Collector(algorithm, envs, buffer)
    collector.reset()
    collector.collect(n_step=warm_up, random=True)

    def do():
        with policy_within_training_step(policy):
            collector.collect(n_step=STEPS_PER_UPDATE)
            with torch.enable_grad():
                algorithm.update(buffer, sample_size=BATCH_SIZE)
        return float(STEPS_PER_UPDATE)

    return do
