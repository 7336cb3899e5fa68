"""Files of recorded start positions: what is read, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rltrain.battles import StarCraft2Env, StarCraftCapabilityEnv
from rltrain.battles.data.maps import find_map
from rltrain.battles.data.recorded import read_starts

START = {
    "allies": {"marine": [[9, 16], [9, 15.25], [9.75, 16]]},
    "enemies": {"marine": [[23, 16], [23, 15.25], [23.75, 16]]},
}


def write(folder: Path, start: Any, name: str = "3m") -> str:
    path = folder / "game.json"
    path.write_text(json.dumps({"maps": {name: {"starts": [start]}}}), encoding="utf-8")
    return str(path)


def test_a_file_gives_its_starts_and_is_named_by_its_contents(tmp_path: Path) -> None:
    found = read_starts(write(tmp_path, START), find_map("3m"))
    assert found.starts == (START,)
    assert re.fullmatch(r"game\.json [0-9a-f]{12}", found.file)
    moved = {**START, "allies": {"marine": [[9, 17], [9, 15.25], [9.75, 16]]}}
    assert read_starts(write(tmp_path, moved), find_map("3m")).file != found.file


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
        read_starts(write(tmp_path, {**START, **change}), find_map("3m"))
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
        read_starts(write(tmp_path, START), find_map("8m"))
    path = tmp_path / "empty.json"
    path.write_text('{"maps": {"3m": {"starts": []}}}', encoding="utf-8")
    with pytest.raises(ValueError, match="has no start positions of 3m"):
        read_starts(str(path), find_map("3m"))


@pytest.mark.parametrize("make", [StarCraft2Env, StarCraftCapabilityEnv])
def test_a_file_is_not_for_drawn_teams(make):
    """Defect: the message was to make the very class that had been made."""
    with pytest.raises(ValueError, match="terran_5_vs_5 draws teams and start positions"):
        make("terran_5_vs_5", start_positions="any.json")
