"""Tianshou's Rainbow and QR-DQN."""

import gymnasium
import torch
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.qrdqn import QRDQN, QRDQNPolicy
from tianshou.algorithm.modelfree.rainbow import RainbowDQN
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import NoisyLinear
from tianshou.utils.torch_utils import policy_within_training_step

N_ENVS, BATCH_SIZE, STEPS_PER_UPDATE = 10, 64, 10


def rainbow(state_shape, space, hidden_sizes, capacity):
    """The algorithm and its buffer, as in the example."""
    net = Net(
        state_shape=state_shape,
        action_shape=space.n,
        hidden_sizes=hidden_sizes,
        softmax=True,
        num_atoms=51,
        dueling_param=({"linear_layer": NoisyLinear}, {"linear_layer": NoisyLinear}),
    )
    algorithm = RainbowDQN(
        policy=C51Policy(model=net, action_space=space, v_min=0.0, v_max=200.0),
        optim=AdamOptimizerFactory(lr=1e-3),
        n_step_return_horizon=3,
        target_update_freq=100,
    )
    buffer = PrioritizedVectorReplayBuffer(capacity, buffer_num=N_ENVS, alpha=0.6, beta=0.4)
    return algorithm, buffer


def qrdqn(state_shape, space, hidden_sizes, capacity):
    """The algorithm and its buffer, as in the example."""
    net = Net(
        state_shape=state_shape,
        action_shape=space.n,
        hidden_sizes=hidden_sizes,
        softmax=False,
        num_atoms=200,
    )
    algorithm = QRDQN(
        policy=QRDQNPolicy(model=net, action_space=space, eps_training=0.1),
        optim=AdamOptimizerFactory(lr=1e-3),
        num_quantiles=200,
        n_step_return_horizon=3,
        target_update_freq=320,
    )
    return algorithm, VectorReplayBuffer(capacity, buffer_num=N_ENVS)


def train(method, env_id, hidden_sizes, capacity, warm_up):
    """Env steps; one update of 64 per 10 of them, as in its examples."""
    envs = DummyVectorEnv([lambda: gymnasium.make(env_id)] * N_ENVS)
    space, actions = envs.observation_space[0], envs.action_space[0]
    make = {"rainbow": rainbow, "qrdqn": qrdqn}[method]
    algorithm, buffer = make(space.shape, actions, hidden_sizes, capacity)
    collector = Collector(algorithm, envs, buffer)
    collector.reset()
    collector.collect(n_step=warm_up, random=True)

    def do():
        with policy_within_training_step(algorithm.policy):
            collector.collect(n_step=STEPS_PER_UPDATE)
            with torch.enable_grad():
                algorithm.update(buffer, sample_size=BATCH_SIZE)
        return float(STEPS_PER_UPDATE)

    return do
