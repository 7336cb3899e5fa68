"""Whole commands on runs and sweeps with an untrusted configuration: nothing is executed, nothing
outside is read or written, and the message is one paragraph.

Each command is a fork of this process with an audit hook that checks what it does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.faults.attacks import BEFORE_TRAINING, NODES, OVERRIDES, PARTS, VALUES
from benchmarks.faults.hostile import checkpoints, every
from benchmarks.faults.runs import FORK, SMALL, command, digests, warm_up
from rltrain.config.overrides import put
from rltrain.main import run

STARTS = ("resume={run}", "config={run} hydra.run.dir=new")
"""Commands that need the whole configuration, and so refuse every attack."""
ACTS = (
    "mode=evaluate checkpoint={run} test.episodes=1",
    "mode=export checkpoint={run}",
    "mode=push checkpoint={run}",
)
"""Commands that leave out what only learns."""
REPORT = "mode=report runs={run} report.resamples=10"
ROOTS = (
    *(sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), "/proc", "/sys", "/usr"),
    *filter(None, sys.path),
)
FILES = ("/dev/null", "/dev/urandom", "/etc/localtime", "/etc/mime.types", "/dev/shm")
CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
OF_PACKAGES = (str(Path.home() / ".config/matplotlib"),)
"""Where packages keep their settings."""
LOADED = ("evaluate", "export.network", "hub.push", "report", "sweep.run")
LINES = 6  # of an answer
SECONDS = 60


class Allowed:
    """An audit hook that writes down every event that is not allowed."""

    def __init__(self, inside: Path, seen: Path) -> None:
        self.inside, self.handle = str(inside), os.open(seen, os.O_WRONLY | os.O_CREAT)
        self.reads = (self.inside, *ROOTS, *FILES, CACHE, *OF_PACKAGES)
        self.writes = (self.inside, "/dev/null", CACHE, *OF_PACKAGES)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.allows(event, arguments):
            os.write(self.handle, f"{event} {arguments!r:.120}\n".encode())

    def allows(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether an event is one that an honest command has."""
        family = event.partition(".")[0]
        if event == "open":
            flags = arguments[2] or 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            return self.within(arguments[:1], self.writes if writes else self.reads)
        if event in ("os.listdir", "os.scandir", "os.walk", "os.chdir"):
            return arguments[0] == "/tmp" or self.within(arguments[:1], self.reads)  # tempfile
        if event in ("os.putenv", "os.unsetenv", "socket.gethostname"):
            return True
        if event == "subprocess.Popen":
            return bool(arguments[0] == "git")  # for the record's commit
        if event == "import":
            return not str(arguments[0]).startswith(("evil", "magent2", "pettingzoo.utils.dep"))
        if family in ("os", "shutil"):
            return self.within(arguments, self.writes)
        if event == "ctypes.dlopen":
            return arguments[0] is None or self.within(arguments[:1], ROOTS)
        return family not in ("socket", "pty", "urllib", "http", "webbrowser", "pickle", "sqlite3")

    def within(self, arguments: Any, roots: tuple[str, ...]) -> bool:
        """Whether all paths among the arguments lie in these folders."""
        paths = [os.fspath(a) for a in arguments if isinstance(a, (str, bytes, os.PathLike))]
        texts = [os.path.realpath(os.fsdecode(path)) for path in paths]
        return all(any(text == r or text.startswith(f"{r}/") for r in roots) for text in texts)


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All commands; of a number so many, spread over all."""
    warm_up(folder)
    for name in LOADED:  # once, and not in every fork
        importlib.import_module(f"rltrain.mode.{name}")
    importlib.import_module("matplotlib.font_manager")  # asks fc-list for fonts, the first time
    outside, inside = folder / "outside", folder / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text("secret")
    with contextlib.chdir(inside):
        words = [word for word in SMALL if not word.startswith("logger.wandb")]
        assert run([*words, "hydra.run.dir=run", "logger=[]"]) == 0
        shutil.move("run", folder / "run")
        tried = list(commands(outside))
        step = 1 if n_cases is None else max(1, len(tried) // n_cases)
        for name, words, prepare, codes in islice(tried, 0, None, step):
            shutil.rmtree(inside)
            inside.mkdir()
            os.chdir(inside)
            (inside / "evil.py").write_text("open('PWNED', 'w').close()")
            (inside / "evil.yaml").write_text(
                "# @package _global_\ncallbacks: [{_target_: evil.x}]"
            )
            prepare(folder / "run", inside)
            yield f"{name}, {words}", answered(words, folder, inside, outside, codes)


Prepare = Any


def commands(outside: Path) -> Iterator[tuple[str, str, Prepare, tuple[int, ...]]]:
    """Name, command, what prepares its folder, and the exit codes that are right."""
    for words in (*STARTS, ACTS[0], ACTS[2], REPORT, "resume={sweep}"):
        right = (2,) if "push" in words else (0,)  # without hub.repo
        yield "nothing", words, lambda run, at: (changed(run, at, {}), sweep(at, [])), right
    for name, changes in attacks(outside).items():
        of_run = Change(changes)
        for words in STARTS:
            yield name, words, of_run, (2, 3)
        for words in ACTS:
            parts = [key for key in changes if key != "env.timeout"]  # of workers
            acts = any(key.startswith(("env", "algo.network", "test.env")) for key in parts)
            if "export" in words and not acts:
                continue  # it would be exported, which takes long
            plays = "push" not in words and acts
            right = (2, 3) if plays or "algo.network" in changes else (0, 2, 3)
            yield name, words, of_run, right
        yield name, "resume={sweep}", Change(changes, of_job=True), (2, 3)
        yield name, REPORT, of_run, (0, 2)
    for name, changes in BEFORE_TRAINING.items():
        filled = {key: filled_in(value, outside) for key, value in changes.items()}
        yield name, "resume={run}", Change(filled, begun=False), (2, 3)
        yield name, STARTS[1], Change(filled), (2, 3)
    for overrides in OVERRIDES:
        yield overrides.replace("\n", " "), "resume={sweep}", Sweep(overrides.split("\n")), (2, 3)


def attacks(outside: Path) -> dict[str, dict[str, Any]]:
    """Changes of a configuration by name: a node at every part, and values of keys."""
    nodes = [name for name in NODES if name not in ("own callback", "a class of another group")]
    found = {}
    for i, part in enumerate(PARTS):
        for name in nodes if part == "env" else [nodes[i % 3], nodes[3], nodes[4 + i % 12]]:
            node = NODES[name]
            found[f"{name} at {part}"] = {part: [node] if part == "callbacks" else node}
    for name, changes in VALUES.items():
        found[name] = {key: filled_in(value, outside) for key, value in changes.items()}
    return found


def filled_in(value: Any, outside: Path) -> Any:
    """A value with the name of the folder in it."""
    return json.loads(json.dumps(value).replace("{outside}", str(outside)))


class Change:
    """Puts a run into a folder whose configuration has other values.

    Args:
        of_job: the run is one of a sweep.
        begun: it has checkpoints.
    """

    def __init__(
        self, changes: Mapping[str, Any], *, of_job: bool = False, begun: bool = True
    ) -> None:
        self.changes, self.of_job, self.begun = changes, of_job, begun

    def __call__(self, run_dir: Path, inside: Path) -> None:
        if self.of_job:
            sweep(inside, ["seed=1"])
        changed(run_dir, inside / "sweep" if self.of_job else inside, self.changes, self.of_job)
        if not self.begun:
            shutil.rmtree(inside / "run" / "checkpoints")


class Sweep:
    """Puts a sweep into a folder whose only job has these overrides and has not begun."""

    def __init__(self, overrides: list[str]) -> None:
        self.overrides = overrides

    def __call__(self, run_dir: Path, inside: Path) -> None:
        chosen = any(word.startswith("env=") for word in self.overrides)
        sweep(inside, [*([] if chosen else ["env=two_step"]), *self.overrides])


def changed(run_dir: Path, at: Path, changes: Mapping[str, Any], job: bool = False) -> None:
    """Copy a run, with other values in its configuration and in those of its checkpoints."""
    target = at / ("0" if job else "run")
    shutil.copytree(run_dir, target)
    if not changes:
        return
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    for key, value in changes.items():
        put(config, key, value)
    if job:
        record = json.loads((target / "run.json").read_text(encoding="utf-8"))
        (target / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
    assert checkpoints(target)
    every(target, "config.json", json.dumps(config).encode())


def sweep(inside: Path, overrides: list[str]) -> None:
    """Write a sweep of at most one job."""
    (inside / "sweep").mkdir()
    jobs = [{"folder": "0", "overrides": overrides}] if overrides else []
    if not jobs:  # one that has finished
        shutil.copytree(inside / "run", inside / "sweep" / "0")
        jobs = [{"folder": "0", "overrides": ["env=two_step"]}]
    facts = {
        "overrides": ["seed=1"],
        "typed": ["seed=1"],
        "config_sha256": "0",
        "n_jobs": 1,
        "started": "",
        "jobs": jobs,
    }
    (inside / "sweep" / "sweep.json").write_text(json.dumps(facts))


def answered(
    words: str, folder: Path, inside: Path, outside: Path, codes: tuple[int, ...]
) -> str | None:
    """What is wrong with how a command is answered, or None."""
    output, seen = folder / "output", folder / "seen"
    output.write_text("")
    seen.write_text("")
    kept = digests(outside)
    before = digests(inside)
    typed = words.format(run=inside / "run", sweep=inside / "sweep").split()
    process = FORK.Process(target=command, args=(typed, output, Allowed(inside, seen)))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        return f"takes more than {SECONDS} s"
    text = output.read_text(encoding="utf-8", errors="replace")
    if events := seen.read_text().splitlines():
        return "; ".join(events[:3])
    if list(folder.rglob("PWNED")) or digests(outside) != kept:
        return "code was executed, or something outside was changed"
    if process.exitcode not in codes:
        return f"exit code {process.exitcode}: {text[-300:]}"
    if "Traceback" in text or (process.exitcode and len(text.splitlines()) > LINES):
        return f"no paragraph: {text[-300:]}"
    if process.exitcode and digests(inside) != before:
        return "refused, but files were changed"
    return None
