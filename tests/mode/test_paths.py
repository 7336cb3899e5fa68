"""Whatever a folder is named, a run is made, resumed, evaluated and reported there."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rltrain.battles.engine import compile_cache
from rltrain.common import numba_cache
from rltrain.common.machine import places
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import NAMES_OR_PATHS, SWEPT_PATHS, parse, swept_paths, typed_list
from rltrain.config.trust import OUTSIDE
from rltrain.errors import UsageError
from rltrain.main import run
from rltrain.report.readers import find_runs
from tests.helpers import data_rows, read_only, refused
from tests.marks import slow_except

NAMES = (
    *("back\\slash", "ends\\", "two\\\\", "it's", "it\\'s", 'a"b', "a=b,c", "a b", "{x}", "(x)"),
    *("$x", "#x", "%d", "~x", "-x", "a:b", "é🎲", "tab\tx", "[x]", "a[x]b", "x" * 255),
    *("not\udc80utf8", "\udcff"),
)
"""Names of folders that a shell, Hydra, a pattern or an encoding reads as something else."""

SAMPLE = ("back\\slash", "it's", "a=b,c", "{x}", "[x]", "x" * 255, "not\udc80utf8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", slow_except(SAMPLE, NAMES))
def test_a_run_is_found_whatever_its_folder_is_named(trained, own_folder, name):
    new = compose_checked(["algo=dqn", "env=cartpole", f"hydra.run.dir={name}"])
    assert new.run_dir() == own_folder / name
    trained.rename(own_folder / name)
    assert run(["mode=evaluate", f"checkpoint={name}", "test.episodes=1"]) == 0
    (found,) = find_runs(typed_list(name))
    assert found.folder == own_folder / name
    assert run([f"resume={name}", "total_env_steps=155"]) == 0
    assert {path.name for path in own_folder.iterdir()} == {name, "outputs"}


def test_several_paths_of_a_report_are_a_list(own_folder):
    assert typed_list("[a, b]") == ["a", "b"]
    assert typed_list("a,b*") == ["a", "b*"]
    found = typed_list("""['a,b', "c,'d'", 'it''s', it's , e]""")
    assert found == ["a,b", "c,'d'", "it's", "it's", "e"]
    for name in ("[a, b]", "a,b"):
        (own_folder / name).mkdir()
    assert [typed_list(each) for each in ("[a, b]", "a,b*")] == [["[a, b]"], ["a,b*"]]


@pytest.mark.parametrize("key", NAMES_OR_PATHS)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "not\udc80utf8"])
def test_a_key_of_names_takes_whatever_a_path_is_named(key, name, own_folder):
    """Defect: with ``=`` or a comma in them, opponents and map files were other values."""
    (own_folder / name).mkdir()
    (override,) = parse([f"{key}={name}"])
    assert override.value() == name
    (missing,) = parse([f"{key}=x/a=b"])
    assert missing.value() == "x/a=b"
    (several,) = parse([f"{key}=closest,kite"])
    assert several.is_sweep_override()


def test_every_key_of_a_path_takes_it_unquoted():
    """Defect: ``env.prices=a=b.csv`` needed quotes."""
    keys = {key for key, kind in OUTSIDE.items() if kind in ("file", "place", "opponent")}
    for key in {key for key in keys if "*" not in key} - {"env.replay_prefix", "hardware.address"}:
        assert [o.value() for o in parse([f"{key}=x/a=b"])] == ["x/a=b"], key


NEW = ["-m", "rltrain", "algo=dqn", "env=cartpole", "total_env_steps=300", "test.episodes=1"]
QUIET = ["hardware.threads=1", "logger.wandb.mode=disabled"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["é🎲", "not\udc80utf8"])
def test_a_run_is_made_and_resumed_whatever_the_locale_is(own_folder, name):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (
        [*NEW, *QUIET, f"hydra.run.dir={name}"],
        ["-m", "rltrain", f"resume={name}", "total_env_steps=400"],
        ["-m", "rltrain", "mode=evaluate", f"checkpoint={name}", "test.episodes=1"],
    ):
        done = subprocess.run([sys.executable, *words], env=os.environ | plain, capture_output=True)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert (own_folder / name / "checkpoints/400").is_dir()


@pytest.mark.parametrize("cache", ["file", "file/folder", "loop", "link", None])
def test_an_unusable_cache_folder_is_replaced_by_one_that_stays(own_folder, monkeypatch, cache):
    (own_folder / "file").touch()
    (own_folder / "loop").symlink_to("loop")
    (own_folder / "link").symlink_to("nowhere")
    if cache is None:  # nor a home folder
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(own_folder / cache))
    (own_folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own_folder / "tmp"))
    for _ in range(2):
        places.require_places()
        folder = numba_cache.cache_folder.__wrapped__(__file__)
        own = own_folder / "tmp" / f"rltrain-{os.getuid()}"
        assert folder.is_relative_to(own)
        assert own.stat().st_mode & 0o777 == 0o700
        assert list((own_folder / "tmp").iterdir()) == [own]
    assert not (own_folder / "~").exists()


@pytest.mark.parametrize("home", ["file/folder", None])
def test_a_command_needs_no_folder_for_temporary_files(own_folder, monkeypatch, home):
    monkeypatch.setenv("XDG_CACHE_HOME", "" if home is None else str(own_folder / home))
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    (own_folder / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [])
    places.require_places()
    with pytest.warns(UserWarning, match="cannot be kept in .*XDG_CACHE_HOME=FOLDER"):
        assert compile_cache.folder_for("x", [Path(__file__)]) is None
    assert compile_cache.compiled(lambda x: x + 1, None)(1) == 2
    assert [path.name for path in own_folder.iterdir()] == ["file"]


PATHS = {
    "a long name": "x" * 300,
    "a null": "a\0b",
    "through a file": "file/b",
    "nothing": "",
    "nothing in quotes": "''",
    "a link to nothing": "LINK",
}
TRIED = [(speed, line, path) for speed, line in data_rows("typed_paths.txt") for path in PATHS]
QUICK = [each for each in TRIED if each[0] == "quick" or each[2] == "a null"]


@pytest.mark.parametrize("tried", slow_except(QUICK, TRIED), ids=lambda t: f"{t[2]} {t[1]}")
def test_a_path_that_cannot_be_is_refused_in_one_paragraph(own_folder, tried):
    _, line, path = tried
    (own_folder / "file").touch()
    (own_folder / "LINK").symlink_to("nowhere")
    refused(*(word.replace("@", PATHS[path]) for word in line.split()))
    assert {path.name for path in own_folder.iterdir()} == {"file", "LINK"}


def test_the_advice_where_a_run_to_resume_cannot_be_written(trained, monkeypatch):
    monkeypatch.setattr(places, "TemporaryFile", read_only)
    with pytest.raises(UsageError, match=r"Read-only file system\. .* copy the run") as refused:
        run([f"resume={trained}"])
    assert "hydra.run.dir" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "imported", ["rltrain.common.machine.streams", "hydra.core.plugins", "torch", "rltrain.trainer"]
)
def test_ctrl_c_while_the_command_is_imported_is_quiet(own_folder, no_nohup, imported):
    """When a module has just been imported: Python itself says so on standard error. Where Ctrl-C
    meets an ``exec`` of a text, Python ends as the signal does.
    """
    command = [sys.executable, "-X", "importtime", *NEW, *QUIET]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert any(line.endswith(f" {imported}\n") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr if not line.startswith("import time:")]
    assert process.returncode in (130, -signal.SIGINT)
    assert said == []
    assert not Path("outputs").exists()


@pytest.mark.parametrize("key", SWEPT_PATHS)
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("data/a,data/b", ["data/a", "data/b"]),
        ("choice(data/a,data/b)", ["data/a", "data/b"]),
        ("'data/a','data/b'", ["data/a", "data/b"]),
        ("data/it's,with blank, x=1", ["data/it's", "with blank", "x=1"]),
        ("data/${seed}", None),
        ("there,is", None),
        ("data/a", None),
    ],
)
def test_a_sweep_takes_several_paths(key, typed, found, tmp_path):
    """Defect: they were one path with a comma in it."""
    Path("there,is").mkdir()
    (override,) = parse([swept_paths(f"{key}={typed}")])
    assert override.is_sweep_override() == (found is not None)
    values = override.sweep_string_iterator() if found else [override.value()]
    plain = [str(value).strip("'").replace("\\'", "'") for value in values]
    assert plain == (found or [typed])
