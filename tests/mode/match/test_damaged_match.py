"""A ``match.json`` of other weights, damaged or of someone else's: begun again, or refused."""

import json
import operator
import shutil
from functools import reduce
from pathlib import Path

import pytest

from rltrain.errors import CheckpointError
from rltrain.main import run
from tests.helpers import changed_json, unchanged
from tests.mode.match.test_match import MAP, record, trained, words

COMMAND = words("closest, focus, builtin", 2, *MAP)
SIDE = ("pairings", 0, "sides", 0)
ALL = ("pairings",)
COUNTS = (None, -1, 1.5, 1.0, "x", True, [], 10**30)
FILES = (
    *(None, 7, "x", {}, [5], [None], ["../../../secret.gif"], ["secret.gif"], ["recordings/../x"]),
    *(["recordings/0/../../x.gif"], ["recordings/0"], ["recordings/0/.."], [""], ["."]),
    *(["/etc/passwd"], ["recordings//etc/passwd"], ["recordings/0/a\0.gif"], [f"{'x' * 300}.gif"]),
    *([f"recordings/{'0' * 300}/a.gif"], ["recordings/0/a.gif\n"], ["recordings\\0\\a.gif"]),
    *(["recordings/battle.html"], ["recordings/battle-1.gif"], ["recordings/battle-1.html/x"]),
)
PAIRINGS = (None, 3, "all", [3], [None], [{}], {}, {"sides": []}, [[]], [{"sides": 0}])
MISSING, ONE = object(), [{"agents": "focus"}]
DAMAGE = [
    *(((*SIDE, key), value) for key in ("wins", "draws", "losses") for value in (*COUNTS, MISSING)),
    *(((*SIDE, "files"), value) for value in (*FILES, MISSING)),
    *(((*SIDE, key), v) for key in ("agents", "enemies") for v in (None, "kite", [], MISSING)),
    *((("pairings", 0, "sides"), v) for v in (None, [], {}, 0, [{}], [None], ONE, MISSING)),
    *((("pairings", 0, key), v) for key in ("first", "second") for v in (None, "x", MISSING)),
    *((ALL, value) for value in (*PAIRINGS, MISSING)),
]


def damage(path, at, value):
    """Put a value into a JSON file."""
    with changed_json(path) as tree:
        *names, last = at
        node = reduce(operator.getitem, names, tree)
        node[last] = value
        if value is MISSING:
            del node[last]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder in which a match was played."""
    folder = tmp_path_factory.mktemp("played")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(COMMAND) == 0
    return folder


@pytest.fixture
def file(played, own_folder):
    """Its ``match.json``, in the current folder."""
    shutil.copytree(played / "outputs", own_folder / "outputs")
    (path,) = Path("outputs/match").glob("*/match.json")
    return path


def refuse(path):
    """The paragraph with which the match is refused; nothing was played or written."""
    said = r"match\.json is damaged: .*Delete its folder"
    with unchanged(path.parents[1]), pytest.raises(CheckpointError, match=said) as no:
        run(COMMAND)
    assert "\n" not in str(no.value)


@pytest.mark.slow
def test_what_no_match_writes_is_refused(file, monkeypatch):
    """All in one test: the agents are opened once."""
    from rltrain.mode.match import round_robin

    agents = round_robin.open_agents(("closest", "focus", "builtin"), MAP)
    able = round_robin.require_able(agents, 2)
    monkeypatch.setattr(round_robin, "open_agents", lambda *_: agents)
    monkeypatch.setattr(round_robin, "require_able", lambda *_: able)
    whole = file.read_text()
    for at, value in DAMAGE:
        damage(file, at, value)
        refuse(file)
        file.write_text(whole)
    for of in ((1, 0, 2), (0, 0, 1), (1, 2), (0, 2, 1), (0, 1, 2, 2)):  # of three
        damage(file, ALL, [json.loads(whole)["pairings"][i] for i in of])
        refuse(file)
        file.write_text(whole)
    (text, *_) = whole.partition('"wins"')
    file.write_text(text + '"wins": 1e400, "wins_"' + whole[len(text) + 6 :])
    refuse(file)
    damage(file, ("pairings", 0, "sides", 0, "wins"), 0)
    file.write_text("[" * 5_000)  # no object: it may be of any match
    assert run(COMMAND) == 0
    assert len(list(Path("outputs/match").iterdir())) == 2


@pytest.mark.slow
def test_files_elsewhere_are_not_read_and_deleted_ones_are_left_out(own_folder):
    command = [*words("closest, builtin", 2, *MAP), "record=video"]
    assert run(command) == 0
    (path,) = Path("outputs/match").glob("*/match.json")
    page = path.with_name("match.html")
    (name, *_) = [n for n in record()["pairings"][0]["sides"][0]["files"] if n.endswith(".gif")]
    assert page.read_text().count("data:image/gif") == 1
    (path.parent / name).unlink()
    assert run(command) == 0
    assert "data:image/gif" not in page.read_text()
    (own_folder / "secret.gif").write_bytes(b"secret")
    damage(path, (*SIDE, "files"), ["../../../secret.gif"])
    with pytest.raises(CheckpointError, match="is damaged"):
        run(command)


@pytest.mark.slow
def test_other_weights_or_settings_at_the_same_path_begin_another_match(tmp_path, capsys):
    agent = trained(tmp_path / "p")
    command = words(f"{agent}, closest", 2)
    assert run(command) == 0
    assert run(command) == 0
    assert "1 of them done" in capsys.readouterr().out
    shutil.rmtree(agent)
    trained(agent, "seed=5")
    assert run(command) == 0
    assert "of them done" not in capsys.readouterr().out
    assert len(list(Path("outputs/match").iterdir())) == 2


def test_another_file_of_settings_begins_another_match(own_folder, capsys):
    own = own_folder / "own.yaml"
    for n_matches, map_name in enumerate(("3m", "8m"), 1):
        own.write_text(f"# @package _global_\nenv: {{map_name: {map_name}}}\n")
        line = words("closest, builtin", 2, "env=smac", "hardware.threads=1", f"experiment={own}")
        assert run(line) == 0
        assert len(list(Path("outputs/match").iterdir())) == n_matches
    assert "of them done" not in capsys.readouterr().out
