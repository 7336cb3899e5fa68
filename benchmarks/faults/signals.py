"""SIGINT, SIGTERM, SIGHUP and SIGUSR1 in every phase of a run, once and twice: the exit code is
that of the signal, no process is left over, and the resumed run ends with the weights, replay and
metrics of a run without signals, byte for byte.

The run sends a signal to itself, at a random call of the phase's function. Compilation and sweeps
are separate commands that receive the signal from outside.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.faults import sweeps
from benchmarks.faults.runs import FORK, SMALL, command, last_lines, result_of, warm_up
from rltrain.mode.signals import SIGNAL_CODES

ROOT = Path(__file__).parents[2]
RUN = ["logger=[csv,wandb]", *SMALL]
WORKERS = [
    *(word for word in RUN if not word.startswith(("env=", "buffer."))),
    *("algo=dqn", "env=cartpole", "hardware=process", "hardware.n_workers=2"),
]
PHASES = {
    "compose": "rltrain.mode.dispatch:compose_single",
    "build": "rltrain.mode.train:build_trainer",
    "collect": "rltrain.hardware.rollout:Rollout.collect",
    "env step": "rltrain.hardware.rollout:Rollout._count",
    "sample": "rltrain.buffer.episode:EpisodeBuffer.sample",
    "update": "rltrain.algo.learner:Learner.update",
    "test": "rltrain.hardware.rollout:Rollout.run_episodes",
    "log": "rltrain.logger.loggers:Loggers.write",
    "save": "rltrain.common.checkpoint.storage:put_tensors",
    "latest": "rltrain.common.checkpoint:make_latest",
    "close": "rltrain.logger.loggers:Loggers.close",
}
"""Functions that are called in the phases of a run."""
WHEN_RESUMED = {
    "find": "rltrain.mode.resume_settings:find_run",
    "restore": "rltrain.trainer:Trainer.restore",
    "collect, resumed": PHASES["collect"],
}
TWO_RUNS = [
    *(word for word in sweeps.SWEEP if not word.startswith(("callbacks", "algo=", "seed="))),
    "seed=1,2",
]
PR_SET_CHILD_SUBREAPER = 36  # prctl.h
UNBORN = 6.0  # seconds after which no process may be left over


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All phases with all signals, or so many of them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what is left over becomes our child
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore both,
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and then all that it starts
    rng = random.Random(seed)
    warm_up(folder)
    made = [
        (phase, name, times)
        for phase in (*PHASES, *WHEN_RESUMED, "workers")
        for name in SIGNAL_CODES
        for times in (1, 2)
    ]
    made += [(phase, name, 1) for phase in ("compile", "sweep") for name in SIGNAL_CODES]
    plain: dict[bool, Any] = {}
    for phase, name, times in made if n_cases is None else rng.sample(made, n_cases):
        case = f"{name} {'twice ' if times == 2 else ''}in {phase}"
        if phase in ("compile", "sweep"):
            problem = (compiling if phase == "compile" else sweep)(folder, name, rng)
        else:
            words = WORKERS if phase == "workers" else RUN
            if (phase == "workers") not in plain:
                plain[phase == "workers"] = uninterrupted(folder, words)
            expected, calls = plain[phase == "workers"]
            problem = interrupted(folder / "run", words, phase, name, times, expected, calls, rng)
        yield case, problem or left_over()
        shutil.rmtree(folder / "run", ignore_errors=True)


def uninterrupted(folder: Path, words: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """The result of a run without signals, and the number of calls in each phase."""
    run_dir, calls = folder / "plain", folder / "calls.txt"
    calls.unlink(missing_ok=True)
    shutil.rmtree(run_dir, ignore_errors=True)
    watched = {**PHASES, "workers": "rltrain.hardware.process.rollout:ProcessRollout.collect"}

    def watch() -> None:
        for phase, function in watched.items():
            on_call(function, lambda n, phase=phase: note(calls, phase))

    assert run(words, run_dir, watch) == 0, last_lines(run_dir.with_suffix(".txt"))
    lines = calls.read_text(encoding="utf-8").splitlines()
    return result_of(run_dir), {phase: lines.count(phase) for phase in watched}


def note(file: Path, line: str) -> None:
    """Add a line to a file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def interrupted(
    run_dir: Path,
    words: Sequence[str],
    phase: str,
    name: str,
    times: int,
    expected: dict[str, str],
    calls: dict[str, int],
    rng: random.Random,
) -> str | None:
    """What is wrong with a run that gets a signal in a phase, so many times; or None."""
    run_dir.with_suffix(".txt").unlink(missing_ok=True)
    function = PHASES.get(phase) or WHEN_RESUMED.get(phase) or PHASES["collect"]
    if phase == "workers":
        function = "rltrain.hardware.process.rollout:ProcessRollout.collect"
    at = rng.randrange(calls.get(phase, 1) or 1)
    if phase in WHEN_RESUMED:
        stop_at = rng.randrange(calls["collect"])
        run(words, run_dir, lambda: on_call(PHASES["collect"], sends("SIGTERM", 1, stop_at)))
    begun = (run_dir / "config.json").exists()
    code = run(words, run_dir, lambda: on_call(function, sends(name, times, at)))
    problem = unexpected(code, name, run_dir, phase)
    if problem is None and (code := run(words, run_dir)) != 0:
        problem = f"the resumed run ends with {code}"
    if problem is not None:
        return f"call {at}{', resumed' if begun else ''}: {problem}: " + last_lines(
            run_dir.with_suffix(".txt")
        )
    found = result_of(run_dir)
    differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
    return f"call {at}: {differ} differ" if differ else None


def unexpected(code: int | None, name: str, run_dir: Path, phase: str) -> str | None:
    """What is wrong with how a run ended; or None."""
    allowed = {SIGNAL_CODES[name]}
    if (run_dir / "run.json").exists():
        status = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))["status"]
        if status == "finished":
            allowed = {0, *allowed}  # the signal came after the end
    if code not in allowed:
        return f"exit code {code}"
    output = run_dir.with_suffix(".txt")
    if "Traceback" in output.read_text(encoding="utf-8"):
        return "a traceback"
    return None


def run(words: Sequence[str], run_dir: Path, prepare: Callable[[], None] | None = None) -> int:
    """Begin a run, or resume it; returns the exit code."""
    begun = (run_dir / "config.json").exists()
    typed = [f"resume={run_dir}"] if begun else [*words, f"hydra.run.dir={run_dir}"]
    process = FORK.Process(target=prepared, args=(prepare, typed, run_dir.with_suffix(".txt")))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def prepared(prepare: Callable[[], None] | None, words: Sequence[str], output: Path) -> None:
    """The command, after ``prepare`` was called in its process."""
    os.setpgid(0, 0)
    if prepare is not None:
        prepare()
    command(words, output, None)


def on_call(function: str, act: Callable[[int], None]) -> None:
    """Call ``act`` with the number of the call whenever a function, ``module:name``, is called."""
    module, _, path = function.partition(":")
    *owners, name = path.split(".")
    owner: Any = import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    plain, calls = getattr(owner, name), count()

    def called(*args: Any, **kwargs: Any) -> Any:
        act(next(calls))
        return plain(*args, **kwargs)

    setattr(owner, name, called)


def sends(name: str, times: int, at: int) -> Callable[[int], None]:
    """Sends a signal to its own process, so many times, at call number ``at``."""

    def act(n: int) -> None:
        if n == at:
            for _ in range(times):
                os.kill(os.getpid(), signal.Signals[name])

    return act


def compiling(folder: Path, name: str, rng: random.Random) -> str | None:
    """What is wrong with a signal while machine code is compiled, with an empty cache; or None."""
    run_dir, output = folder / "run", folder / "run.txt"
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    words = [*RUN, "algo=qmix", "logger.console=true", f"hydra.run.dir={run_dir}"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "rltrain", *words],
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)},
        )
    while process.poll() is None and b"compiling machine code" not in output.read_bytes():
        time.sleep(0.1)
    time.sleep(rng.uniform(0, 3))
    process.send_signal(signal.Signals[name])
    return unexpected(process.wait(), name, run_dir, "compile")


def sweep(folder: Path, name: str, rng: random.Random) -> str | None:
    """What is wrong with a signal to a sweep of two runs that is typed again; or None."""
    plain, stopped = folder / "plain-sweep", folder / "sweep"
    codes = []
    for each in (plain, stopped):
        if not (each / "done").exists():
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir()
            process = start(each)
            if each == stopped:
                rows = rng.randrange(1, 20)
                while process.poll() is None and sweeps.n_rows(each) < rows:
                    time.sleep(0.05)
                process.send_signal(signal.Signals[name])
                codes.append(process.wait())
                process = start(each)
            codes.append(process.wait())
        if each == plain:
            (plain / "done").touch()
            expected, codes = sweeps.results(plain), []
    if codes != [SIGNAL_CODES[name], 0]:
        return f"exit codes {codes}: {last_lines(stopped / 'output.txt')}"
    found = sweeps.results(stopped)
    differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
    return f"{differ} differ" if differ else None


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The sweep of two runs as a command, in ``folder``."""
    return sweeps.start(folder, TWO_RUNS)


def left_over() -> str | None:
    """The processes that a run has left, if there are any; they are ended."""
    until = time.monotonic() + UNBORN
    while children := sweeps.job_processes(os.getpid()):
        for pid in children:
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() > until:
                    name = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
                    os.kill(pid, signal.SIGKILL)
                    return f"left over: {name}"
            except ChildProcessError:
                continue
        time.sleep(0.05)
    return None
