"""SMACv2's draw of teams and start positions: statistics, geometry, and seeds."""

import numpy as np
import pytest

from rltrain.battles.engine.world import P, U


def begins_surrounded(b) -> np.ndarray:
    """bool [E]: all agents stand around the center."""
    agents = b.world.unit[:, :, : b.map_data.n_agents]
    return (np.hypot(agents[:, U.X] - 16, agents[:, U.Y] - 16) < 2.5).all(1)


@pytest.mark.parametrize("race", ["terran", "protoss", "zerg"])
def test_unit_types_come_in_their_shares(scenario, race: str) -> None:
    kinds = scenario(f"{race}_10_vs_10", 1000).world.kind[:, :10]
    shares = np.bincount(kinds.ravel(), minlength=3) / kinds.size
    assert shares == pytest.approx([0.45, 0.45, 0.1], abs=0.02)  # 5 standard errors


@pytest.mark.parametrize(("race", "banned"), [("terran", True), ("protoss", False), ("zerg", True)])
def test_team_of_exceptions_only_is_drawn_again(scenario, race: str, banned: bool) -> None:
    kinds = scenario(f"{race}_1_vs_2", 400).world.kind
    assert (kinds[:, 0] == kinds[:, 1]).all()
    assert (kinds[:, 0] == 2).any() != banned
    assert (kinds[:, 2] == 2).any() != banned  # the surplus alone counts as a team


def test_enemies_copy_the_agents_and_the_surplus_is_drawn(scenario) -> None:
    kinds = scenario("protoss_10_vs_11", 200).world.kind
    allies, same, surplus = kinds[:, :10], kinds[:, 10:20], kinds[:, 20]
    assert (np.sort(allies) == np.sort(same)).all()
    assert set(surplus) == {0, 1, 2}


def test_fewer_enemies_are_a_part_of_the_agents_team(scenario) -> None:
    kinds = scenario("zerg_5_vs_3", 100).world.kind
    for k in range(3):
        assert ((kinds[:, 5:] == k).sum(1) <= (kinds[:, :5] == k).sum(1)).all()


def test_agents_are_sorted_by_type_and_place(scenario) -> None:
    b = scenario("protoss_10_vs_10", 50)
    name_of = b.map_data.drawn_from
    for e in range(50):
        names = [name_of[k] for k in b.world.kind[e, :10]]
        unit = b.world.unit[e, :, :10]
        rows = list(zip(names, unit[U.X].tolist(), unit[U.Y].tolist(), strict=True))
        assert rows == sorted(rows)


def test_half_of_the_battles_begin_surrounded(scenario) -> None:
    assert begins_surrounded(scenario("terran_5_vs_5", 1000)).mean() == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("name", ["terran_20_vs_23", "protoss_20_vs_23", "zerg_64_vs_64"])
def test_all_units_start_at_free_positions_on_the_map(scenario, name: str) -> None:
    b = scenario(name, 20)
    for e in range(20):
        unit, param = b.world.unit[e], b.scene.param[e]
        assert (unit[U.X] >= param[P.X_FROM]).all()
        assert (unit[U.X] <= param[P.X_TO]).all()
        assert (unit[U.Y] >= param[P.Y_FROM]).all()
        assert (unit[U.Y] <= param[P.Y_TO]).all()
        gap = np.hypot(unit[U.X][:, None] - unit[U.X], unit[U.Y][:, None] - unit[U.Y])
        room = param[P.DISC][:, None] + param[P.DISC]
        layer = param[P.LAYER][:, None] == param[P.LAYER]
        np.fill_diagonal(layer, False)
        assert (gap[layer] >= room[layer] - 1e-4).all()


def test_reflected_enemies_mirror_the_agents(scenario) -> None:
    b = scenario("zerg_1_vs_1", 400)
    unit = b.world.unit[~begins_surrounded(b)]
    x, y, far_x, far_y = unit[:, U.X, 0], unit[:, U.Y, 0], unit[:, U.X, 1], unit[:, U.Y, 1]
    assert x.max() < 15
    assert x.min() < 4
    assert y.mean() == pytest.approx(16, abs=3)
    assert far_x == pytest.approx(32 - x, abs=1e-5)
    assert (far_y == y).all()


def test_surplus_enemies_are_anywhere_in_the_east(scenario) -> None:
    b = scenario("zerg_1_vs_2", 400)
    x = b.world.unit[~begins_surrounded(b)][:, U.X, 2]
    assert x.min() >= 15.5
    assert x.mean() == pytest.approx(24, abs=1.5)


def test_surrounding_enemies_stand_on_diagonals_in_up_to_four_groups(scenario) -> None:
    b = scenario("zerg_4_vs_8", 400)
    around = begins_surrounded(b)
    dx, dy = (b.world.unit[around][:, row, 4:] - 16 for row in (U.X, U.Y))
    assert np.hypot(dx, dy).min() > 1.0
    assert (abs(abs(dx) - abs(dy)) < 4).all()  # up to the room that a group takes
    diagonal = 2 * (dx > 0) + (dy > 0)
    groups = np.array([len(set(row)) for row in diagonal])
    assert set(groups) == {1, 2, 3, 4}
    assert (groups == 1).mean() == pytest.approx(0.25, abs=0.1)
    assert np.bincount(diagonal.ravel()) / diagonal.size == pytest.approx([0.25] * 4, abs=0.07)


def test_seed_alone_decides_the_battle(scenario) -> None:
    many, alone = scenario("terran_5_vs_5", 4), scenario("terran_5_vs_5", 1)
    alone.reset({0: 3})
    assert many.obs[3].tobytes() == alone.obs[0].tobytes()
    assert many.world.kind[3].tolist() == alone.world.kind[0].tolist()
    assert many.obs[2].tobytes() != alone.obs[0].tobytes()


def test_reset_draws_a_new_team_for_its_battle_only(scenario) -> None:
    b = scenario("protoss_10_vs_10", 2)
    before = b.world.kind.copy()
    b.reset({1: 77})
    assert (b.world.kind[0] == before[0]).all()
    assert (b.world.kind[1] != before[1]).any()
