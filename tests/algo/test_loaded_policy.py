"""A loaded policy: observations as the environment returns them or as the run stored them."""

import itertools
import json
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rltrain
from rltrain.common.checkpoint.run_checkpoints import put_manifest
from rltrain.common.files import digest
from rltrain.common.spec_record import read_spec
from rltrain.errors import CheckpointError
from rltrain.types import EnvSpec
from tests.env.scripted import Scripted

SLOW = pytest.mark.slow
PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
SPACES = {
    "discrete": (spaces.Discrete(5, start=5), [5, 9]),
    "box": (spaces.Box(-9, 9, (2,)), [np.array([1.5, -2.0]), [0.0, 3.0]]),
    "multi-discrete": (spaces.MultiDiscrete([2, 3]), [np.array([1, 2]), np.array([0, 0])]),
    "multi-binary": (spaces.MultiBinary(3), [np.array([1, 0, 1]), [0, 0, 1]]),
    "image": (spaces.Box(0, 255, (4, 5, 3), np.uint8), [PICTURE, PICTURE[::-1]]),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-9, 9, (1, 2))}),
        [{"a": np.array([[3.0, 4.0]]), "b": 0}, {"b": 1, "a": [[0.0, -4.0]]}],
    ),
    "tuple": (
        spaces.Tuple((spaces.Discrete(2), spaces.Box(-9, 9, (2,)))),
        [(1, np.array([3.0, 4.0])), (0, [9.0, 4.0])],
    ),
    "tuple of one": (spaces.Tuple((spaces.Box(-9, 9, (2,)),)), [(np.array([3.0, 4.0]),)]),
}
WORDS = ["algo=dqn", "algo.network.head_sizes=[8]", "test.n_envs=1", "hardware.n_envs=1"]
WORDS += ["hardware.threads=1"]
CHOICE = spaces.Discrete(3, start=2)


def trainer_on(space, folder, *overrides, shown=None, actions=CHOICE):
    """A trainer on an environment that shows this, or a sample of its space."""
    small = ["algo.network.hidden_sizes=[8]"] if len(space.shape or ()) != 3 else []
    make = lambda: Scripted(space, [space.sample() if shown is None else shown], actions)  # noqa: E731
    return rltrain.make_trainer([*WORDS, *small, *overrides], folder, env=make)


def loaded_on(space, folder, *overrides, **given):
    """The same, and its policy."""
    trainer = trainer_on(space, folder, *overrides, **given)
    return trainer, rltrain.load_policy(trainer.save("weights"))


@pytest.mark.parametrize("kind", SPACES)
def test_an_observation_as_its_environment_gives_it_becomes_the_same_action(kind, tmp_path):
    space, shown = SPACES[kind]
    trainer, policy = loaded_on(space, tmp_path)
    policy.reset()
    for obs in shown:
        action = policy.act(obs)
        assert action == trainer.compute_single_action(obs)
        assert type(action) is int
        assert 2 <= action <= 4


ROWS = {
    "multi-binary": (spaces.MultiBinary((1, 4)), [[1, 0, 1, 1]]),
    "box": (spaces.Box(-9, 9, (1, 4)), [[1.0, 2.0, 3.0, 4.0]]),
    "bits": (spaces.Box(0, 1, (1, 4), np.bool_), [[1, 0, 1, 1]]),
    "multi-discrete": (spaces.MultiDiscrete([[2, 3]]), [[1, 2]]),
    "ones": (spaces.MultiDiscrete([[1, 1, 1]]), [[0, 0, 0]]),
}
"""Observations that are one row: some have the shape in which a run stores those of one agent."""


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("actions", [spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 3])])
def test_a_row_becomes_an_action_of_the_environment(kind, actions, tmp_path):
    """Defect: rows of MultiBinary counted as stored, and became an array of actions."""
    space, rows = ROWS[kind]
    shown = np.array(rows, space.dtype)
    trainer, policy = loaded_on(space, tmp_path, shown=shown, actions=actions)
    for obs in (shown, rows, tuple(map(tuple, rows))):
        assert actions.contains(np.int64(a) if isinstance(a := policy.act(obs), int) else a)
        assert np.array_equal(a, trainer.compute_single_action(shown))


NORMALIZED = "algo.network.normalize_obs=true"


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("box", [NORMALIZED]),
        ("dict", []),
        *(pytest.param(kind, [], marks=SLOW) for kind in SPACES if kind not in ("box", "dict")),
    ],
)
def test_a_pickled_policy_acts_as_before(kind, overrides, tmp_path):
    """Defect: functions within functions converted observations and refreshed statistics."""
    space, shown = SPACES[kind]
    policy = rltrain.load_policy(trainer_on(space, tmp_path, *overrides).save("weights"))
    again = pickle.loads(pickle.dumps(policy))
    assert [again.act(obs) for obs in shown] == [policy.act(obs) for obs in shown]


def test_observations_as_the_run_stored_them_give_an_action_per_agent(tmp_path):
    trainer, policy = loaded_on(spaces.Discrete(5, start=5), tmp_path)
    one = np.eye(5, dtype=np.float32)[None, 2]
    found = policy.act(one, np.ones((1, 3)))
    assert found.shape == (1,)
    assert found[0] == policy.act(7) == trainer.compute_single_action(7)


def test_only_available_actions_are_chosen(tmp_path):
    policy = rltrain.load_policy(trainer_on(spaces.Discrete(5), tmp_path).save("weights"))
    assert [policy.act(1, np.eye(3)[a]) for a in range(3)] == [2, 3, 4]


def read_only(array):
    array.flags.writeable = False
    return array


LAYOUTS = {
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "backward": lambda x: x[::-1].copy()[::-1],
    "of Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape))[1],
    "read-only": lambda x: read_only(x.copy()),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "float16": lambda x: x.astype(np.float16),
    "float64": lambda x: x.astype(np.float64),
    "lists": np.ndarray.tolist,
    "tensor": torch.tensor,
}


@pytest.mark.parametrize("kind", ["box", "image"])
@pytest.mark.filterwarnings("error")
def test_arrays_of_every_layout_give_the_same_action(kind, tmp_path):
    """Defect: torch refused negative strides and warned of arrays that cannot be written."""
    space, (obs, *_) = SPACES[kind]
    trainer, policy = loaded_on(space, tmp_path)
    mask, obs = np.array([[1, 0, 1]], np.uint8), np.asarray(obs, space.dtype)
    stored = (obs if kind == "box" else obs.transpose(2, 0, 1))[None]
    expected = policy.act(obs, mask)
    for name, lay in LAYOUTS.items():
        assert policy.act(lay(obs), lay(mask)) == expected, name
        assert policy.act(lay(stored), lay(mask)).tolist() == [expected], name
        actions = trainer.compute_actions([lay(obs)], avail_actions=lay(mask[None]))
        assert actions.tolist() == [expected], name
    with pytest.raises(ValueError, match=r"requires grad\. Use tensor\.detach\(\)"):
        policy.act(torch.tensor(stored, dtype=torch.float32, requires_grad=True), mask)


def test_stacked_frames_are_those_of_the_episode(tmp_path):
    frames = ["env=gymnasium", "env.frame_stack=2"]
    trainer, policy = loaded_on(spaces.Box(-9, 9, (2,)), tmp_path, *frames)
    seen, state = [np.full(2, x) for x in (1.0, -5.0, 8.0)], None
    for obs in seen:
        action, state = trainer.compute_single_action(obs, state)
        assert policy.act(obs) == action


def test_a_team_is_asked_with_all_its_observations(small, tmp_path):
    trainer = rltrain.make_trainer(["algo=vdn", *small], tmp_path)
    policy = rltrain.load_policy(trainer.save("weights"))
    obs = np.eye(3, dtype=np.float32)[[0, 0]]
    assert policy.act(obs).shape == (2,)  # every action is available there
    with pytest.raises(ValueError, match=r"expected the shape \(2, 3\), got \(3,\)"):
        policy.act(obs[0])


def test_masks_are_asked_for_where_actions_can_be_unavailable(tmp_path):
    trainer = rltrain.make_trainer(["algo=vdn", "env=smac", "test.n_envs=1"], tmp_path)
    policy = rltrain.load_policy(trainer.save("weights"))
    obs = np.zeros((3, *trainer.rollout.env.spec.obs_shape), np.float32)
    for ask in (policy.act, lambda o: trainer.compute_single_action(o)):
        with pytest.raises(ValueError, match=r"avail_actions: expected .* got none"):
            ask(obs)
    assert policy.act(obs, np.ones((3, trainer.rollout.env.spec.n_actions))).shape == (3,)


def test_masks_of_components_are_taken_as_the_environment_gives_them(tmp_path):
    """Defect: those of swapped components, too many of them and other numbers gave an action."""
    actions = spaces.MultiDiscrete([2, 3], start=[3, 0])
    trainer, policy = loaded_on(spaces.Box(-1, 1, (2,)), tmp_path, actions=actions)
    obs = np.zeros(2)
    asked = {
        "act": lambda mask: policy.act(obs, mask).tolist(),
        "one": lambda mask: trainer.compute_single_action(obs, avail_actions=mask).tolist(),
        "two": lambda mask: trainer.compute_actions([obs] * 2, None, False, [mask] * 2)[1].tolist(),
    }
    for name, ask in asked.items():
        for first, second in itertools.product(range(2), range(3)):
            masks = np.eye(2, dtype=np.int8)[first], np.eye(3, dtype=np.int8)[second]
            assert ask(masks) == [3 + first, second], name
        for wrong in (
            ([0, 1, 1], [1, 0]),  # swapped
            ([0, 1], [1], [1, 1, 0]),
            ([2, 0], [0, 0.5, 0.5]),
            ([1, 0], None),
            ([1, 0],),
        ):
            with pytest.raises(ValueError, match=r"avail_actions: .* each component, of \[2, 3\]"):
                ask(wrong)


BAD = {
    "discrete": [10, 4, 5.5, np.eye(5)[0], [5], "five", None, {"a": 1}],
    "box": [[1.0], np.ones((1, 3)), np.nan, [np.inf, 0], ["a", "b"], {"a": 1}],
    "multi-discrete": [[2, 0], [0.5, 1], [1]],
    "multi-binary": [[2, 0, 0], [1, 0]],
    "image": [PICTURE[0], PICTURE.transpose(2, 0, 1), PICTURE + 0.5, PICTURE.astype(int) - 9],
    "dict": [{"a": [[3.0, 4.0]]}, {"a": [[3.0, 4.0]], "b": 2}, [0], {"a": [3.0, 4.0], "b": 1}],
    "tuple": [(1,), (2, [0.0, 0.0]), {"0": 1}, 3],
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_of_the_space_is_refused(kind, tmp_path):
    """Defect: observations of another length were read beyond their end."""
    policy = rltrain.load_policy(trainer_on(SPACES[kind][0], tmp_path).save("weights"))
    for obs in BAD[kind]:
        with pytest.raises(ValueError, match=r"^observations: .* A loaded policy takes an array"):
            policy.act(obs)


def test_a_mask_that_does_not_fit_is_refused(tmp_path):
    policy = rltrain.load_policy(trainer_on(spaces.Discrete(5), tmp_path).save("weights"))
    with pytest.raises(ValueError, match=r"avail_actions: expected the shape \(1, 3\)"):
        policy.act(1, np.ones((1, 4)))


@pytest.mark.parametrize(
    "changes",
    [
        {"obs_space": {"discrete": -3}},
        {"unknown": 1},
        {"obs_shape": None},
        {"n_agents": "two"},
        {"agents": [["a"]]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_damaged_record_of_the_spec_is_a_checkpoint_error(tmp_path, changes):
    folder = trainer_on(spaces.Discrete(5), tmp_path).save("weights")
    spec = json.loads((folder / "spec.json").read_text())
    file = folder / "spec.json"
    file.write_text(json.dumps({**spec, **changes}))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["spec.json"] = {"bytes": file.stat().st_size, "sha256": digest(file)}
    put_manifest(folder, manifest)
    with pytest.raises(CheckpointError, match="damaged spec"):
        rltrain.load_policy(folder)


def test_a_spec_is_the_same_after_json():
    spec = EnvSpec(
        n_agents=2,
        n_actions=6,
        obs_shape=(4, 8, 8),
        obs_bytes=((0, 64, 0.5), (64, 128, 1.0)),
        action_components=((2, 0), (3, 1)),
        agents=(("a", {"discrete": 2, "start": 0}, {"box": [3]}),),
        obs_sizes=(3, 4),
        layout={"own": [0, 4]},
    )
    assert read_spec(json.loads(json.dumps(spec.record))) == spec
