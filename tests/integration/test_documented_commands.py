"""The commands in README, docs, CONTRIBUTING, the Makefile and ``--help``: every one composes and
runs, and those that train one agent for at most 100,000 env steps reach what a reader expects.
Commands pass the files that docs/command_to_run.md names.
"""

import dataclasses
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.battles.smaclite.maps import find_map_under
from rltrain.config.combinations import Facts
from rltrain.config.overrides import jobs, parse
from rltrain.config.show.help import help_text
from rltrain.errors import UsageError
from rltrain.hardware.rollout import Rollout
from rltrain.main import run
from rltrain.mode.messages.warnings import env_facts
from tests.helpers import three_iterations
from tests.marks import slow_except
from tests.pages import DOCS, ROOT, read_page

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile")]
PAGES += ROOT.glob("docs/**/*.md")
ELSEWHERE = re.compile(
    r"…|<|\.\.\.|NAME|RUN|FOLDER|mine\.|my_package|=rock|my\.yaml|my_preset|prices\.csv|outputs/|=latest|"
    r"backend=sc2|hf:|hardware=cuda|--|mode=(?:doctor|report|tune|match|init)"
)
"""Placeholders, files and runs of the reader, flags, the real game: other tests type these."""
OF_READERS = re.compile(r"=mine:|=my_game:|=row:|=HEAD:|=DIR")
"""Modules and machines of the reader: such commands compose, but cannot run."""
WRONG = {"env=smca algo.loss.gama=0.9", "env=cartpole algo.batch_size=many"}
"""Mistakes that are shown for their message."""
TINY = (
    *("total_env_steps=1000000", "logger.console=false", "logger.wandb.mode=disabled"),
    *("hardware.threads=1", "test.n_envs=1"),
)
OF_COMMANDS = ("sweep.", "logger=")
"""Words that a trainer built by hand refuses."""
REPLACED = {"logger": "logger.wandb.mode", "test.n_workers": "test.n_envs"}
"""Of these words a command must have one at most."""
AT_ONCE = 100_000
"""Commands with at most as many env steps are tried by readers at once."""
PENALTY = "[{_target_: rltrain.examples.ActionPenalty, actions: [1], weight: 0.1}]"
CARTPOLE = "algo=dqn env=cartpole"
RETURN, EXCESS = "test/return_mean", "test/excess_over_buy_and_hold_mean"
LEVELS = {
    "env=cartpole": (RETURN, 450),
    "env=acrobot": (RETURN, -100),
    CARTPOLE: (RETURN, 450),
    f"checkpoint=demo/cartpole {CARTPOLE}": (RETURN, 450),
    f"{CARTPOLE} total_env_steps=50000": (RETURN, 450),
    f"{CARTPOLE} total_env_steps=50_000": (RETURN, 450),
    f"{CARTPOLE} dataset.write=data/cart": (RETURN, 450),
    f"{CARTPOLE} 'algo.optimizer={{_target_: torch.optim.AdamW, lr: 5e-4}}'": (RETURN, 450),
    f"env=cartpole total_env_steps=1e5 'callbacks={PENALTY}'": (RETURN, 450),
    f"{CARTPOLE} total_env_steps=20000 dataset.write=data/cartpole": (RETURN, 195),
    f"{CARTPOLE} dataset.read=data/cart": (RETURN, 195),
    f"{CARTPOLE} dataset.read=data/cartpole total_env_steps=50000": (RETURN, 195),
    f"{CARTPOLE} dataset.read=data/cartpole algo.updates_per_env_step=1 total_env_steps=100000": (
        RETURN,
        195,
    ),
    "experiment=rllib/dqn env=cartpole": (RETURN, 150),
    "experiment=apex/cartpole": (RETURN, 400),
    "experiment=trading": (EXCESS, 30),
    "experiment=trading test.episodes=100": (EXCESS, 30),
    "algo=dqn env=trading total_env_steps=20_000": (EXCESS, 0),
}
"""The metric and its mean over the last three tests of the trained network."""


def commands(text):
    """What follows ``rltrain`` in every command, comments left out."""
    found = re.findall(r"^\s*(?:\$\(BIN\)/)?rltrain ([^#\n]*)", text, re.MULTILINE)
    found += re.findall(r"`rltrain ([^`]+)`", text)
    lines = {" ".join(re.split(r"\s{3,}", line.strip())[0].split()) for line in found}
    return sorted(line for line in lines if "=" in line)


def of_one_run(line):
    """The overrides of a command, of the first job if it is a sweep."""
    overrides = shlex.split(line)
    if overrides[0] != "-m":
        return overrides
    return [word for word in jobs(parse(overrides[1:]))[0] if not word.startswith("hydra")]


def is_short(settings):
    """Whether a command trains one agent for at most ``AT_ONCE`` env steps."""
    run = settings.run
    return (
        run.mode == "train"
        and run.total_env_steps <= AT_ONCE
        and settings.algo.updates_per_env_step is not None
    )


def on_other_maps(lines):
    """The commands that differ from one before only in the map, which one test composes."""
    found = {}
    for line in lines:
        found.setdefault(re.sub(r"env\.map_name=\S+", "", line), []).append(line)
    return {line for same in found.values() for line in same[1:]}


HELP = help_text([])
TEXT = "\n".join([*(read_page(page) for page in PAGES), HELP])
COOKBOOK = commands(read_page(ROOT / "docs/cookbook.md"))
ALL = [line for line in commands(TEXT) if not ELSEWHERE.search(line)]
RUNNABLE = sorted(line for line in {*ALL} - WRONG - {*LEVELS} if not OF_READERS.search(line))
OTHER_MAPS = on_other_maps(ALL)
FIRST_READ = {*COOKBOOK[::4], *commands(read_page(ROOT / "README.md") + HELP)}


@pytest.mark.parametrize("line", slow_except(FIRST_READ - OTHER_MAPS, sorted(set(ALL) - WRONG)))
def test_a_documented_command_composes(line):
    settings = settings_from(of_one_run(line))
    if is_short(settings) and not line.startswith("-m"):
        assert line in LEVELS, "a short command of one agent needs a level that it reaches"
    if settings.run.mode == "train":
        spec = {"obs_shape": (), "obs_space": None, "agents": None}
        facts = env_facts(settings, spec, {"backend": "native"}, training=True)
        facts = Facts(settings.plain, choices=settings.choices, **facts)
        assert [*facts.unread(settings.typed)] == []


@pytest.mark.parametrize("line", sorted(set(COOKBOOK) - set(ALL)))
def test_a_command_of_the_cookbook_about_earlier_runs_composes(line):
    assert settings_from(of_one_run(line.replace("resume=latest ", "")))


def test_the_commands_of_the_cookbook_are_found():
    assert len(COOKBOOK) > 40


def test_the_maps_of_commands_exist():
    names = {
        name for line in OTHER_MAPS for name in re.findall(r"env=smac env.map_name=(\w+)", line)
    }
    assert names
    for name in names:
        find_map_under("sc2", name)


def test_documented_mistakes_are_refused():
    for line in WRONG:
        with pytest.raises(UsageError):
            settings_from(of_one_run(line))


def test_the_pages_have_commands():
    assert len(ALL) > 40
    assert set(LEVELS) <= set(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("line", RUNNABLE)
def test_a_documented_command_runs(line, command, tmp_path):
    overrides = [o for o in of_one_run(line) if not o.startswith(("dataset.read", "test.episodes"))]
    if overrides == ["mode=list"]:
        assert command(*overrides) == 0
        return
    if modes := {"mode=evaluate", "mode=watch"} & set(overrides):
        small = ["test.episodes=2", "hardware.threads=1"]
        small += ["test.n_envs=2"] if "mode=evaluate" in modes else []
        assert command(*overrides, *small) == 0
        return
    typed = {o.partition("=")[0] for o in overrides}
    typed |= {REPLACED[key] for key in typed & set(REPLACED)}
    overrides = [o for o in overrides if not o.startswith(OF_COMMANDS)]
    tiny = [o for o in (*TINY, "test.episodes=2") if o.partition("=")[0] not in typed]
    three_iterations(rltrain.make_trainer([*tiny, *overrides], run_dir=tmp_path / "run"))


def recorded(line, monkeypatch):
    """Write the dataset that a command reads, as the page says."""
    folder = re.search(r"dataset\.read=(\S+)", line)
    for other in ALL if folder else ():
        if f"dataset.write={folder.group(1)}" in other:
            rltrain.train([*shlex.split(other), *TINY[1:]])


@cache
def distinct():
    """Of the commands with a level that compose to the same run, the first."""
    found = {}
    for line in LEVELS:
        settings = dataclasses.replace(settings_from(of_one_run(line)), env_chose_algo=False)
        found.setdefault(str(settings), line)
    return set(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("line", LEVELS)
def test_a_short_command_reaches_its_level(line, seed, monkeypatch):
    if line not in distinct():
        pytest.skip("another command composes to the same run")
    recorded(line, monkeypatch)
    metric, level = LEVELS[line]
    result = rltrain.train([*shlex.split(line), f"seed={seed}", *TINY[1:-1]])
    values = result.history[metric]
    tests = values[~np.isnan(values)][1:]  # the first is that of the untrained network
    assert tests[-3:].mean() >= level


PACKAGE = ROOT / "rltrain"
HALVES = read_page(DOCS / "command_to_run.md").split("\n## ")[1:]
OVERRIDE, RESUME = (re.findall(r"^\| `(.+?\.py)`", half, re.MULTILINE) for half in HALVES)


def entered(overrides):
    """The files of which functions are called before the first step, in order."""
    files = {}

    def note(frame, event, argument):
        code = frame.f_code
        if code is Rollout.collect.__code__:
            sys.setprofile(None)
        elif event == "call" and str(PACKAGE) in code.co_filename and code.co_qualname[0] != "<":
            files.setdefault(str(Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        assert run(overrides) == 0
    finally:
        sys.setprofile(None)
    return list(files)


def test_an_override_passes_the_files_that_the_page_lists(small, own_folder):
    seen = entered([*small, "total_env_steps=20", "algo.loss.gamma=0.9"])
    assert [file for file in OVERRIDE if file not in seen] == []
    assert len(OVERRIDE) - 2 <= 8  # between the command and the constructor


@pytest.mark.slow
def test_a_resumed_run_passes_the_files_that_the_page_lists(trained):
    seen = entered([f"resume={trained}", "total_env_steps=200"])
    assert [file for file in RESUME if file not in seen] == []
    assert len(RESUME) <= 14
