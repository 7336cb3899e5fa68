"""The calibration of the battle rules: its data, its choice, and its way of playing variants; the
page of scripted policies on maps.
"""

import sys

import numpy as np
import pytest

from benchmarks import calibrate, difficulty
from benchmarks.anchors import heuristic_anchors
from benchmarks.crowding import geometric_maximum
from benchmarks.variant_battles import Layout, Variant, open_battles, win_rates
from rltrain.battles.data.maps import find_map
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import P, U
from rltrain.battles.options import Options
from tests.pages import prose


def test_the_halves_are_disjoint_and_cover_all_comparable_anchors() -> None:
    halves = calibrate.CHOOSING + calibrate.REPORTING
    assert len(set(halves)) == len(halves)
    assert set(halves) == set(heuristic_anchors())
    assert len(set(calibrate.LAYOUTS)) == 16


def test_the_earliest_candidate_within_the_tolerance_of_the_best_is_chosen() -> None:
    names = [c.name for c in calibrate.CANDIDATES]
    errors = dict.fromkeys(names, 20.0) | {names[-1]: 10.0}
    assert calibrate.choose(errors) == names[-1]
    assert calibrate.choose({**errors, names[2]: 12.9}) == names[2]
    assert calibrate.choose({**errors, names[2]: 13.1}) == names[-1]


def test_the_engine_plays_the_candidate_that_the_page_names() -> None:
    page = prose("calibration.md")
    assert f"`{calibrate.CANDIDATES[0].name}`, the earliest candidate" in page
    plain = Battles(map_name="2s3z", n_envs=1, options=Options()).scene
    same = open_battles("2s3z", calibrate.CANDIDATES[0], [Layout()], 1).scene
    for name in ("param", "first_unit"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(same, name))
    assert plain.any_place == same.any_place


def test_enemies_of_a_mirrored_layout_are_turned_by_half_a_circle() -> None:
    beside = 0.75 - 252 / 4096  # cells from the point of a team to the four places beside it
    points = Layout(mirrored=True).points(find_map("3m"))
    assert points[3:] == [(23, 16), (23, 16 + beside), (23 - beside, 16)]


def test_a_layout_without_measured_positions_stands_elsewhere() -> None:
    unknown, known = (Layout(measured=m).points(find_map("2s3z")) for m in (False, True))
    assert set(unknown[2:5]) != set(known[2:5])


def test_a_variant_changes_its_rules_and_nothing_else() -> None:
    layouts = (Layout(), Layout(mirrored=True))
    own = open_battles("2s3z", Variant("own"), layouts, 2).scene
    soft = open_battles("2s3z", Variant("soft", contact=0.5, goals="point"), layouts, 2).scene
    np.testing.assert_allclose(soft.param[:, P.DISC], own.param[:, P.DISC] / 2)
    changed = (soft.first_unit != own.first_unit).any((0, 2))
    assert np.flatnonzero(changed).tolist() == [U.GOAL_X, U.GOAL_Y]
    assert (own.first_unit[0, U.Y, 5:] != own.first_unit[2, U.Y, 5:]).any()
    assert (own.first_unit[0] == own.first_unit[1]).all()


def test_win_rates_come_by_layout_and_again_for_the_same_seeds() -> None:
    layouts = calibrate.LAYOUTS[:3]
    rates = win_rates("3m", Variant("own"), "heuristic_ai", layouts, 8)
    assert len(rates) == 3
    assert rates == win_rates("3m", Variant("own"), "heuristic_ai", layouts, 8)
    assert len(set(rates)) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("contact", "count"), [(1.0, 16), (0.94, 17)])
def test_sixteen_zerglings_fit_around_six_zealots(contact: float, count: int) -> None:
    assert geometric_maximum(contact) == count


def test_the_page_has_a_row_of_every_policy_and_a_picture(own_folder, monkeypatch):
    """Defect: the name of a function that draws had changed."""
    monkeypatch.setattr(sys, "argv", ["difficulty", "2", "3m"])
    (own_folder / "docs").mkdir()
    difficulty.main()
    text = difficulty.PAGE.read_text("utf-8")
    assert all(f"| `{policy}` |" in text for policy in difficulty.POLICIES)
    assert (own_folder / "docs/maps/3m.png").stat().st_size > 1000
