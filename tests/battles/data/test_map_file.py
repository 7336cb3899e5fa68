"""Custom maps, from YAML files."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from rltrain.battles.data.map_file import ORDERS, read_map, shipped_map, shipped_names
from rltrain.battles.data.maps import MAPS, find_map
from rltrain.battles.data.spawn import read_starts, start_points
from rltrain.battles.data.terrain import pathable_cells
from rltrain.battles.engine.battles import Battles
from rltrain.battles.options import Options
from rltrain.env.smac.vector import SmacVectorEnv
from tests.battles.conftest import random_legal
from tests.helpers import sparse

PLAIN = """
name: mine
limit: 50
allies:
- {unit: marine, count: 3, at: [4, 3]}
enemies:
- {unit: zealot, places: [[12, 3], [12, 5]]}
terrain: |
  ###############
  #.............#
  #......#......#
  #......#......#
  #......#......#
  #.............#
  #.............#
  ###############
"""
FLAT = PLAIN[: PLAIN.index("terrain")] + "terrain: open\norder: wait\n"


@pytest.fixture
def write(tmp_path: Path):
    """Write a file with parts of ``PLAIN`` replaced; its path."""

    def written(*changes: str) -> str:
        text = PLAIN
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return written


def test_units_stand_where_the_file_says_and_walls_are_its_picture(write) -> None:
    row = read_map(write())
    assert (row.name, row.limit, row.n_agents, row.n_enemies) == ("mine", 50, 3, 2)
    points = start_points(row)
    assert points[3:] == [(12.0, 3.0), (12.0, 5.0)]
    assert (4.0, 3.0) in points[:3]
    cells = pathable_cells(row.terrain)
    assert cells.sum() == 6 * 13 - 3
    assert not cells[7, 3:6].any()
    assert cells[7, 1:3].all()
    assert cells[7, 6]
    assert row.attack_point == (4.0, 3.0)


def test_drawings_show_the_picture(write) -> None:
    env = SmacVectorEnv(map_name="3m", map_file=write(), n_envs=1)
    env.reset(lambda e, k: k)
    assert env.spec.n_agents == 3
    assert env.drawing(0).world["cells"][4] == ".000000.000000." + "." * 17
    assert env.render([0])[0][-1].shape[2] == 3


@pytest.mark.parametrize("other", [{"backend": "sc2"}, {"rules": "smaclite"}])
def test_only_the_built_in_engine_plays_own_maps(write, other) -> None:
    with pytest.raises(ValueError, match="is a map of the built-in engine under its own rules"):
        SmacVectorEnv(map_name="3m", map_file=write(), n_envs=1, **other)


@pytest.mark.parametrize("order", ORDERS)
def test_enemies_do_what_the_file_orders(write, order: str) -> None:
    """Agents that only stop are met by enemies that come, and by none that wait out of sight."""
    row = read_map(write("limit: 50", f"order: {order}\nlimit: 50"))
    battles = Battles(map_data=row, n_envs=1, options=Options())
    battles.reset({0: 0})
    while not battles.ended[0]:
        battles.step(np.where(battles.avail[..., 1], 1, 0))
    assert bool(battles.timeout[0]) is (order == "wait")


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_maps_can_be_played_by_name(battle, name: str) -> None:
    assert name not in MAPS
    assert find_map(name) == shipped_map(name)
    b, rng = battle(name), np.random.default_rng(0)
    while not b.ended[0]:
        b.step(random_legal(b.avail, rng))
    assert np.isfinite(b.obs).all()
    assert np.isfinite(b.state).all()


def test_the_map_of_the_page_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "own_maps.md").read_text(encoding="utf-8")
    (tmp_path / "page.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    row = read_map(str(tmp_path / "page.yaml"))
    assert (row.n_agents, row.n_enemies) == (6, 3)


FAULTS = [
    (("zealot", "zealots"), "unknown unit 'zealots' in enemies. Did you mean 'zealot'"),
    (("zealot", "archon_toilet"), "unknown unit 'archon_toilet' in enemies.* Known are marine"),
    (("marine", "medivac"), "allies that cannot fight"),
    (("zealot", "medivac"), "enemies that cannot fight"),
    (("count: 3", "count: -3"), "count: -3, expected a whole number from 1 to 64"),
    (("count: 3", "count: 2.5"), "count: 2.5, expected a whole number"),
    (("count: 3", "count: 65"), "count: 65, expected a whole number from 1 to 64"),
    (("{unit: marine, count: 3", "{unit: spine_crawler, count: 60"), "no room for 60 units"),
    (("3, at: [4, 3]}", "40, at: [4, 3]}\n- {unit: marine, count: 40, at: [8, 1.5]}"), "80 units"),
    (("[4, 3]", "[40, 3]"), r"the place \[40, 3\]: expected \[x, y\], two numbers from 0 to 32"),
    (("[4, 3]", "[4, -3]"), r"the place \[4, -3\]"),
    (("[4, 3]", "[.nan, 3]"), r"the place \[nan, 3\]"),
    (("[4, 3]", "[4]"), r"the place \[4\]"),
    (("[4, 3]", "[7.5, 4]"), r"a marine at \[7.5, 4\], in a wall or next to one"),
    (("[4, 3]", "[20, 3]"), r"a marine at \[20, 3\], in a wall or next to one"),
    (
        ("zealot, places: [[12, 3], [12", "colossus, places: [[20, 3], [12"),
        r"a colossus at \[20, 3\]",
    ),
    (("zealot, places: [[12, 3]", "medivac, places: [[0.5, 3]"), r"a medivac at \[0.5, 3\].* edge"),
    (("[12, 5]", "[12, 3.2]"), r"a zealot and a zealot on one place, \[12, 3\] and \[12, 3.2\]"),
    (("[12, 5]", "[4, 3]"), "a marine and a zealot on one place"),
    (("- {unit: marine, count: 3, at: [4, 3]}", "  []"), "no units in allies"),
    (("[[12, 3], [12, 5]]", "[]"), "0 units in enemies: expected 1 to 64"),
    (("allies:", "alies:"), "a map with the key 'alies': expected allies, enemies, limit"),
    (("limit: 50\n", ""), "a map without limit"),
    (("limit: 50", "limit: 0"), "limit: 0, expected a whole number from 1 to 10,000"),
    (("limit: 50", "limit: true"), "limit: True, expected"),
    (("limit: 50", "limit: 50\nlimit: 60"), "has limit twice"),
    (("unit: marine", "unit: marine, unit: zealot"), "has unit twice"),
    (("limit: 50", "limit: 50\norder: flee"), "order: 'flee', expected one of attack, wait"),
    (("name: mine", "name: ../mine"), "name: '../mine', expected a word"),
    (("name: mine", "name: MMM2"), "the name of a map of SMAC, MMM2"),
    (("count: 3, ", ""), "marines in allies without count and at, or places"),
    (("terrain: |", "terrain: moon\nother: |"), "a map with the key 'other'"),
    (("......#......", "......~......"), "has '~' in its terrain"),
    (("#.............#\n", "#.............#" + "." * 30 + "\n"), "a terrain of 45 × 8: at most 32"),
    (("name: mine", "name: &a mine"), None),
    (("limit: 50", "limit: &a 50\norder: *a"), "has references"),
    (("name: mine", "name: !!python/object/apply:os.system [exit]"), "is not YAML, see line 2"),
    *(
        (("limit: 50", f"limit: {tagged}"), "is not YAML, see line 3: values do not name their")
        for tagged in ("!!bool maybe", "!!timestamp 1", "!!int x", "!!int ''", "!!float x")
    ),
    (("name: mine", "name: !!binary x"), "is not YAML, see line 2: values do not name their types"),
    (("limit: 50", "limit: 0x" + "f" * 20_000), "see line 3: more than 1,000 characters without"),
    (("name: mine", "name: {"), "is not YAML, see line"),
    *(
        (("name: mine", "name:\n " + mark * (60_000 // len(mark))), "nested more than 10 deep")
        for mark in ("[", "{", "- ", "? ")
    ),
    (("name: mine", "name: mine" + " " * 70000), "is larger than 65,536 bytes"),
    ((PLAIN, "- 3\n"), "a map that is not a mapping"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_every_fault_is_one_clear_sentence(write, changes, message) -> None:
    path = write(*changes)
    if message is None:
        read_map(path)
        return
    with pytest.raises(ValueError, match=f"map_file: the file .*mine.yaml .*{message}") as refused:
        read_map(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 900


@pytest.mark.parametrize("leaf", sorted({*re.findall(r"(?:[a-z]+|\d+)(?=[:,}\]\n])", FLAT)}))
@pytest.mark.parametrize("quote", ["", '"'])
def test_of_a_long_text_in_any_place_the_beginning_is_shown(write, leaf, quote) -> None:
    path = write(PLAIN, FLAT.replace(leaf, f"{quote}{leaf * 20_000:.20000}{quote}", 1))
    with pytest.raises(ValueError, match=r"map_file: the file .*mine\.yaml ") as refused:
        read_map(path)
    assert len(str(refused.value)) < 900 + len(path)


def test_a_terrain_of_too_many_walls_or_none_is_refused(write, tmp_path: Path) -> None:
    rows = "\n".join("  " + "#." * 16 if y % 2 else "  " + "." * 32 for y in range(32))
    for picture in (rows, "  ##\n  ##"):
        (tmp_path / "mine.yaml").write_text(
            PLAIN[: PLAIN.index("terrain")] + f"terrain: |\n{picture}\n"
        )
        with pytest.raises(ValueError, match="straight walls: expected 1 to 63"):
            read_map(str(tmp_path / "mine.yaml"))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"the file nowhere\.yaml cannot be read: No such file"):
        read_map("nowhere.yaml")


def read_3m(path: str) -> None:
    read_starts(path, find_map("3m"))


@pytest.mark.parametrize("read", [read_map, read_3m])
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), sparse]
)
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, make, read) -> None:
    make(tmp_path / "mine.yaml")
    said = r"the file .*mine\.yaml (is a pipe or a device|cannot be read|is larger than)"
    with pytest.raises(ValueError, match=said):
        read(str(tmp_path / "mine.yaml"))
