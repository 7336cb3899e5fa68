"""The enemies' side of a battle: what it sees and may do, and that neither side is favored."""

from dataclasses import replace

import numpy as np
import pytest

from rltrain.battles.data.map_data import MapData
from rltrain.battles.data.maps import MAPS, find_map
from rltrain.battles.data.scenarios import find_scenario
from rltrain.battles.engine import env_step
from rltrain.battles.engine.battles import Battles, IllegalAction
from rltrain.battles.engine.enemy_side import equal_teams
from rltrain.battles.engine.world import NO_ONE, M, Order, Outcome, U
from rltrain.battles.options import Options, Smacv2Options
from rltrain.battles.scripted.policies import DECISIONS, BattleDecisions, closest
from tests.marks import each_once

EQUAL = ("3m", "8m", "2s3z", "MMM", "bane_vs_bane", "terran_5_vs_5", "protoss_10_vs_10")
FAIR = ("3m", "8m", "2s3z", "MMM", "terran_5_vs_5", "protoss_10_vs_10", "zerg_20_vs_20")
GRID = 4096  # a point on a grid of 1 / GRID cells has an exact mirror image
SHOWN = ("obs_last_action", "obs_pathing_grid", "obs_terrain_height", "obs_timestep_number")
EVERYTHING = Options(**dict.fromkeys((*SHOWN, "state_timestep_number"), True))
CONES = Smacv2Options(conic_fov=True, prob_obs_enemy=0.5)


def battles_of(name: str, n: int, options: Options = EVERYTHING) -> Battles:
    """Battles in which both sides wait for orders."""
    battles = Battles(map_name=name, n_envs=n, options=options, two_sided=True)
    battles.other.commanded[:] = True
    battles.reset({e: 7919 * e for e in range(n)})
    return battles


def drawn(avail: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Available actions at random, attacks more often than others."""
    weight = np.where(np.arange(avail.shape[2]) > 5, 3.0, 1.0)
    return np.where(avail > 0, rng.random(avail.shape) * weight, -1).argmax(-1)


def play(battles: Battles, n_steps: int, seed: int = 0) -> None:
    """Random steps of both sides; ended battles begin again."""
    rng = np.random.default_rng(seed)
    assert battles.other is not None
    for _ in range(n_steps):
        over = {int(e): int(rng.integers(1 << 40)) for e in np.flatnonzero(battles.ended)}
        battles.step(drawn(battles.avail, rng), over, drawn(battles.other.avail, rng))


def mirrored(name: str, options: Options = EVERYTHING) -> tuple[Battles, Battles]:
    """Battles after random play, and the same ones with the sides exchanged and the map turned."""
    one, two = battles_of(name, 16, options), battles_of(name, 16, options)
    play(one, 23)
    unit, other = one.world.unit, two.other
    assert other is not None
    unit[:, [U.X, U.Y]] = np.round(unit[:, [U.X, U.Y]] * GRID) / GRID
    order = other._order
    if one.roster is not None:
        np.put_along_axis(two.world.kind, order, one.world.kind, 1)
    for e in range(16):
        at = order[e]
        two.world.unit[e][:, at] = unit[e]
        two.world.unit[e][[U.X, U.Y]] = 32 - two.world.unit[e][[U.X, U.Y]]
        two.world.unit[e][U.VX : U.NY + 1] *= -1
        two.world.mark[e][:, at] = one.world.mark[e]
        target = one.world.mark[e, M.TARGET]
        two.world.mark[e, M.TARGET, at] = np.where(target < 0, target, at[target])
    two.world.clock[:], two.world.outcome[:] = one.world.clock, Outcome.RUNNING
    one.world.outcome[:] = Outcome.RUNNING
    for part in ("last_action", "enemies", "facing", "watcher", "watches", "blank"):
        getattr(other.world, part)[:] = getattr(one.world, part)
    two.load_state_dict(two.state_dict())
    one.refresh()
    return one, two


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("options", [EVERYTHING, CONES], ids=["everything", "cones"])
def test_a_mirrored_battle_looks_the_same_from_the_other_side(name: str, options: Options) -> None:
    one, two = mirrored(name, options)
    assert two.other is not None
    for part in ("obs", "avail", "state"):
        mine, theirs = getattr(one, part), getattr(two.other, part)
        assert mine.any()
        assert mine.tobytes() == theirs.tobytes(), part


@each_once(name=EQUAL, decisions=DECISIONS)
def test_a_scripted_policy_decides_the_same_from_the_other_side(name: str, decisions: str) -> None:
    one, two = mirrored(name)
    assert two.other is not None
    mine, theirs = (BattleDecisions(side, DECISIONS[decisions])() for side in (one, two.other))
    assert (mine == theirs).all()


@pytest.mark.parametrize("name", EQUAL)
def test_the_other_sides_actions_are_the_mirrored_orders(name: str) -> None:
    one, two = mirrored(name)
    other = two.other
    assert other is not None
    action = drawn(one.avail, np.random.default_rng(1))
    for e in range(16):
        world, param, affects = one.world, one.table("param", e), one.table("affects", e)
        env_step.give_orders(
            one.shown, world.unit[e], world.mark[e], param, affects, world.enemies, world.facing,
            one.frame.visible, e, action, False,
        )  # fmt: skip
    other.command(action, np.zeros(16, np.bool_))
    for e, i in np.argwhere(one.avail[:, :, 0] == 0):
        j = other._order[e, i]
        mine, theirs = one.world.mark[e, :, i], two.world.mark[e, :, j]
        assert mine[M.ORDER] == theirs[M.ORDER]
        assert (
            mine[M.TARGET] == theirs[M.TARGET] == -1
            or other._order[e, mine[M.TARGET]] == theirs[M.TARGET]
        )
        assert one.world.unit[e, U.WINDUP, i] == two.world.unit[e, U.WINDUP, j]
        if mine[M.ORDER] == Order.MOVE:
            goal = one.world.unit[e, [U.GOAL_X, U.GOAL_Y, U.VX], i]
            turned = two.world.unit[e, [U.GOAL_X, U.GOAL_Y, U.VX], j]
            assert turned.tolist() == (np.array([32, 32, 0], np.float32) - goal).tolist()


def test_commanded_enemies_have_no_head_start_and_wait_for_orders() -> None:
    battles = battles_of("3m", 1)
    before = battles.world.unit[0, [U.X, U.Y]].copy()
    assert (battles.world.unit[0, [U.VX, U.VY]] == 0).all()
    battles.step(np.ones((1, 3), int), None, np.ones((1, 3), int))
    assert (battles.world.unit[0, [U.X, U.Y]] == before).all()


@pytest.mark.parametrize(
    "row",
    [
        *map(find_scenario, ("protoss_5_vs_5", "terran_5_vs_5", "zerg_5_vs_5")),
        *(replace(find_map(name), chases=True) for name in ("3m", "MMM")),
        *(replace(find_map("2s3z"), hunts=hunts) for hunts in (False, True)),
    ],
    ids=lambda row: f"{row.name} {row.chases} {row.hunts}",
)
def test_commanded_enemies_obey_all_orders_and_no_others(row: MapData) -> None:
    battles = Battles(map_data=row, n_envs=4, options=Options(), two_sided=True)
    battles.other.commanded[:] = True
    battles.reset({e: e for e in range(4)})
    A, rng = row.n_agents, np.random.default_rng(0)
    for _ in range(20):
        order = drawn(battles.other.avail, rng)
        battles.step(np.argmax(battles.avail, -1), None, order)
        alive = battles.world.unit[:, U.HEALTH, A:] > 0
        assert (battles.world.mark[:, M.ORDER, A:][alive] < Order.ATTACK_MOVE).all()
        chosen = np.take_along_axis(order, battles.other._place[:, A:], 1)
        attacks = chosen >= battles.shown.first_attack
        assert (battles.world.mark[:, M.TARGET, A:][alive & ~attacks] == NO_ONE).all()


def test_battles_that_the_engine_commands_are_those_of_one_side() -> None:
    rng = np.random.default_rng(0)
    one = Battles(map_name="2s3z", n_envs=2, options=Options())
    two = Battles(map_name="2s3z", n_envs=2, options=Options(), two_sided=True)
    two.other.commanded[1] = True
    for battles in (one, two):
        battles.reset({0: 3, 1: 4})
    for _ in range(40):
        action = drawn(one.avail, rng)[0]
        one.step(np.array([action, drawn(one.avail, rng)[1]]))
        two.step(np.array([action, drawn(two.avail, rng)[1]]), None, drawn(two.other.avail, rng))
        assert one.obs[0].tobytes() == two.obs[0].tobytes()
        assert one.reward[0] == two.reward[0]
    assert (two.other.avail[0].sum(-1) == 1).all()


def test_an_action_that_is_not_available_to_the_other_side_changes_nothing() -> None:
    battles = battles_of("3m", 2)
    before = battles.state_dict()
    with pytest.raises(IllegalAction, match="environment 1: agent 2 chose 0, available are"):
        battles.step(np.ones((2, 3), int), None, np.array([[1, 1, 1], [1, 1, 0]]))
    after = battles.state_dict()
    assert all((before[name] == after[name]).all() for name in before if name != "other")


@pytest.mark.parametrize("name", ["MMM", "zerg_5_vs_5"])
@pytest.mark.parametrize("options", [EVERYTHING, CONES], ids=["everything", "cones"])
def test_both_sides_go_on_exactly_from_a_saved_state(name: str, options: Options) -> None:
    one, two = battles_of(name, 3, options), battles_of(name, 3, options)
    play(one, 30)
    two.load_state_dict(one.state_dict())
    assert one.other is not None
    assert two.other is not None
    for _ in range(3):
        assert one.obs.tobytes() == two.obs.tobytes()
        for part in ("obs", "avail", "state"):
            assert getattr(one.other, part).tobytes() == getattr(two.other, part).tobytes(), part
        play(one, 25, seed=1)
        play(two, 25, seed=1)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [*MAPS, "terran_10_vs_11"])
def test_every_map_has_another_side(name: str) -> None:
    battles = battles_of(name, 1, Options())
    row, other = battles.map_data, battles.other
    assert (other.obs.shape[1], other.map_data.n_enemies) == (row.n_enemies, row.n_agents)
    play(battles, 3)
    assert other.obs.any()
    if equal_teams(row):
        assert (other.sizes, other.map_data.ally_types) == (battles.sizes, row.ally_types)
        assert other.map_data.enemy_types == row.enemy_types


def won(name: str, n: int) -> np.ndarray:
    """The decided ones of n mirrored battles in which ``closest`` plays both sides: won or not."""
    battles = Battles(map_name=name, n_envs=n, options=Options(), n_threads=2, two_sided=True)
    other = battles.other
    other.commanded[:] = True
    if (roster := battles.roster) is not None:  # agents in the west, not surrounded
        battles.roster = roster._replace(reflects=np.float32(1))
        types = roster.param.shape[1] // 2
        for table in (roster.param, roster.first_unit):  # agents' hydralisks have less health
            table[:, :types] = table[:, types:]
    battles.reset({e: 7919 * e for e in range(n)})
    unit, agents = battles.world.unit, battles.map_data.n_agents
    rng = np.random.default_rng(0)
    for e in range(n):
        types = [kind.sc2_id for kind in battles.unit_types(e)]
        unit[e, :2, :agents] += rng.uniform(-0.25, 0.25, (2, agents))
        at = np.argsort(types[:agents], kind="stable")
        opposite = agents + np.argsort(types[agents:], kind="stable")
        unit[e][:2, opposite] = 32 - unit[e][:2, at]
    battles.refresh()
    policies = BattleDecisions(battles, closest), BattleDecisions(other, closest)
    while not battles.ended.all():
        battles.step(policies[0](), None, policies[1]())
    outcome = battles.world.outcome
    return outcome[(outcome == Outcome.WIN) | (outcome == Outcome.DEFEAT)] == Outcome.WIN


def test_one_policy_on_both_sides_wins_about_half_of_its_battles() -> None:
    assert won("3m", 300).mean() == pytest.approx(0.5, abs=0.09)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAIR)
def test_no_side_of_mirrored_battles_wins_more(name: str) -> None:
    decided = won(name, 6000)
    assert len(decided) > 4000
    assert decided.mean() == pytest.approx(0.5, abs=0.04)
