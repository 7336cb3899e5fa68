"""Files that someone else may have written are opened by the helpers of rltrain.common.files."""

import ast
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

import rltrain
from rltrain.common import files
from rltrain.common.files import locked, newest, next_number, put_text

PACKAGE = Path(rltrain.__file__).parent
READERS = {
    *("open", "fdopen", "read_text", "read_bytes", "fromfile", "memmap", "loadtxt", "genfromtxt"),
    *("load_file", "safe_open", "ZipFile", "copyfile", "copytree"),
    *("np.load", "numpy.load", "json.load", "torch.load", "pickle.load", "OmegaConf.load"),
    "shutil.copy",
}
"""Names of functions and methods that open a file, and do not ask what it is."""
WRITES = ("w", "wb", "x", "xb", "a", "ab")
ALLOWED = {
    **dict.fromkeys(
        (
            *("common/machine/install.py", "config/catalog.py", "config/combinations.py"),
            *("config/trust.py", "config/yaml_files.py", "config/suggest/aliases.py"),
            *("config/validate/constructor.py", "mode/init/__init__.py"),
            *("report/readers/__init__.py", "mode/export/network.py"),
            *("common/page/__init__.py", "report/page/__init__.py"),
            *("battles/engine/compile_cache.py", "kernels/digests.py"),
            "video/episode_recorder.py",
        ),
        "a file of this package",
    ),
    **dict.fromkeys(
        ("common/machine/time_and_memory.py", "hardware/device.py"),
        "a file of the system's",
    ),
    "common/files.py": "the helpers",
    "battles/data/spawn.py": "their like, for a package that imports nothing else of rltrain",
    "buffer/disk_store.py": "map_file has opened it before, without following links or waiting",
    "common/checkpoint/opponent_files.py": "what is copied is a file that was typed",
    "common/file_rows.py": "asks what it has opened, without following links or waiting",
    "common/machine/streams.py": "/dev/null",
    "common/checkpoint/storage.py": "the sums of its files were made, by a helper",
    "migrate/pymarl_files.py": "weights alone, from what a helper has opened",
    "logger/metric_files.py": "metrics of a run in which nothing but plain files was found",
    "logger/tensorboard.py": "a recording that this run has made",
    "logger/wandb.py": "a file that the person who types the command has written",
    "mode/hub/push.py": "copies files of a run in which nothing but plain files was found",
    "mode/tune/study.py": "a file of a study in which nothing but plain files was found",
    "offline/dataset.py": "read_index found a plain file with the listed size",
    "report/readers/stable_baselines3.py": "arrays without objects, from what a helper has opened",
}
"""Files with other readers, and why they may have them."""


def raw_readers(tree):
    """The lines on which a file is opened by another function than a helper, or for reading."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        words = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [word.value for word in words if isinstance(word, ast.Constant)]
        if (name in READERS or last in READERS) and not any(text in WRITES for text in texts):
            yield node.lineno


@pytest.fixture(scope="module")
def found():
    """The lines of each file on which a file is opened."""
    return {
        path.relative_to(PACKAGE).as_posix(): list(raw_readers(ast.parse(path.read_text("utf-8"))))
        for path in PACKAGE.rglob("*.py")
    }


@pytest.mark.parametrize(
    ("line", "is_raw"),
    [
        ("open(path)", True),
        ("path.open('rb')", True),
        ("path.open('a+')", True),
        ("open(path, mode='w')", False),
        ("path.read_text()", True),
        ("np.load(path)", True),
        ("json.load(file)", True),
        ("os.open(path, os.O_RDONLY)", True),
        ("open_plain(path)", False),
        ("get_json(path)", False),
    ],
)
def test_what_counts_as_a_reader(line, is_raw):
    assert bool(list(raw_readers(ast.parse(line)))) is is_raw


def test_no_other_file_is_opened_without_asking_what_it_is(found):
    assert {file: lines for file, lines in found.items() if lines and file not in ALLOWED} == {}


def test_every_exception_is_needed(found):
    assert [file for file in ALLOWED if not found.get(file)] == []


def test_of_a_file_that_does_not_fit_nothing_is_left(tmp_path, monkeypatch):
    put_text(tmp_path / "a", "before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=str(tmp_path / "a")):
        put_text(tmp_path / "a", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
@pytest.mark.parametrize("there", ["1", "7", "x", "9" * 17, "9" * 18, "9" * 60, "0" * 40])
def test_a_new_number_is_never_that_of_a_file_that_is_there(tmp_path, there, make):
    make(tmp_path / f"a-{there}.json")
    for _ in range(3):
        new = tmp_path / f"a-{next_number(tmp_path, 'a', '.json')}.json"
        assert not os.path.lexists(new)
        make(new)


@pytest.mark.parametrize("linked", ["recordings", "recordings/5", "recordings/5/a-1.html"])
def test_the_newest_file_is_not_behind_a_link(tmp_path, linked):
    for place in ("elsewhere", "elsewhere/5", "run/recordings/4"):
        (tmp_path / place).mkdir(parents=True)
    for place in ("elsewhere", "elsewhere/5"):
        (tmp_path / place / "a-1.html").touch()
    link = tmp_path / "run" / linked
    shutil.rmtree(link) if link.is_dir() else link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere" / Path(linked).relative_to("recordings"))
    assert newest(tmp_path / "run", "recordings/*/*.html") == []


@pytest.mark.parametrize(
    ("name", "holder"),
    [("lock", f"process {os.getpid()} on"), ("", "another process,")],
    ids=["file", "folder"],
)
def test_a_lock_that_is_held_long_is_awaited_with_one_line(tmp_path, monkeypatch, name, holder):
    said = []
    monkeypatch.setattr(files, "PATIENCE", 0.01)
    with ExitStack() as other:
        monkeypatch.setattr(files, "say", lambda text: (said.append(text), other.close()))
        other.enter_context(locked(tmp_path / name))
        for _ in range(2):
            with locked(tmp_path / name):
                pass
    (line,) = said
    assert line.startswith(f"Waiting for {holder}")
    assert str(tmp_path / name) in line
