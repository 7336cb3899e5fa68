"""``python -m tests.algo.wrong_inputs N``: N random wrong arrays for each public entry point.

Prints one JSON object: how many were tried of each, and those that were not refused by name.
"""

import json
import sys
import tempfile
from dataclasses import replace

import numpy as np
import torch

import rltrain
from rltrain.algo.checks import FIELDS
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import make_batch

TINY = ["hardware.threads=1", "logger.wandb.mode=disabled"]
VECTOR = EnvSpec(n_agents=1, n_actions=3, obs_shape=(4,))
IMAGE = EnvSpec(n_agents=1, n_actions=3, obs_shape=(2, 6, 6))
TEAM = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=5)
CONV = ["algo/network=conv", "algo.network.filters=[[4,3,1]]", "algo.network.hidden_sizes=[8]"]
MLP = ["algo.network.hidden_sizes=[8]", "algo.network.head_sizes=[]"]
NETWORKS = {
    "mlp": (["algo=dqn", *MLP], VECTOR),
    "mlp in torch": (["algo=dqn", *MLP, "algo.network.layer_norm=true"], VECTOR),
    "conv": (["algo=dqn", *CONV], IMAGE),
    "gru": (["algo=qmix", "algo.network.hidden_dim=8"], TEAM),
    "categorical": (["algo=c51", *MLP], VECTOR),
    "implicit quantile": (["algo=iqn", *MLP], VECTOR),
}


def learners(kinds):
    """Each with a batch that fits it."""
    made = {}
    for name in kinds:
        overrides, spec = NETWORKS[name]
        learner = rltrain.make_learner([*overrides, *TINY], spec)
        made[name] = learner, make_batch([3, 2] if spec is TEAM else [1, 1], spec)
        learner.update(made[name][1], Clock())
    return made


def wrong_batch(batch, rng):
    """One field of another dtype or shape, out of range, missing or no tensor; and its name."""
    name = str(rng.choice(list(FIELDS)[:11]))
    value = getattr(batch, name)
    kind = rng.choice(["dtype", "shape", "range", "type"])
    if kind == "range":
        name, value = "action", batch.action.clone()
        far = [3, 4, 100, 2**31, 2**62, -1, -100, -(2**40)]
        where = batch.mask.nonzero()[rng.integers(int(batch.mask.sum()))]
        value[where[0], where[1], rng.integers(value.shape[2])] = int(rng.choice(far))
    elif kind == "dtype":
        dtypes = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.uint8]
        dtypes += [torch.float16, torch.complex64]
        dtypes = [dtype for dtype in dtypes if dtype != value.dtype]
        value = value.to(dtypes[rng.integers(len(dtypes))])
    elif kind == "shape":
        value = other_shape(value, rng)
    else:
        value = [None, value.numpy(), 3.5, "x"][rng.integers(4)]
    return replace(batch, **{name: value}), name


def other_shape(x, rng):
    """One axis longer, shorter, missing or more."""
    axis, how = int(rng.integers(x.dim())), rng.integers(4)
    if how == 0:
        return torch.cat([x, x.narrow(axis, 0, 1)], axis) if x.shape[axis] else x.unsqueeze(axis)
    if how == 1 and x.shape[axis] > 0:
        return x.narrow(axis, 0, x.shape[axis] - 1)
    return x.unsqueeze(axis) if how == 2 or x.numel() == 0 else x.flatten()[:-1]


def spec_shape(spec):
    return (spec.n_agents, *spec.obs_shape)


def wrong_array(x, rng, far):
    """An array of a different shape or dtype, or with an entry out of range."""
    kind = rng.integers(4)
    if kind == 0:
        return other_shape(torch.from_numpy(x), rng).numpy()
    if kind == 1:
        return [x.astype(complex), x.astype(str), {"a": 1}, "x"][rng.integers(4)]
    if kind == 2:
        return [x.tolist(), [1, 2]][::-1] if rng.random() < 0.5 else np.float64(rng.normal())
    y = x.astype(np.float64)
    y.flat[rng.integers(y.size)] = rng.choice(far)
    return y


def failure_of(call, name):
    """Why a call does not refuse its argument by name; None if it does."""
    try:
        call()
    except ValueError as error:
        return None if f"{name}" in str(error) else f"{name} is not in: {error}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    return f"{name}: no exception"


def try_learner(made, rng):
    """One wrong batch; why it was not refused, or None."""
    name = str(rng.choice(list(made)))
    learner, batch = made[name]
    wrong, field = wrong_batch(batch, rng)
    failure = failure_of(lambda: learner.update(wrong, Clock()), f"batch.{field}")
    return failure and f"{name}: {failure}"


def try_actor(actors, rng):
    """One wrong observation or mask; why it was not refused, or None."""
    act, spec, from_trainer = actors[rng.integers(len(actors))]
    shape = (spec.n_agents, *spec.obs_shape)
    given = {
        "observations": np.zeros(shape[1:] if from_trainer and shape[0] == 1 else shape),
        "avail_actions": np.ones((spec.n_agents, spec.n_actions), np.uint8),
    }
    field = str(rng.choice(list(given)))
    far = [np.nan, np.inf, 1e300] if field == "observations" else [np.nan, 2, -1, 0.5]
    given[field] = wrong_array(given[field], rng, far)
    obs, masks = given.values()
    if from_trainer:
        return failure_of(lambda: act([obs], avail_actions=[masks]), field)
    return failure_of(lambda: act(obs, masks), field)


def actors(folder):
    """``compute_actions`` of a trainer and ``act`` of its policy, for one agent and for a team."""
    of_trainers, of_policies = [], []
    for i, overrides in enumerate((["algo=dqn", "env=cartpole"], ["env=two_step"])):
        overrides = [*overrides, "hardware.n_envs=1", "buffer.capacity=2000", *TINY]
        trainer = rltrain.make_trainer(overrides, run_dir=f"{folder}/{i}")
        policy = rltrain.load_policy(trainer.save("weights"))
        of_trainers.append((trainer.compute_actions, policy.spec, True))
        of_policies.append((policy.act, policy.spec, False))
    return of_trainers, of_policies


def tried(n, kinds=tuple(NETWORKS)):
    """How many wrong inputs each entry point got, and those that it did not refuse by name."""
    rng = np.random.default_rng(0)
    made = learners(kinds)
    with tempfile.TemporaryDirectory() as folder:
        of_trainers, of_policies = actors(folder)
    entries = {
        "Learner.update": lambda: try_learner(made, rng),
        "compute_actions": lambda: try_actor(of_trainers, rng),
        "Policy.act": lambda: try_actor(of_policies, rng),
    }
    found = {name: [attempt() for _ in range(n)] for name, attempt in entries.items()}
    failures = [f"{name}: {one}" for name, all_ in found.items() for one in all_ if one]
    return {"tried": {name: len(all_) for name, all_ in found.items()}, "failures": failures}


if __name__ == "__main__":
    print(json.dumps(tried(int(sys.argv[1]))))
