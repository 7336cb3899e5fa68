"""Start positions: the game's lattice, what is measured, and where groups walk to; files of
recorded ones: what is read, and what is refused.
"""

import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rltrain.battles import StarCraft2Env, StarCraftCapabilityEnv
from rltrain.battles.data.maps import find_map
from rltrain.battles.data.spawn import Ground, attack_goals, lattice, read_starts, start_points
from rltrain.battles.data.terrain import layer_boxes, pathable_cells
from tests.battles.conftest import write_starts


def created(map_name: str, first: int, count: int) -> set[tuple[float, float]]:
    return set(start_points(find_map(map_name))[first : first + count])


def test_places_are_taken_by_distance_and_counter_clockwise_from_the_south() -> None:
    two = 2 - 252 / 4096
    assert list(islice(lattice(1.0), 21)) == [
        (0, 0), (0, -1), (1, 0), (0, 1), (-1, 0), (1, -1), (1, 1), (-1, 1), (-1, -1),
        (0, -two), (two, 0), (0, two), (-two, 0),
        (1, -2), (2, -1), (2, 1), (1, 2), (-1, 2), (-2, 1), (-2, -1), (-1, -2),
    ]  # fmt: skip


def test_other_lattices_begin_elsewhere_or_turn_the_other_way() -> None:
    assert list(islice(lattice(1.0, 0.0, -1), 5)) == [(0, 0), (1, 0), (0, -1), (-1, 0), (0, 1)]


BESIDE = 0.75 - 252 / 4096  # cells from the point to the four places beside it, as recorded


def test_marines_stand_around_the_point_of_their_map_as_they_were_recorded() -> None:
    cross = {(9, 16), (9, 16 - BESIDE), (9 + BESIDE, 16), (9, 16 + BESIDE), (9 - BESIDE, 16)}
    corners = {(9.75, 15.25), (9.75, 16.75), (8.25, 16.75)}
    assert created("3m", 0, 3) == {(9, 16), (9, 16 - BESIDE), (9 + BESIDE, 16)}
    assert created("3m", 3, 3) == {(23, 16), (23, 16 - BESIDE), (23 + BESIDE, 16)}
    assert created("8m", 0, 8) == cross | corners
    assert created("10m_vs_11m", 0, 10) == cross | corners | {(8.25, 15.25), (9, 14.5)}


def test_zerglings_and_banelings_stand_as_they_were_recorded() -> None:
    ring = {(0, -1.5), (1.5, 0), (0, 1.5), (-1.5, 0), (0.75, -1.5), (1.5, 0.75), (-0.75, 1.5)}
    ring |= {(-1.5, -0.75), (1.5, -0.75), (0.75, 1.5), (-1.5, 0.75)}
    ring |= {(x, y) for x in (-0.75, 0.75) for y in (-0.75, 0.75)}
    cross = {(0, 0), (0, -BESIDE), (BESIDE, 0), (0, BESIDE), (-BESIDE, 0)}
    assert created("bane_vs_bane", 4, 20) == {(16 + x, 11 + y) for x, y in cross | ring}
    assert created("bane_vs_bane", 0, 4) == {(16 + x, 8 + y) for x, y in cross - {(-BESIDE, 0)}}


@pytest.mark.parametrize("map_name", ["3m", "8m", "25m", "2s3z", "3s5z", "1c3s5z", "MMM"])
def test_both_teams_are_placed_alike_and_not_mirrored(map_name: str) -> None:
    points = np.array(start_points(find_map(map_name)))
    agents, enemies = points[: len(points) // 2], points[len(points) // 2 :] - (14, 0)
    assert {(round(x, 6), round(y, 6)) for x, y in agents} == {
        (round(x, 6), round(y, 6)) for x, y in enemies
    }


def test_known_positions_replace_those_of_the_map_and_agents_are_numbered_again() -> None:
    known = {"allies": {"marine": [(10, 17), (8, 15)]}, "enemies": {"zealot": [(22, 15)]}}
    assert start_points(find_map("2m_vs_1z"), known=known) == [(8, 15), (10, 17), (22, 15)]


def test_zealots_of_2s3z_stand_where_they_were_measured() -> None:
    assert created("2s3z", 0, 2) == {(9, 16), (9, 16 - 1.25 + 252 / 4096)}
    assert created("2s3z", 2, 3) == {(9.7517, 16.7517), (8.248, 16.7517), (9.9414, 15.5054)}


def test_marines_are_created_before_marauders_and_numbered_after_them() -> None:
    points = start_points(find_map("MMM"))
    assert find_map("MMM").ally_types[:3] == ("marauder", "marauder", "marine")
    assert points[:2] == [(8.1, 15.0), (8.1, 17.0)]
    assert (9, 16) in points[2:9]
    assert points[10:12] == [(23, 16), (23, 16 - BESIDE)]  # enemies keep the order of creation


def test_places_in_walls_are_skipped() -> None:
    row = find_map("corridor")
    ground, points = Ground(row.terrain), start_points(row)
    assert len(set(points)) == 30
    for unit, point in zip(row.unit_types, points, strict=True):
        assert ground.fits(unit, *point)
    assert (27.91, 29.74) not in points  # the tenth place would touch the edge of the map


def test_units_of_an_attack_order_keep_their_offsets() -> None:
    row = find_map("10m_vs_11m")
    points = start_points(row)
    goals = attack_goals(row, points)
    assert goals[:10] == points[:10]
    assert np.mean(goals[10:], axis=0) == pytest.approx((9, 16))
    moved = np.array(goals[10:]) - points[10:]
    assert moved == pytest.approx(np.broadcast_to(moved[0], moved.shape))


@pytest.mark.parametrize("map_name", ["corridor", "so_many_baneling", "6h_vs_8z", "bane_vs_bane"])
def test_no_unit_is_sent_into_a_wall(map_name: str) -> None:
    row = find_map(map_name)
    ground, goals = Ground(row.terrain), attack_goals(row, start_points(row))
    for unit, goal in zip(row.unit_types, goals, strict=True):
        assert ground.fits(unit, *goal)


@pytest.mark.parametrize("map_name", ["64c", "10c_vs_64c", "MMM", "1c3s5z"])
def test_no_unit_begins_outside_the_box_that_movement_keeps_it_in(map_name: str) -> None:
    row = find_map(map_name)
    boxes, points = layer_boxes(pathable_cells(row.terrain)), start_points(row)
    for unit, *places in zip(row.unit_types, points, attack_goals(row, points), strict=True):
        low, high = np.array(boxes[unit.layer]).reshape(2, 2)
        assert (places >= low + unit.separation_radius).all()
        assert (places <= high - unit.separation_radius).all()


START = {
    "allies": {"marine": [[9, 16], [9, 15.25], [9.75, 16]]},
    "enemies": {"marine": [[23, 16], [23, 15.25], [23.75, 16]]},
}


def test_a_file_gives_its_starts_and_is_named_by_its_contents(tmp_path: Path) -> None:
    found = read_starts(write_starts(tmp_path, [START]), find_map("3m"))
    assert found.starts == (START,)
    assert re.fullmatch(r"game\.json [0-9a-f]{12}", found.file)
    moved = {**START, "allies": {"marine": [[9, 17], [9, 15.25], [9.75, 16]]}}
    assert read_starts(write_starts(tmp_path, [moved]), find_map("3m")).file != found.file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"allies": {"marine": [[9, 16]]}},
            r"allies expected \{'marine': 3\}, got \{'marine': 1\}",
        ),
        ({"enemies": {"zealot": [[9, 16]] * 3}}, r"enemies expected .*got \{'zealot': 3\}"),
        ({"allies": {"marine": [[9, 16], [9, 40], [9, 15]]}}, r"marine of 3m at \[9, 40\]"),
        ({"allies": {"marine": [[9, 16], [9], [9, 15]]}}, r"at \[9\]: expected \[x, y\]"),
        ({"allies": {"marine": [[9, 16], [9, float("nan")], [9, 15]]}}, r"at \[9, nan\]"),
        ({"allies": {"marine": [[9, 16], [9, "x"], [9, 15]]}}, r"at \[9, 'x'\]"),
        ({"allies": {"marine": 3}}, r"got \{'marine': 'int'\}"),
        ({"enemies": None}, r"without allies and enemies"),
    ],
)
def test_a_start_that_does_not_fit_the_map_is_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message) as error:
        read_starts(write_starts(tmp_path, [{**START, **change}]), find_map("3m"))
    assert "\n" not in str(error.value)
    assert "benchmarks.record_game" in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"maps": 3}', "\x00\xff", "[" * 100_000])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"other\.json is not a recorded file"):
        read_starts(str(path), find_map("3m"))


def test_a_missing_file_and_a_missing_map_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_starts(str(tmp_path / "none.json"), find_map("3m"))
    with pytest.raises(ValueError, match="has no map 8m, only 3m"):
        read_starts(write_starts(tmp_path, [START]), find_map("8m"))
    with pytest.raises(ValueError, match="has no start positions of 3m"):
        read_starts(write_starts(tmp_path, []), find_map("3m"))


@pytest.mark.parametrize("make", [StarCraft2Env, StarCraftCapabilityEnv])
def test_a_file_is_not_for_drawn_teams(make):
    """Defect: the message was to make the very class that had been made."""
    with pytest.raises(ValueError, match="terran_5_vs_5 draws teams and start positions"):
        make("terran_5_vs_5", start_positions="any.json")
