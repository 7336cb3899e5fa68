"""Parts as a user would write them, named by ``_target_`` in the tests."""

import dataclasses
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import nn

from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.types import Batch, EnvSpec, LossResult, Output, Plan


class NoHiddenDim(nn.Module):
    """Feed-forward agents with BatchNorm: parameters and buffers."""

    def __init__(self, *, spec, width: Annotated[int, Field(ge=2)] = 8) -> None:
        super().__init__()
        n_in = int(np.prod(spec.obs_shape))
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, spec.n_actions)

    def q(self, obs):
        return self.head(self.body(obs.flatten(0, -2))).view(*obs.shape[:-1], -1)

    def unroll(self, batch, start=0, stop=None):
        q = self.q(batch.obs)
        return Output(q, q.new_empty(*q.shape[:3], 0))

    def step(self, obs, last_action, hidden):
        return self.q(obs), hidden


class Net(NoHiddenDim):
    hidden_dim = 0


class Table(nn.Module):
    """No parameters at all: every action is worth the same."""

    hidden_dim = 0

    def __init__(self, *, spec) -> None:
        super().__init__()
        self.n_actions = spec.n_actions

    def unroll(self, batch, start=0, stop=None):
        q = torch.zeros(*batch.last_action.shape, self.n_actions)
        return Output(q, q.new_empty(*q.shape[:3], 0))

    def step(self, obs, last_action, hidden):
        return torch.zeros(*last_action.shape, self.n_actions), hidden


class NotAModule:
    hidden_dim = 0

    def unroll(self, batch, start=0, stop=None): ...

    def step(self, obs, last_action, hidden): ...


class LazyMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.LazyLinear(1)


class LossWithoutSteps:
    """The value of the action taken moves to the reward."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale

    def __call__(self, online, target, batch, clock):
        q = online.agents.unroll(batch).q[:-1].gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        error = (online.mixer(q, q, batch.action, batch.state[:-1]) - batch.reward)[batch.mask]
        count, priority = torch.tensor(float(error.numel())), torch.ones(len(batch.weight))
        metrics = {"loss": error.detach().square().mean()}
        return LossResult(self.scale * error.square().sum(), count, priority, metrics)


class Loss(LossWithoutSteps):
    n_step = 1


class MeanWithoutStreams(nn.Module):
    """The team's value is the mean of the agents' values."""

    def forward(self, q, greedy_q, action, state):
        return q.mean(-1, keepdim=True)


class Mean(MeanWithoutStreams):
    n_streams = 1


class Cycle:
    """Exploration with the one method that it needs."""

    def __init__(self, *, period: int = 3) -> None:
        self.period = period

    def choose(self, q, available, clock, rng):
        return np.where(available, q, -np.inf).argmax(-1)


class NoExploration:
    pass


class Half:
    """Stores nothing it could give back."""

    n_steps = 0

    def add(self, steps): ...


class Latest:
    """The last transitions of every environment, T = 1, no time limits."""

    def __init__(self, *, spec, n_envs, device, rng, capacity: int = 100) -> None:
        self.spec, self.rng, self.capacity = spec, rng, capacity
        self.rows = []

    @property
    def n_steps(self):
        return len(self.rows)

    def plan(self):
        return Plan(bytes_per_step=0, worst_case_bytes=None, cap_bytes=0, capacity=self.capacity)

    def add(self, steps):
        for t in range(len(steps.last) - 1):
            for e in np.flatnonzero(~steps.last[t]):
                self.rows.append((steps, t, e))
        self.rows = self.rows[-self.capacity :]

    def ready(self, batch_size):
        return len(self.rows) >= batch_size

    def sample(self, batch_size, clock):
        chosen = [self.rows[i] for i in self.rng.integers(0, len(self.rows), batch_size)]

        def stack(name, n):
            rows = [getattr(s, name)[t : t + n, e] for s, t, e in chosen]
            return torch.from_numpy(np.stack(rows, 1))

        last = stack("last", 2)
        return Batch(
            obs=stack("obs", 2).float(),
            avail_actions=stack("avail_actions", 2).bool(),
            state=stack("state", 2).float(),
            last_action=torch.full((2, batch_size, self.spec.n_agents), -1),
            last=last,
            action=stack("action", 1),
            reward=stack("reward", 1),
            terminated=stack("terminated", 1),
            mask=torch.ones(1, batch_size, dtype=torch.bool),
            weight=torch.ones(batch_size),
            index=torch.arange(batch_size),
        )

    def state_dict(self):
        return {}

    def load_state_dict(self, state): ...


class NotAnOptimizer:
    def __init__(self, *, params, lr: float = 1.0) -> None:
        pass


class SingleEnv:
    """What a user of Gymnasium may put where many environments are expected."""

    action_space = observation_space = None


class ImageTeam:
    """Two agents that see noise on a 10 x 10 image, three steps an episode."""

    def __init__(self) -> None:
        self.spec = EnvSpec(
            n_agents=2, n_actions=2, obs_shape=(1, 10, 10), state_dim=3, max_steps=3
        )

    def reset(self, seed):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.observation()

    def step(self, action):
        self.t += 1
        reward = np.array([float(action[0] == action[1])], np.float32)
        return self.observation(), reward, self.t == 3, False, {}

    def observation(self):
        images = self.rng.random((2, 1, 10, 10), np.float32)
        return Observation(images, np.ones((2, 2), np.uint8), np.eye(4, 3, dtype="f4")[self.t])

    def close(self): ...


def image_team(*, n_envs):
    return SyncVectorEnv(make=ImageTeam, n_envs=n_envs)


SIZES = (("near", 3), ("far", 2))


class KeyedTeam(ImageTeam):
    """The same with the Dict observations of two keys, flattened."""

    def __init__(self) -> None:
        super().__init__()
        keys = [[name, {"box": [n], "dtype": "float32", "high": 1.0}] for name, n in SIZES]
        self.spec = dataclasses.replace(self.spec, obs_shape=(5,), obs_space={"dict": keys})

    def observation(self):
        seen = super().observation()
        return Observation(seen.obs[:, 0, 0, :5].copy(), seen.avail_actions, seen.state)


def keyed_team(*, n_envs):
    return SyncVectorEnv(make=KeyedTeam, n_envs=n_envs)
