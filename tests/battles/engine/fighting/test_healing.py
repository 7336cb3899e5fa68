"""Healers: orders, energy, patients, flight, and battles in which only they are left."""

import numpy as np
import pytest

from rltrain.battles.engine.episode import compute_outcome
from rltrain.battles.engine.fighting.healing import mend
from rltrain.battles.engine.world import Effect, M, Order, Outcome, U
from tests.battles.conftest import ATTACK, EAST, WEST, actions, place, steps


def test_medivac_heals_on_order_for_energy(battle) -> None:
    b = place(battle("MMM"), {0: (10.0, 16.0), 2: (12.0, 16.0), 9: (10.0, 19.0), 10: (28.0, 8.0)})
    b.world.unit[0, U.HEALTH, 2] = 20
    b.step(actions(b))
    assert b.world.unit[0, U.HEALTH, 2] == 20  # agents' healers wait for orders
    b.step(actions(b, a9=ATTACK + 2))
    assert b.world.mark[0, M.ORDER, 9] == Order.HEAL
    assert b.world.unit[0, U.HEALTH, 2] == pytest.approx(24.5)
    spent = 50 + 16 * 0.5625 / 16 - b.world.unit[0, U.ENERGY, 9]
    assert spent == pytest.approx(4.5 * 0.33, abs=1e-3)
    b.world.unit[0, U.HEALTH, 2] = 44.9
    b.step(actions(b, a9=ATTACK + 2))
    assert b.world.unit[0, U.HEALTH, 2] == 45


def test_fifty_energy_heal_151_health(battle) -> None:
    b = battle("MMM")
    unit, mark, param = b.world.unit[0], b.world.mark[0], b.scene.param[0]
    place(b, {0: (10.0, 16.0), 9: (10.0, 16.0)})
    unit[U.HEALTH, 0] = param_health = 1.0
    mark[M.TARGET, 9] = 0
    healed = 0.0
    for _ in range(400):
        unit[U.HEALTH, 0] = 1.0
        mend(unit, mark, param, b.scene.affects[0])
        healed += float(unit[U.HEALTH, 0]) - param_health
    assert healed == pytest.approx(50 / 0.33, abs=0.1)


def test_healer_actions_address_allies_by_index(battle) -> None:
    b = battle("MMM")
    place(
        b, {0: (10.0, 16.0), 2: (20.0, 16.0), 9: (13.0, 16.0), 10: (17.0, 16.0), 12: (15.0, 16.0)}
    )
    assert b.avail[0, 9].tolist() == [0, 1, 1, 1, 1, 1, 1] + [0] * 9
    first = b.obs[0, 9, 4 + 8 * np.arange(10)]
    assert first.tolist() == [1] + [0] * 9  # enemy 0 is seen, and agent 0 can be healed
    assert b.obs[0, 9, 4 + 1] == pytest.approx(4 / 9)
    assert b.state[0, 9 * 7 + 1] == pytest.approx(50 / 200)


def test_only_biological_allies_can_be_healed(battle) -> None:
    affects = battle("MMM").scene.affects[0]
    assert (affects[9, :9] == Effect.MEND).all()
    assert (affects[9, 9:] == Effect.NOTHING).all()
    assert (affects[19, 10:19] == Effect.MEND).all()


def test_enemy_medivac_heals_the_unit_with_the_smallest_health_share(battle) -> None:
    b = place(battle("MMM"), {2: (5.0, 10.0), 10: (24.0, 16.0), 17: (25.0, 16.0), 19: (26.0, 18.0)})
    b.world.unit[0, U.HEALTH, [10, 17]] = 40, 30
    b.step(actions(b))
    assert b.world.mark[0, M.TARGET, 19] == 17
    assert b.world.unit[0, U.HEALTH, 17] > 32
    assert b.world.unit[0, U.HEALTH, 10] == 40


def test_healing_of_enemies_gives_reward_by_absolute_value(battle) -> None:
    b = battle("MMM", reward_scale=False)
    place(b, {2: (5.0, 10.0), 17: (25.0, 16.0), 19: (26.0, 18.0)})
    b.world.unit[0, U.HEALTH, 17] = 30
    b.step(actions(b))
    assert b.reward[0] == pytest.approx(b.world.unit[0, U.HEALTH, 17] - 30)


def test_medivac_flies_over_units_and_accelerates(battle) -> None:
    b = place(battle("MMM"), {0: (12.0, 16.0), 9: (10.0, 16.0), 10: (28.0, 8.0)})
    b.step(actions(b, a9=EAST))
    first = float(b.world.unit[0, U.X, 9]) - 10
    assert first < 0.9
    steps(b, 3, a9=EAST)
    assert b.world.unit[0, U.X, 9] > 13
    assert b.world.unit[0, [U.X, U.Y], 0].tolist() == [12, 16]
    b.step(actions(b, a9=WEST))


@pytest.mark.parametrize(
    ("alive", "outcome"),
    [
        ((0, 10), Outcome.RUNNING),
        ((9, 10), Outcome.DEFEAT),
        ((0, 19), Outcome.WIN),
        ((), Outcome.DEFEAT),
        ((9, 19), Outcome.DEFEAT),
    ],
)
def test_team_with_only_healers_left_has_lost(battle, alive, outcome) -> None:
    b = place(battle("MMM"), dict.fromkeys(alive, (16.0, 16.0)))
    unit, param = b.world.unit[0], b.scene.param[0]
    assert compute_outcome(unit, param, 10, True, False, 150, np.int32(1)) == outcome
    none_fights = 0 not in alive and 10 not in alive  # no side is favored where both are commanded
    equal = Outcome.DRAW if none_fights else outcome
    assert compute_outcome(unit, param, 10, True, True, 150, np.int32(1)) == equal
