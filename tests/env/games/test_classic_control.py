"""CartPole, Acrobot and MountainCar in machine code, compared with Gymnasium's own objects."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from rltrain.common.seeding import SeedsOfTraining
from rltrain.env.games.classic_control import ClassicControl, find_rules
from rltrain.env.make_gymnasium import gymnasium_env
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError
from tests.marks import each_once, slow_except

IDS = {"CartPole-v1": 2, "Acrobot-v1": 3, "MountainCar-v0": 3}
TASKS: dict[str, list[dict[str, Any]]] = {
    "CartPole-v1": [
        {"gravity": 3.7, "force_mag": 4.0},
        {"kinematics_integrator": "semi-implicit", "tau": 0.05},
        {"_sutton_barto_reward": True, "x_threshold": 0.1},
        {"masspole": 0.3, "length": 0.2, "theta_threshold_radians": 0.5},
    ],
    "Acrobot-v1": [
        {"book_or_nips": "nips"},
        {"LINK_MASS_1": 0.7, "LINK_LENGTH_1": 1.3, "LINK_COM_POS_1": 0.6, "LINK_MOI": 0.8},
        {"MAX_VEL_1": 1.0, "MAX_VEL_2": 2.0, "AVAIL_TORQUE": [-3.0, 0.5, 4.0], "dt": 0.1},
    ],
    "MountainCar-v0": [
        {"gravity": 0.001, "force": 0.002},
        {"goal_velocity": 0.01, "min_position": -0.7, "max_speed": 0.03},
    ],
}


def made(id: str, compiled: bool = True, n_envs: int = 4, **more: Any) -> Any:
    known = {"training": True, "record": False, "kwargs": {}, **more}
    return gymnasium_env(id=id, n_envs=n_envs, compiled=compiled, **known)


def seeds(e: int, k: int) -> int:
    return (e + 1) * 2**40 + 7_919 * k


def pair(id: str, **options: Any) -> tuple[Any, Any]:
    """Compiled environments and Gymnasium's own, in their first episodes."""
    ours, theirs = (made(id, compiled, **options) for compiled in (True, False))
    for env in (ours, theirs):
        env.reset(seeds)
    return ours, theirs


def require_equal(ours: Any, theirs: Any, id: str, n_steps: int, seed: int = 0) -> None:
    draws = np.random.default_rng(seed).integers(0, IDS[id], (n_steps, ours.n_envs, 1))
    for t, action in enumerate(draws):
        for mine, other in zip(ours.step(action), theirs.step(action), strict=True):
            assert mine.dtype == other.dtype, t
            assert mine.tobytes() == other.tobytes(), t
        for name in ("obs", "last", "avail_actions", "state"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes(), (t, name)


@each_once(time_limit=["bootstrap", "terminal"], id=IDS)
def test_every_bit_is_gymnasiums(id, time_limit):
    ours, theirs = pair(id, time_limit=time_limit)
    assert type(ours) is ClassicControl
    assert type(theirs) is SyncVectorEnv
    assert ours.spec == theirs.spec
    assert ours.obs.tobytes() == theirs.obs.tobytes()
    require_equal(ours, theirs, id, 700)  # past the time limits


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_every_bit_of_100_000_steps_is_gymnasiums(id):
    ours, theirs = pair(id, n_envs=32)
    require_equal(ours, theirs, id, 3_200, seed=1)


OF_TASKS = [(id, task) for id in TASKS for task in TASKS[id]]


@pytest.mark.parametrize("of_task", slow_except(OF_TASKS[::3], OF_TASKS))
def test_attributes_of_a_task_are_in_force(of_task):
    id, task = of_task
    ours, theirs = pair(id)
    for env in (ours, theirs):
        env.call("set_task", task)
    require_equal(ours, theirs, id, 530)


def test_an_attribute_that_is_set_within_an_episode_is_in_force_at_once():
    ours, theirs = pair("CartPole-v1")
    require_equal(ours, theirs, "CartPole-v1", 3)
    for env in (ours, theirs):
        env.call("__setattr__", "force_mag", -25.0)
    require_equal(ours, theirs, "CartPole-v1", 3)


@pytest.mark.parametrize("compiled", [True, False])
def test_episodes_with_attributes_that_no_task_sets_are_not_continued(compiled, caplog):
    """Defect: the compiled environment took its defaults and called that exact."""
    before, after = (pair("CartPole-v1")[not compiled] for _ in range(2))
    before.call("__setattr__", "gravity", 12.0)
    for _ in range(5):
        before.step(np.zeros((4, 1), np.int64))
    after.reset(seeds)
    after.load_state_dict(before.state_dict())
    assert after.lost.all()
    assert "cannot" in caplog.text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("id", IDS)
def test_a_saved_state_is_continued_exactly(id):
    (ours, theirs), again = pair(id), made(id)
    require_equal(ours, theirs, id, 100)
    for env in (ours, theirs):
        env.call("set_task", TASKS[id][0])
    require_equal(ours, theirs, id, 450, seed=1)
    saved = ours.state_dict()
    ours.step(np.zeros((4, 1), np.int64))
    again.reset(seeds)
    again.load_state_dict(saved)
    require_equal(again, theirs, id, 600, seed=2)


@pytest.mark.parametrize("id", IDS)
def test_images_show_the_present_state(id):
    pytest.importorskip("pygame")
    ours, theirs = pair(id, record=True)
    assert type(ours) is ClassicControl
    require_equal(ours, theirs, id, 5)
    (mine,), (other,) = ours.render([2])[0], theirs.render([2])[0]
    assert np.array_equal(mine, other)


@pytest.mark.parametrize(
    "change",
    [
        {"kwargs": {"render_mode": "human"}},
        {"compiled": False},
        {"reward_clip": 0.5},
        {"factored": False, "id": "FrozenLake-v1"},
    ],
)
def test_other_environments_are_stepped_by_gymnasium(change, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert type(made(**{"id": "CartPole-v1", **change})) is SyncVectorEnv


def test_a_wrapper_or_a_subclass_has_no_compiled_counterpart():
    class Heavier(CartPoleEnv):
        pass

    env = gymnasium.make("CartPole-v1", disable_env_checker=True)
    assert find_rules(env) is not None
    assert find_rules(gymnasium.wrappers.TransformReward(env, lambda r: 2 * r)) is None
    assert find_rules(Heavier()) is None


@pytest.mark.parametrize("id", IDS)
def test_another_version_of_gymnasium_is_noticed(id, monkeypatch, caplog):
    kind = type(gymnasium.make(id).unwrapped)
    step = kind.step

    def changed(self: Any, action: Any) -> Any:
        obs, reward, *rest = step(self, action)
        return np.nextafter(obs, np.float32(2)), reward, *rest

    monkeypatch.setattr(kind, "step", changed)
    assert type(made(id)) is SyncVectorEnv
    assert f"{kind.__name__} differs from its machine code" in caplog.text


def test_noise_that_is_not_compiled_is_refused():
    env = made("Acrobot-v1")
    env.reset(seeds)
    with pytest.raises(EnvError, match=r"type env\.compiled=false"):
        env.call("__setattr__", "torque_noise_max", 0.5)


@pytest.mark.parametrize("id", IDS)
def test_what_is_no_number_names_environment_and_step(id):
    env = made(id)
    env.reset(SeedsOfTraining(0, 4))
    env.step(np.zeros((4, 1), np.int64))
    env._states[2] = np.nan
    with pytest.raises(EnvError, match=rf"^Environment 6: {id} at step 2 .* returned the obs"):
        env.step(np.zeros((4, 1), np.int64))


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_out_of_range_is_refused(id, action):
    env = made(id)
    env.reset(seeds)
    with pytest.raises(EnvError, match=f"after the action {action}"):
        env.step(np.full((4, 1), action))
