"""An encoder per key: images reach convolutions as they are, vectors linear layers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rltrain.algo.network.multi_input import multi_input_agents, observation_parts
from rltrain.env.spaces import to_record, viewed
from rltrain.types import EnvSpec
from tests.algo.batches import PLAIN

SPACE = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (6, 7, 3), np.uint8),
        "depth": spaces.Box(0, 255, (5, 8), np.uint8),
        "goal": spaces.Discrete(4),
        "planes": spaces.Box(0, 1, (2, 5, 5), np.float32),
        "pose": spaces.Dict({"bits": spaces.MultiBinary(2), "x": spaces.Box(-1, 1, (3,))}),
        "wheels": spaces.MultiDiscrete([2, 3]),
    }
)
VIEW = viewed(SPACE, "test")
SPEC = EnvSpec(
    n_agents=1, n_actions=3, obs_shape=VIEW.shape, obs_space=to_record(SPACE), frame_stack=2
)


def agents(spec=SPEC, **changes):
    torch.manual_seed(0)
    settings = {**PLAIN, "filters": [[4, 3, 2]], "vector_sizes": [5], "hidden_sizes": [6]}
    settings |= {"last_action": False, "agent_id": True}
    return multi_input_agents(spec=spec, **{**settings, **changes})


def test_parts_are_the_columns_of_the_flattened_observation():
    parts = list(observation_parts(SPEC))
    assert [part.image for part in parts] == [(3, 6, 7), (1, 5, 8), None, (2, 5, 5), None, None]
    sizes = [spaces.flatdim(space) for space in SPACE.values()]
    assert ([part.stop - part.start for part in parts], parts[-1].stop) == (sizes, VIEW.shape[0])


def test_each_encoder_gets_its_key_with_all_frames():
    SPACE.seed(0)
    frames = [SPACE.sample() for _ in range(2)]
    network, seen = agents(), []
    for encoder in network.torso.encoders:
        encoder.register_forward_pre_hook(lambda module, given: seen.append(given[0][0, 0]))
    flat = np.concatenate([VIEW.convert(frame) for frame in frames])
    obs = torch.from_numpy(flat)[None, None]
    q, _ = network.step(obs, torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, 0))
    assert q.shape == (1, 1, 3)
    camera = np.concatenate([f["camera"].transpose(2, 0, 1) for f in frames]) / 255
    depth = np.stack([f["depth"] for f in frames]) / 255
    goal = np.concatenate([np.eye(4)[f["goal"]] for f in frames])
    pose = np.concatenate([np.concatenate([f["pose"]["bits"], f["pose"]["x"]]) for f in frames])
    planes = np.concatenate([f["planes"] for f in frames])
    for found, expected in zip(seen, (camera, depth, goal, planes, pose), strict=False):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_values_depend_on_every_key():
    spec = replace(SPEC, frame_stack=1)
    network = agents(spec)
    obs = torch.rand(1, 1, *VIEW.shape, requires_grad=True)
    q, _ = network.step(obs, torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, 0))
    q.sum().backward()
    for part in observation_parts(spec):
        assert obs.grad[..., part.start : part.stop].abs().sum() > 0


def test_observations_without_keys_are_refused():
    with pytest.raises(ValueError, match=r"got observations of shape \[4\] without keys: .*=mlp"):
        agents(EnvSpec(n_agents=1, n_actions=3, obs_shape=(4,)))
    box = to_record(spaces.Box(0, 255, (3, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="set algo/network=conv"):
        agents(EnvSpec(n_agents=1, n_actions=3, obs_shape=(3, 8, 8), obs_space=box))
