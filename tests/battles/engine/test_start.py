"""``env.start``: the same positions in every episode, or moved at random."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rltrain.battles.data.maps import find_map
from rltrain.battles.data.spawn import start_points
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, Order, P, U
from rltrain.battles.options import Options
from rltrain.env.smac import SmacVectorEnv, StarCraft2Env
from tests.battles.conftest import random_legal, seeds, write_starts

JITTER = 0.25


def jittered(map_name: str, n_envs: int = 16) -> np.ndarray:
    """Start positions [E, 2, units] of episodes with different seeds."""
    battles = Battles(map_name=map_name, n_envs=n_envs, options=Options(), jitter=JITTER)
    battles.reset({e: e for e in range(n_envs)})
    return battles.world.unit[:, [U.X, U.Y]].copy()


LOOP = 2.25 / 16  # cells that a marine walks in a loop


def test_fixed_starts_are_those_of_the_map_in_every_episode(make) -> None:
    env = make("8m", 4)
    points = np.array(start_points(find_map("8m")), np.float32).T
    at = env.battles.world.unit[:, [U.X, U.Y]]
    assert (at[:, :, :8] == points[:, :8]).all()
    assert_allclose(at[:, 0, 8:], np.broadcast_to(points[0, 8:] - LOOP, (4, 8)), atol=1e-4)
    assert np.hypot(*(at[0, :, 8:] - points[:, 8:])) == pytest.approx(LOOP, abs=1e-5)


@pytest.mark.parametrize(("map_name", "orders"), [("3m", 4), ("2s3z", 16), ("MMM", 512)])
def test_enemies_take_the_first_or_the_last_number_left(make, map_name, orders) -> None:
    """In 1,000 recorded battles of 3m each of the four possible orders is a quarter."""
    env = make(map_name, 64 * min(orders, 32))
    created = env.battles.world.enemies - env.spec.n_agents
    n = created.shape[1]
    assert (np.sort(created, 1) == np.arange(n)).all()
    falls = (np.diff(created, axis=1) < 0).astype(int)
    assert (np.diff(falls, axis=1) >= 0).all()  # ascending, then descending
    kinds, counts = np.unique(created, axis=0, return_counts=True)
    assert len(kinds) == orders if orders <= 16 else len(kinds) > 400
    assert counts.max() < 2.5 * len(created) / min(orders, 32)


@pytest.mark.parametrize(
    ("map_name", "options"),
    [("2s3z", {}), ("MMM", {}), ("2c_vs_64zg", {}), ("zerg_5_vs_5", {"conic_fov": True}),
     ("terran_5_vs_6", {"prob_obs_enemy": 0.5}), ("protoss_5_vs_5", {"action_mask": False})],
)  # fmt: skip
def test_observations_and_masks_agree_on_the_numbers(map_name, options) -> None:
    """A battle whose enemies are numbered otherwise shows the same blocks in that order."""
    battles = Battles(map_name=map_name, n_envs=4, options=Options(**options))
    battles.reset({e: e for e in range(4)})
    rng, view, first = np.random.default_rng(0), battles.shown, battles.shown.first_attack
    agents, n, seen = view.n_agents, view.n_enemies, 0
    blocks = slice(view.move_size, view.move_size + n * view.enemy_size)
    while not battles.ended.all():
        battles.step((rng.random(battles.avail.shape) * battles.avail).argmax(-1))
        numbers = battles.world.enemies.copy()
        obs, avail = battles.obs[:, :, blocks].copy(), battles.avail[:, :, first : first + n].copy()
        battles.world.enemies[:] = np.arange(agents, agents + n)
        battles.refresh()
        for e in range(4):
            fights = battles.table("param", e)[P.ENERGY, :agents] == 0
            created = numbers[e] - agents
            other = battles.obs[e, :, blocks].reshape(agents, n, -1)[fights][:, created]
            np.testing.assert_array_equal(obs[e].reshape(agents, n, -1)[fights], other)
            may = battles.avail[e, fights, first : first + n][:, created]
            np.testing.assert_array_equal(avail[e, fights], may)
            seen += int((obs[e] != 0).sum())
        battles.world.enemies[:] = numbers
        battles.refresh()
    assert seen > 300


def test_an_attack_hits_the_unit_of_its_number(make) -> None:
    env = make("2s3z", 32)
    battles, agents = env.battles, env.spec.n_agents
    hit = 0
    for _ in range(60):
        avail = env.avail_actions[:, :, 6:]
        target = avail.argmax(-1)
        action = np.where(avail.any(-1), 6 + target, 1)
        action[env.avail_actions[:, :, 0] > 0] = 0
        env.step(action)
        attacks = (battles.world.mark[:, M.ORDER, :agents] == Order.ATTACK) & (action >= 6)
        units = np.take_along_axis(battles.world.enemies, np.maximum(action - 6, 0), 1)
        aims = battles.world.mark[:, M.TARGET, :agents]
        alive = np.take_along_axis(battles.world.unit[:, U.HEALTH], units, 1) > 0
        assert (aims == units)[attacks & alive & ~env.last[:, None]].all()
        hit += attacks.sum()
    assert hit > 500


def test_battles_begin_as_recorded_in_the_game(make) -> None:
    """The first state in LAMDA-RL/ODIS 5f943fa7, dataset/3m/medium: agents (health, cooldown, x,
    y), enemies (health, x, y), with (position - 16) / 28."""
    env = make("3m", 64)
    agents = [1, 0, -0.25, -0.02458845, 1, 0, -0.25, 0, 1, 0, -0.22541155, 0]
    enemies = [
        (1, 0.2695661, 0.00007847),
        (1, 0.24497768, -0.02450997),
        (1, 0.24497768, 0.00007847),
    ]
    state = env.state[:, :21]
    assert_allclose(state[:, :12], np.broadcast_to(agents, (64, 12)), atol=1e-4)
    found = np.sort(state[:, 12:].reshape(64, 3, 3), axis=1)
    assert_allclose(found, np.broadcast_to(np.sort(enemies, axis=0), (64, 3, 3)), atol=1e-4)


def test_jittered_starts_are_drawn_per_episode_within_their_limit() -> None:
    starts = jittered("3s_vs_5z")  # 1 to 1.25 cells apart: none is pushed
    fixed = np.array(start_points(find_map("3s_vs_5z"))).T
    agents = starts[:, :, 3:] - fixed[:, 3:]  # enemies are not numbered again
    agents[:, 0] += 2.25 / 16  # the loop that they have walked
    assert np.abs(agents[:, 0]).max() <= JITTER + 0.01
    assert np.abs(agents).max() > 0.9 * JITTER
    assert len(np.unique(starts[:, 0, 0])) == len(starts)
    assert (starts == jittered("3s_vs_5z")).all()


def test_jittered_agents_are_numbered_by_type_and_position() -> None:
    x = jittered("8m")[:, 0, :8]
    assert (np.diff(x, axis=1) >= 0).all()
    x = jittered("MMM")[:, 0]
    assert (np.diff(x[:, :2], axis=1) >= 0).all()
    assert (np.diff(x[:, 2:9], axis=1) >= 0).all()


def test_jittered_units_do_not_overlap_much_and_stay_on_walkable_cells() -> None:
    starts = jittered("25m")
    gaps = np.hypot(*(starts[:, :, :, None] - starts[:, :, None]).transpose(1, 0, 2, 3))
    assert gaps[:, ~np.eye(50, dtype=bool)].min() > 0.4
    x, y = jittered("so_many_baneling").astype(int).transpose(1, 0, 2)
    battles = Battles(map_name="so_many_baneling", n_envs=1, options=Options())
    assert battles.scene.pathable[x, y].all()


@pytest.mark.parametrize(
    ("name", "rules", "x"),
    [
        *((name, "sc2", None) for name in ("3m", "MMM", "corridor", "so_many_baneling")),
        *(("3m", rules, x) for rules in ("sc2", "smaclite") for x in (None, 0.01, 31.99)),
    ],
)
@pytest.mark.parametrize("jitter", [0.25, 16, 32])
def test_no_displacement_leads_off_the_map(name: str, rules: str, x: float | None, jitter: float):
    def starts() -> np.ndarray:
        battles = Battles(map_name=name, n_envs=16, options=Options(), rules=rules, jitter=jitter)
        if x is not None:
            battles.scene.first_unit[0, [U.X, U.GOAL_X]] = x
        battles.reset({e: e for e in range(16)})
        return battles.world.unit[:, [U.X, U.Y, U.GOAL_X, U.GOAL_Y]].copy()

    once = starts()
    assert once.min() > -1  # one loop on the way
    assert once[:, 2:].min() >= 0
    assert once.max() < 32
    assert once.tobytes() == starts().tobytes()


def test_jittered_battles_continue_exactly_after_loading() -> None:
    def play(env: SmacVectorEnv, n: int) -> list[np.ndarray]:
        rng, seen = np.random.default_rng(0), []
        for _ in range(n):
            env.step(random_legal(env.avail_actions, rng))
            seen.append(env.obs.copy())
        return seen

    one = SmacVectorEnv(map_name="3m", n_envs=2, start="jittered")
    one.reset(seeds)
    play(one, 10)
    state = one.state_dict()
    expected = play(one, 60)  # new episodes begin in these
    other = SmacVectorEnv(map_name="3m", n_envs=2, start="jittered")
    other.reset(seeds)
    other.load_state_dict(state)
    np.testing.assert_array_equal(np.array(play(other, 60)), np.array(expected))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """A file with two first frames of 3m, one cell apart."""
    starts = [
        {
            "allies": {"marine": [[9, y], [10, y], [11, y]]},
            "enemies": {"marine": [[23, y], [22, y], [21, y]]},
        }
        for y in (14, 15)
    ]
    return write_starts(tmp_path, starts)


def test_battles_begin_at_one_of_the_recorded_starts(make, recorded: str) -> None:
    env = make("3m", 32, start_positions=recorded)
    unit = env.battles.world.unit
    assert (unit[:, U.X, :3] == [9, 10, 11]).all()
    assert_allclose(unit[:, U.X, 3:], np.array([[23, 22, 21]] * 32) - LOOP, atol=0.01)
    drawn = unit[:, U.Y, 0]
    assert set(drawn.tolist()) == {14, 15}
    assert_allclose(unit[:, U.Y], np.repeat(drawn[:, None], 6, 1), atol=0.03)
    assert (unit[:, U.GOAL_X, 3:] == [10, 9, 8]).all()  # offsets from the middle of the team
    assert env.about["start_positions"].startswith("game.json ")


def test_recorded_starts_are_refused_by_other_rules_and_by_the_game(recorded: str) -> None:
    with pytest.raises(ValueError, match=r"rules=smaclite has its own"):
        SmacVectorEnv(map_name="3m", n_envs=1, start_positions=recorded, rules="smaclite")
    with pytest.raises(ValueError, match=r"env\.start_positions change"):
        SmacVectorEnv(map_name="3m", n_envs=1, start_positions=recorded, backend="sc2")


def test_the_game_places_its_units_itself() -> None:
    with pytest.raises(ValueError, match=r"env\.start=jittered"):
        SmacVectorEnv(map_name="3m", n_envs=1, start="jittered", backend="sc2")


def test_single_environments_take_the_options_too(recorded: str) -> None:
    env = StarCraft2Env(map_name="3m", seed=0, start_positions=recorded)
    env.reset()
    assert env.get_unit_by_id(1).pos.x == 10
    env = StarCraft2Env(map_name="3m", seed=0, start="jittered")
    first = env.reset()[1].copy()
    assert not np.array_equal(first, env.reset()[1])
