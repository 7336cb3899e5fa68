"""Units pass each other as recorded units of StarCraft II do."""

import numpy as np
import pytest

from rltrain.battles.engine.world import P, U
from tests.battles.conftest import ATTACK, EAST, NORTH, SOUTH, STOP, WEST, actions, place, steps

STEP = 1.125  # cells that a marine walks in an env step
FAR = (3.0, 8.0)


def moved(b, *units):
    """How far these units get in a step [units, 2]."""
    before = b.world.unit[0, [U.X, U.Y]].T.copy()

    def by(**chosen):
        b.step(actions(b, **chosen))
        return (b.world.unit[0, [U.X, U.Y]].T - before)[list(units)]

    return by


@pytest.mark.parametrize("direction", [NORTH, SOUTH, EAST, WEST])
def test_neighbors_that_walk_alike_do_not_disturb_each_other(make, direction) -> None:
    """The places of 8m, where the game's marines overlap by 1/16 cell and keep it."""
    env = make("8m")
    b = env.battles
    by = moved(b, *range(8))(**{f"a{i}": direction for i in range(8)})
    assert np.abs(by - by[0]).max() < 1e-4
    assert np.abs(by[0]).max() == pytest.approx(STEP, abs=1e-4)


@pytest.mark.parametrize("aside", [-0.5, -0.3, -0.1, 0.0, 0.1, 0.3, 0.5])
def test_two_units_pass_head_on_within_a_step(battle, aside) -> None:
    b = place(battle(), {0: (10.0, 16.0), 1: (10.8, 16.0 + aside), 3: FAR})
    by = moved(b, 0, 1)(a0=EAST, a1=WEST)
    assert by[0, 0] > 0.7 * STEP
    assert by[1, 0] < -0.7 * STEP
    gap = 0.6875 - 0.1
    assert by[1, 1] - by[0, 1] + aside == pytest.approx(np.sign(aside or 1) * gap, abs=0.15)


def test_both_give_way_to_the_right_where_they_meet_exactly(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 1: (11.5, 16.0), 3: FAR})
    by = moved(b, 0, 1)(a0=EAST, a1=WEST)
    assert by[0, 1] < -0.1
    assert by[1, 1] > 0.1
    np.testing.assert_allclose(by[0], -by[1], atol=1e-3)


def test_a_unit_walks_around_a_friend_that_stands(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 1: (11.0, 16.05), 3: FAR})
    by = moved(b, 0)
    for _ in range(2):
        by(a0=EAST, a1=STOP)
    assert b.world.unit[0, U.X, 0] > 10 + 2 * 0.8 * STEP


def test_units_walk_around_friends_that_fire_at_most_of_their_speed(battle) -> None:
    """The third of three enemies behind two that fire gets to fire, too."""
    b = place(battle(), {0: (10.0, 15.6), 3: (15.6, 15.3), 4: (15.6, 16.0), 5: (16.4, 15.7)})
    b.world.unit[0, U.HEALTH, [0, 3, 4, 5]] = 1e6
    before = b.world.unit[0, [U.X, U.Y], 5].copy()
    steps(b, 4, a0=ATTACK)
    at = b.world.unit[0, [U.X, U.Y], 5]
    assert np.hypot(*(at - before)) > 0.7
    reach = b.scene.param[0, P.RANGE, 5] + 0.75
    assert np.hypot(*(b.world.unit[0, [U.X, U.Y], 0] - at)) <= reach + 0.05


def test_units_slide_along_walls(battle) -> None:
    b = place(battle("8m"), {0: (10.0, 7.4), 8: (28.0, 20.0)})
    b.world.unit[0, [U.GOAL_X, U.GOAL_Y], 0] = 12.0, 6.0
    b.step(actions(b, a0=EAST))
    assert b.world.unit[0, U.Y, 0] >= 7 + b.scene.param[0, P.DISC, 0] - 1e-4
    assert b.world.unit[0, U.X, 0] == pytest.approx(10 + STEP, abs=1e-3)
