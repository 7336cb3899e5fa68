"""Folders of results are named by date and time, and no two commands share one."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from rltrain.common import files
from rltrain.mode.sweep.run import Local

SCRIPTED = ("algo=scripted", "algo.policy=closest", "env=smac", "test.episodes=1")
BATTLES = ("mode=match", "checkpoints=[closest, focus]", "match.battles=2", "env=smac")


@pytest.fixture
def one_second(monkeypatch):
    """Every command starts in the same second."""

    class Clock(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 3, 1, 12, 30, 59)

    monkeypatch.setattr(files, "datetime", Clock)
    monkeypatch.setattr(Local, "run", lambda *_: None)  # the jobs of a sweep


@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize(
    ("group", "words", "others"),
    [
        ("evaluate", ("mode=evaluate", *SCRIPTED), ()),
        ("evaluate", ("mode=evaluate", *SCRIPTED, "record=html"), ()),
        ("match", BATTLES, ("seed=1",)),
        ("multirun", ("-m", "env=two_step", "seed=1,2"), ("log.interval=5",)),
        ("report", ("mode=report", "runs=runs", "report.resamples=20"), ()),
    ],
)
def test_commands_of_one_second_have_their_own_folders(
    command, own_folder, trained, one_second, group, words, others
):
    trained.rename(own_folder / "runs")
    for more in ((), others):
        command(*words, *more)
    found = sorted((own_folder / "outputs" / group).iterdir())
    assert [path.name for path in found] == ["2026-03-01_12-30-59", "2026-03-01_12-30-59-2"]
    assert len({tuple(sorted(file.name for file in path.iterdir())) for path in found}) == 1
    assert any(path.is_file() for path in found[1].iterdir())


def test_of_many_processes_every_one_makes_its_own_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        every = list(pool.map(files.made, [tmp_path / "outputs/new"] * 40))
    assert len(set(every)) == 40
    assert all(re.fullmatch(r"new(-\d+)?", path.name) and path.is_dir() for path in every)
