"""Movement, weapons, targets and rewards, on hand-placed units."""

import numpy as np
import pytest

from rltrain.battles.engine.battles import IllegalAction
from rltrain.battles.engine.world import NO_ONE, M, Outcome, U
from tests.battles.conftest import ATTACK, EAST, NORTH, STOP, WEST, actions, place, steps

FACING, APART = {0: (14.0, 16.0), 3: (19.0, 16.0)}, {0: (28.0, 24.0), 3: (5.0, 8.0)}
UNSCALED = {"reward_scale": False, "reward_defeat": -7.0}
LOSSES = {"reward_scale": False, "reward_defeat": -5.0, "reward_only_positive": False}


def test_start_positions_and_agent_order(battle) -> None:
    unit = battle("5m_vs_6m").world.unit[0]
    beside = 0.75 - 252 / 4096
    assert unit[U.X, :5].tolist() == [9 - beside, 9, 9, 9, 9 + beside]
    assert unit[U.Y, :5].tolist() == [16, 16 - beside, 16, 16 + beside, 16]
    assert (np.diff(unit[U.X, 5:]) != 0).sum() == 4  # enemies keep the order of creation


def test_one_step_is_half_a_normal_second_of_walking(battle) -> None:
    b = place(battle(), {0: (5.0, 16.0), 3: (29.0, 8.0)})
    for k in range(10):
        b.step(actions(b, a0=EAST))
        assert b.world.unit[0, U.X, 0] == pytest.approx(5.0 + 1.125 * (k + 1), abs=1e-4)
    assert b.world.unit[0, U.Y, 0] == pytest.approx(16.0, abs=1e-4)


def test_wall_is_reached_without_braking_and_not_entered(battle) -> None:
    b = place(battle(), {0: (4.0, 16.0), 3: (29.0, 8.0)})
    b.step(actions(b, a0=WEST))
    assert b.world.unit[0, U.X, 0] == pytest.approx(2.875, abs=1e-4)
    assert b.avail[0, 0, WEST] == 0  # the cell one away is blocked
    b.step(actions(b, a0=NORTH))
    assert b.world.unit[0, U.Y, 0] == pytest.approx(17.125, abs=1e-4)


def test_walk_into_a_wall_stops_at_the_disc(battle) -> None:
    b = place(battle(), {0: (3.05, 16.0), 3: (29.0, 8.0)})
    b.step(actions(b, a0=WEST))
    assert b.world.unit[0, U.X, 0] == pytest.approx(2 + 0.375 - 1 / 32, abs=1e-3)


def test_move_availability_reads_one_cell_with_truncation(battle) -> None:
    b = place(battle(), {0: (3.0, 16.0), 1: (2.99, 12.0), 3: (29.0, 24.2)})
    assert b.avail[0, 0, WEST] == 1  # 2.0 is in cell 2
    assert b.avail[0, 1, WEST] == 0  # 1.99 is in cell 1


def test_eight_marine_hits_kill_a_marine(battle) -> None:
    b = place(battle(), FACING)
    b.world.unit[0, U.HEALTH, 0] = 1e6
    seen = [45.0]
    while b.world.outcome[0] == Outcome.RUNNING:
        b.step(actions(b, a0=ATTACK))
        if b.world.unit[0, U.HEALTH, 3] != seen[-1]:
            seen.append(float(b.world.unit[0, U.HEALTH, 3]))
    assert (seen, b.world.outcome[0]) == ([45, 39, 33, 27, 21, 15, 9, 3, 0], Outcome.WIN)


def test_mean_firing_period_of_a_marine_carries_the_remainder(battle) -> None:
    b = place(battle(step_mul=1), FACING)
    b.scene.damage[0, 3] = 0.0  # the enemy does not hurt
    shots, loops = [], 10_000
    for k in range(loops):
        b.world.clock[0] = 0
        b.world.unit[0, U.HEALTH, 3] = 45
        b.step(actions(b, a0=ATTACK))
        if b.world.unit[0, U.HEALTH, 3] < 45:
            shots.append(k)
    periods = np.diff(shots)
    assert periods.mean() == pytest.approx(0.8608 * 16 + 0.5, abs=0.06)
    assert set(periods.tolist()) <= set(range(12, 18))


def test_shot_hits_one_loop_after_the_attack_starts(battle) -> None:
    b = place(battle(step_mul=1), FACING)
    b.step(actions(b, a0=ATTACK))
    assert b.world.unit[0, U.WINDUP, 0] > 0
    assert b.world.unit[0, U.HEALTH, 3] == 45
    b.step(actions(b, a0=ATTACK))
    assert b.world.unit[0, U.HEALTH, 3] == 39
    assert b.world.unit[0, U.COOLDOWN, 0] > 10


def test_another_order_cancels_a_windup_without_a_cooldown(battle) -> None:
    b = place(battle(step_mul=1), FACING)
    b.step(actions(b, a0=ATTACK))
    b.step(actions(b, a0=STOP))
    assert b.world.unit[0, U.HEALTH, 3] == 45
    assert b.world.unit[0, U.COOLDOWN, 0] <= 0


def test_marine_ordered_to_attack_from_5_9_walks_first(battle) -> None:
    b = place(battle(step_mul=1), {0: (14.0, 16.0), 3: (19.9, 16.0)})
    b.world.mark[0, M.TARGET, 3] = NO_ONE
    b.step(actions(b, a0=ATTACK))
    assert b.world.unit[0, U.X, 0] > 14.0
    assert b.world.mark[0, M.STANDS, 0] == 0


def test_agents_never_attack_on_their_own(battle) -> None:
    b = battle("8m")
    while b.world.outcome[0] == Outcome.RUNNING:
        b.step(actions(b))
        assert (b.world.unit[0, U.HEALTH, 8:] == 45).all()
        assert b.reward[0] == 0.0
    assert (b.world.unit[0, U.HEALTH, :8] == 0).all()


def test_first_contact_with_standing_agents_around_step_seven(battle) -> None:
    first = []
    for seed in range(20):
        b = battle("3m", seed)
        while (b.world.unit[0, U.HEALTH] == 45).all():
            b.step(actions(b))
        first.append(int(b.world.clock[0]))
    assert 6.5 <= np.mean(first) <= 8.0


def test_enemies_walk_to_the_allied_spawn_and_do_not_hunt(battle) -> None:
    b = place(battle(), {0: (28.0, 24.0), 3: (14.0, 16.0), 4: (14.0, 15.0)})
    steps(b, 12)
    unit = b.world.unit[0]
    assert np.hypot(unit[U.X, 3] - 9, unit[U.Y, 3] - 16) < 1.0
    assert np.hypot(unit[U.X, 4] - 9, unit[U.Y, 4] - 16) < 1.0
    assert (b.world.mark[0, M.TARGET, 3:5] == NO_ONE).all()


def test_enemy_shot_from_beyond_its_scan_range_pursues_the_attacker(battle) -> None:
    b = place(battle(), {0: (14.0, 16.0), 3: (21.0, 16.0), 4: (24.0, 16.0)})
    b.world.unit[0, U.HEALTH, 0] = 1e6
    b.world.mark[0, M.ATTACKER, 3] = 0
    b.world.unit[0, 8:10, 3:] = 29.0  # they are on their way elsewhere
    b.step(actions(b))
    assert (b.world.mark[0, M.TARGET, 3], b.world.mark[0, M.TARGET, 4]) == (0, NO_ONE)


def test_attacked_unit_calls_allies_within_four_cells(battle) -> None:
    b = battle("5m_vs_6m")
    place(b, {0: (14.0, 16.0), 5: (19.0, 16.0), 6: (22.0, 16.0), 7: (24.0, 16.0)})
    b.world.unit[0, U.HEALTH, 0] = 1e6
    b.world.unit[0, U.COOLDOWN, 5:] = 1e6
    b.world.unit[0, 8:10, 5:] = 29.0
    b.step(actions(b, a0=ATTACK))
    assert b.world.mark[0, M.ATTACKER, 5:8].tolist() == [0, 0, NO_ONE]


def test_enemy_keeps_its_target_when_another_comes_nearer(battle) -> None:
    b = place(battle(), {0: (14.0, 16.0), 1: (15.0, 20.0), 3: (18.0, 16.0)})
    b.world.unit[0, U.HEALTH, :2] = 1e6
    b.step(actions(b))
    assert b.world.mark[0, M.TARGET, 3] == 0
    b.world.unit[0, U.X, 1], b.world.unit[0, U.Y, 1] = 17.0, 17.0
    b.step(actions(b))
    assert b.world.mark[0, M.TARGET, 3] == 0


def test_flawless_win_returns_exactly_twenty(battle) -> None:
    b = battle()
    b.world.unit[0, U.HEALTH, :3] = 1e6
    total = 0.0
    while b.world.outcome[0] == Outcome.RUNNING:
        target = int(np.argmax(b.world.unit[0, U.HEALTH, b.world.enemies[0]] > 0))
        order = ATTACK + target
        can = b.avail[0, :, order] == 1
        b.step(np.where(can, order, STOP)[None])
        total += float(b.reward[0])
    assert b.world.outcome[0] == Outcome.WIN
    assert total == pytest.approx(20.0, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "health", "action", "reward"),
    [
        ({"reward_sparse": True, "reward_scale": True}, {3: 1}, ATTACK, 20 / 365),
        ({"reward_sparse": True, "reward_scale": False}, {3: 1}, ATTACK, 1.0),
        ({"reward_sparse": True, "reward_scale": True}, {0: 6}, STOP, -20 / 365),
        ({"reward_sparse": True, "reward_scale": False}, {0: 6}, STOP, -1.0),
        (LOSSES, {0: 6}, STOP, -0.5 * 6 - 0.5 * 10 - 5),
    ],
    ids=["sparse win", "unscaled win", "sparse defeat", "unscaled defeat", "own losses"],
)
def test_reward_of_a_shot_that_ends_the_battle(battle, options, health, action, reward) -> None:
    b = place(battle(**options), FACING)
    b.world.unit[0, U.HEALTH, [*health]] = [*health.values()]
    b.step(actions(b, a0=action))
    assert b.reward[0] == pytest.approx(reward)


def test_regeneration_of_enemies_gives_reward_by_absolute_value(battle) -> None:
    b = place(battle(reward_scale=False), {0: (24.0, 16.0), 3: (29.0, 16.0)})
    b.scene.damage[0, 0] = -1.0  # a hit that gives one point of shield
    b.step(actions(b, a0=ATTACK))
    assert b.world.unit[0, U.SHIELD, 3] == 1.0
    assert b.reward[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("map_name", "points", "clock", "outcome", "reward"),
    [
        ("3m", {}, 0, Outcome.DRAW, 0.0),
        ("MMM", {9: (14.0, 16.0)}, 0, Outcome.DEFEAT, -7.0),
        ("3m", FACING, 59, Outcome.DEFEAT, -7.0),
        ("3m", APART, 59, Outcome.TIMEOUT, 0.0),
    ],
    ids=["double death", "double death with medivacs", "defeat in the last step", "time limit"],
)
def test_only_a_defeat_gives_reward_defeat(battle, map_name, points, clock, outcome, reward):
    b = place(battle(map_name, **UNSCALED), points)
    b.world.unit[0, U.HEALTH, 0] = min(6, b.world.unit[0, U.HEALTH, 0])
    b.world.clock[0] = clock
    b.step(actions(b))
    assert (b.ended[0], b.world.outcome[0], b.reward[0]) == (True, outcome, reward)
    result = b.results([0])[0]
    assert result["win"] is False
    assert result["timeout"] is (outcome == Outcome.TIMEOUT)


def test_win_in_the_last_step_beats_the_time_limit(battle) -> None:
    b = place(battle(), FACING)
    b.world.unit[0, U.HEALTH, 3] = 1
    b.world.clock[0] = 59
    b.step(actions(b, a0=ATTACK))
    assert b.results([0])[0] == {"win": True, "dead_allies": 2, "dead_enemies": 3, "timeout": False}


def test_battle_is_frozen_after_its_end_until_it_is_reset(battle) -> None:
    b = place(battle(), APART)
    b.world.clock[0] = 59
    b.step(actions(b))
    before = b.state_dict()
    obs = b.obs.copy()
    b.step(actions(b))
    assert all((before[name] == array).all() for name, array in b.state_dict().items())
    assert (obs == b.obs).all()
    b.reset({0: 3})
    assert not b.ended[0]
    assert b.world.clock[0] == 0


@pytest.mark.parametrize(("options", "x"), [({"step_mul": 4}, 5.5625), ({"move_amount": 1.0}, 6.0)])
def test_step_mul_and_move_amount_set_loops_and_distance(battle, options, x: float) -> None:
    b = place(battle(**options), {0: (5.0, 16.0), 3: (29.0, 8.0)})
    b.step(actions(b, a0=EAST))
    assert b.world.unit[0, U.X, 0] == pytest.approx(x, abs=1e-4)


def test_illegal_action_names_environment_agent_and_action_and_changes_nothing(battle) -> None:
    b = battle()
    before = b.state_dict()
    said = r"environment 0: agent 2 chose 6, available are \[1, 2"
    with pytest.raises(IllegalAction, match=said):
        b.step(np.array([[STOP, STOP, 6]]))
    assert all((before[name] == array).all() for name, array in b.state_dict().items())
