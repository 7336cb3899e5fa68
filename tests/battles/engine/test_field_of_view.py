"""SMACv2's rules of seeing and aiming, value by value: ranges, cones, partial sight, no mask."""

import numpy as np
import pytest

from rltrain.battles.engine.world import M, Order, U
from tests.battles.conftest import EAST, STOP, actions, enlist, place, random_legal

FAR = [(2.5 + 1.6 * k, 2.5) for k in range(12)]  # a row in the south


def enemy_blocks(b, e: int = 0) -> np.ndarray:
    """[A, enemies, size] of battle e's observations."""
    size, count = b.sizes.enemy, b.map_data.n_enemies
    return b.obs[e, :, b.sizes.move :][:, : count * size].reshape(-1, count, size)


def duel(b, distance: float, degrees: float, agent: str = "stalker") -> None:
    """One agent in the center, a zealot at that distance and direction."""
    enlist(b, agent, "zealot")
    angle = np.deg2rad(degrees)
    there = (16 + distance * np.cos(angle), 16 + distance * np.sin(angle))
    place(b, {0: (16.0, 16.0), 1: there})


@pytest.mark.parametrize(
    ("agent", "sight", "shoot"), [("stalker", 10, 6), ("zealot", 9, 2), ("colossus", 10, 7)]
)
def test_each_type_has_its_own_sight_and_range(scenario, agent, sight, shoot) -> None:
    b = scenario("protoss_1_vs_1")
    for distance in (sight, shoot + 0.01):
        duel(b, distance, 0, agent)
        assert enemy_blocks(b)[0, 0].any() == (distance < sight)
        assert b.avail[0, 0, 6] == 0
    duel(b, shoot, 0, agent)
    assert enemy_blocks(b)[0, 0, :4].tolist() == pytest.approx([1, shoot / sight, shoot / sight, 0])
    assert b.avail[0, 0, 6] == 1


def test_without_unit_ranges_all_units_have_smacs_ranges(scenario) -> None:
    b = scenario("protoss_1_vs_1", use_unit_ranges=False)
    duel(b, 8.9, 0, "zealot")
    assert enemy_blocks(b)[0, 0, 1] == pytest.approx(8.9 / 9)
    duel(b, 6.0, 0, "zealot")
    assert b.avail[0, 0, 6] == 1


def test_own_block_is_health_shield_place_and_type(scenario) -> None:
    b = scenario("protoss_1_vs_1")
    duel(b, 5, 90, "zealot")
    assert b.obs[0, 0, -7:].tolist() == [1, 1, 0.5, 0.5, 0, 1, 0]
    assert enemy_blocks(b)[0, 0, 4:].tolist() == [1, 1, 0, 1, 0]


@pytest.mark.parametrize("direction", range(12))
def test_cone_of_thirty_degrees_sees_and_shoots(scenario, direction: int) -> None:
    b = scenario("protoss_1_vs_1", conic_fov=True)
    duel(b, 12, 0)
    b.step(np.array([[6 + direction]]))
    for off in (-14, 0, 14):
        duel(b, 5, 30 * direction + off)
        assert enemy_blocks(b)[0, 0, 0] == 1
        assert b.avail[0, 0, 18] == 1
    for off in (-16, 16, 90, 180):
        duel(b, 5, 30 * direction + off)
        assert not enemy_blocks(b)[0, 0].any()
        assert b.avail[0, 0, 18] == 0
    angle = np.deg2rad(30 * direction)
    assert b.obs[0, 0, -5:-3].tolist() == pytest.approx([np.cos(angle), np.sin(angle)], abs=1e-6)
    assert b.state[0, 5:7].tolist() == pytest.approx([np.cos(angle), np.sin(angle)], abs=1e-6)


def test_everybody_looks_east_first_and_the_cone_hides_friends_too(scenario) -> None:
    b = scenario("protoss_2_vs_1", conic_fov=True)
    enlist(b, "stalker", "stalker", "zealot")
    place(b, {0: (10.0, 16.0), 1: (14.0, 16.0), 2: (24.0, 28.0)})
    friend = slice(b.sizes.move + b.sizes.enemy, b.sizes.move + b.sizes.enemy + b.sizes.ally)
    assert b.obs[0, 0, friend][:4].tolist() == pytest.approx([1, 0.4, 0.4, 0])
    assert not b.obs[0, 1, friend].any()


def test_turning_the_cone_is_no_order(scenario) -> None:
    b = scenario("protoss_1_vs_1", conic_fov=True)
    duel(b, 12, 90)
    b.step(actions(b, a0=EAST))
    walked = b.world.unit[0, U.X, 0]
    b.step(actions(b, a0=9))
    assert b.world.unit[0, U.X, 0] > walked
    assert b.world.mark[0, M.ORDER, 0] == Order.MOVE
    assert (b.avail[0, 0, 6:18] == 1).all()


def test_one_agent_sees_each_enemy_if_nothing_is_shared(scenario) -> None:
    b = scenario("protoss_10_vs_10", 40, prob_obs_enemy=0.0)
    everything = scenario("protoss_10_vs_10", 40)
    shared = 0
    for e in range(40):
        seen, could = enemy_blocks(b, e).any(2), enemy_blocks(everything, e).any(2)
        assert (seen.sum(0) == could.any(0)).all()
        assert not (seen & ~could).any()
        shared += (could.sum(0) > 1).sum()
    assert shared > 50


def test_first_to_see_an_enemy_keeps_it_until_dead(scenario) -> None:
    b = scenario("protoss_10_vs_10", 20, prob_obs_enemy=0.0)
    rng = np.random.default_rng(0)
    before = b.world.watcher.copy()
    for _ in range(40):
        b.step(random_legal(b.avail, rng))
        running = ~b.ended
        for e in np.flatnonzero(running):
            assert (b.world.watches[e].sum(0) <= 1).all()
            alive = b.world.unit[e, U.HEALTH] > 0
            kept = (before[e] >= 0) & alive[10:] & alive[np.maximum(before[e], 0)]
            assert (b.world.watcher[e][kept] == before[e][kept]).all()
        before = b.world.watcher.copy()
    assert (before >= 0).any()


def test_others_share_the_sight_with_the_probability(scenario) -> None:
    b = scenario("protoss_10_vs_10", 200, prob_obs_enemy=0.3)
    known = b.world.watcher >= 0
    others = (b.world.watches.sum(1)[known] - 1) / 9
    assert len(others) > 300
    assert others.mean() == pytest.approx(0.3, abs=0.03)


def test_everything_shared_is_everything_in_sight(scenario) -> None:
    plain = scenario("terran_10_vs_10", 30)
    assert (scenario("terran_10_vs_10", 30, action_mask=False).obs == plain.obs).all()


def test_without_a_mask_every_living_target_is_available(scenario) -> None:
    b = scenario("terran_3_vs_2", action_mask=False)
    enlist(b, "marauder", "marine", "medivac", "marine", "marine")
    place(b, {0: (5.0, 16.0), 1: (6.0, 16.0), 2: (14.0, 16.0), 3: (11.0, 16.0)})
    assert b.avail[0, :, 6:].tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert enemy_blocks(b)[:, 0, 0].tolist() == [1, 1, 0]  # no unit to heal in range


def test_attack_out_of_range_without_a_mask_keeps_the_order(scenario) -> None:
    b = scenario("protoss_1_vs_1", action_mask=False)
    duel(b, 12, 90)
    b.step(actions(b, a0=EAST))
    order, walked = b.world.mark[0, M.ORDER, 0], b.world.unit[0, U.X, 0]
    b.step(actions(b, a0=6))
    assert order == b.world.mark[0, M.ORDER, 0] == Order.MOVE
    assert b.world.unit[0, U.X, 0] > walked
    duel(b, 3, 0)
    b.step(actions(b, a0=6))
    assert (b.world.mark[0, M.ORDER, 0], b.world.mark[0, M.TARGET, 0]) == (Order.ATTACK, 1)


def test_fully_observable_battle_shows_everybody_alive(scenario) -> None:
    b = scenario("zerg_5_vs_5", 10, fully_observable=True)
    assert all(enemy_blocks(b, e).any(2).all() for e in range(10))
    assert (b.avail == scenario("zerg_5_vs_5", 10).avail).all()


@pytest.mark.parametrize("published", [False, True])
def test_unseen_enemy_hides_those_before_it_only_as_published(scenario, published) -> None:
    b = scenario("protoss_1_vs_2", zero_enemy_block=published)
    enlist(b, "stalker", "zealot", "zealot")
    place(b, {0: (10.0, 16.0), 1: (14.0, 16.0), 2: (28.0, 16.0)})
    b.step(np.array([[STOP]]))
    assert enemy_blocks(b)[0, 0].any() != published
    assert b.world.unit[0, U.Y, 0] == 16
