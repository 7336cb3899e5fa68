"""SmacVectorEnv: steps, seeds, threads, and its state."""

import numpy as np
import pytest

from rltrain.battles.engine import battles as battles_module
from rltrain.battles.starcraft2_env import StarCraft2Env
from rltrain.common.seeding import seed_key
from rltrain.env.smac.vector import SmacVectorEnv
from tests.battles.conftest import STOP, random_legal, seeds


def play(env: SmacVectorEnv, steps: int, seed: int = 0) -> list[bytes]:
    """Everything that ``steps`` steps of random play return."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        reward, terminated = env.step(random_legal(env.avail_actions, rng))
        shown = env.obs, env.avail_actions, env.state, env.last, reward, terminated
        seen.append(b"".join(array.tobytes() for array in shown))
    return seen


def test_shapes_and_types(make) -> None:
    env = make("8m", 3)
    assert env.obs.shape == (3, 8, 80)
    assert env.obs.dtype == env.state.dtype == np.float32
    assert (env.avail_actions.shape, env.avail_actions.dtype) == ((3, 8, 14), np.uint8)
    assert (env.state.shape, env.last.dtype) == ((3, 168), bool)
    reward, terminated = env.step(np.full((3, 8), STOP))
    assert (reward.shape, reward.dtype, terminated.dtype) == ((3, 1), np.float32, bool)
    assert (env.spec.n_agents, env.spec.n_actions, env.spec.max_steps) == (8, 14, 120)
    assert all(isinstance(value, np.ndarray) for value in env.state_dict().values())


def test_step_after_the_last_one_is_the_first_of_the_next_episode(make) -> None:
    asked = []

    def record(e: int, k: int) -> int:
        asked.append((e, k))
        return seeds(e, k)

    env = make(n_envs=2)
    env.reset(record)
    first = env.obs.copy()
    lengths = [0, 0]
    while not env.last[0]:
        env.step(np.where(env.avail_actions[:, :, 0] == 1, 0, STOP))
        lengths[0] += 1
    assert env.infos[0] == {"win": False, "dead_allies": 3, "dead_enemies": 0, "timeout": False}
    action = np.where(env.avail_actions[:, :, 0] == 1, 0, STOP)
    action[0] = 99  # ignored
    reward, terminated = env.step(action)
    assert reward[0, 0] == 0
    assert not terminated[0]
    assert not env.last[0]
    assert (env.obs[0] == first[0]).all()
    assert asked[:2] == [(0, 0), (1, 0)]
    assert (0, 1) in asked


@pytest.mark.parametrize(("time_limit", "terminated"), [("terminal", True), ("bootstrap", False)])
def test_time_limit_is_last_and_terminated_only_if_terminal(make, time_limit, terminated) -> None:
    env = make(time_limit=time_limit)
    env.battles.world.clock[0] = 59
    _, over = env.step(np.full((1, 3), STOP))
    assert env.last[0]
    assert over[0] == terminated
    assert env.infos[0]["timeout"]


def test_defeat_is_terminated_with_bootstrap_too(make) -> None:
    env = make(time_limit="bootstrap")
    over = np.array([False])
    while not env.last[0]:
        _, over = env.step(np.where(env.avail_actions[:, :, 0] == 1, 0, STOP))
    assert over[0]


def test_same_seeds_same_bytes_and_other_seeds_others(make) -> None:
    one, two = play(make("5m_vs_6m", 3), 60), play(make("5m_vs_6m", 3), 60)
    assert one == two
    env = make("5m_vs_6m", 3)
    env.reset(lambda e, k: 77 + seeds(e, k))
    assert play(env, 60) != one


def test_environments_do_not_depend_on_each_other(make) -> None:
    many, alone = make("5m_vs_6m", 4), make("5m_vs_6m", 1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = random_legal(many.avail_actions, rng)
        many.step(action)
        alone.step(action[:1])
        assert many.obs[0].tobytes() == alone.obs[0].tobytes()


def test_threads_do_not_change_results(make, monkeypatch) -> None:
    serial = play(make("8m", 6), 60)
    monkeypatch.setattr(battles_module, "UNITS_PER_CALL", 0)
    assert play(make("8m", 6, n_threads=2), 60) == serial


ILLEGAL = [[STOP, STOP, STOP], [STOP, STOP, 8]]
REFUSED = {  # by what is said
    r"'unit' does not fit: expected shape \(1, 21, 6\), got": (
        lambda make: make("3m").load_state_dict(make("8m").state_dict())
    ),
    "illegal action in environment 1: agent 2 chose 8": (
        lambda make: make(n_envs=2).step(np.array(ILLEGAL))
    ),
    r"expected \(2, 3\) \(environments, agents\), got \(3, 2\)": (
        lambda make: make(n_envs=2).step(np.ones((3, 2)))
    ),
    "unknown rules 'sc1': expected one of sc2, smaclite": lambda make: make(rules="sc1"),
    "unknown time_limit": lambda make: make(time_limit="never"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_does_not_fit_is_refused(make, said) -> None:
    with pytest.raises(ValueError, match=said):
        REFUSED[said](make)


def test_step_before_reset() -> None:
    with pytest.raises(RuntimeError, match=r"call reset\(seeds\) first"):
        SmacVectorEnv(map_name="3m", n_envs=1).step(np.ones((1, 3)))


def test_call_reaches_every_environment(make) -> None:
    parts = make(n_envs=2).call("get_state_dict")
    assert [part["allies"].shape for part in parts] == [(3, 4), (3, 4)]


@pytest.mark.parametrize("rest", [False, True])
def test_heuristic_ai_acts_in_every_environment_as_in_a_single_battle(make, rest: bool) -> None:
    def player(e: int, k: int) -> int:
        return seed_key(5, k)  # as StarCraft2Env(seed=5) seeds its episodes

    env = make("MMM", 2, heuristic_ai=True, heuristic_rest=rest)
    env.reset(player)
    single = StarCraft2Env(map_name="MMM", seed=5, heuristic_ai=True, heuristic_rest=rest)
    for _ in range(2):  # the second episode begins with no target in mind
        single.reset()
        over = False
        while not over:
            legal = np.argmax(env.avail_actions, -1)
            reward, over, _ = single.step(legal[0])
            both, _ = env.step(legal)
            assert both[:, 0] == pytest.approx([reward, reward], rel=1e-6)
        env.step(legal)
