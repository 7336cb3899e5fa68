"""One job of a sweep in its own process: ``python -m rltrain.mode.sweep.job N KEY=VALUE …``.

It is the single run ``rltrain KEY=VALUE …`` as one of N, whose lines begin with its name. When
standard input is closed, because the sweep's own process has ended, it stops as on SIGTERM. Several
jobs, with ``--`` between them, take turns; with ``--fail-fast=CODES``, one that fails with such an
exit code ends the others.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from rltrain.common.machine.streams import keep_streams, say
from rltrain.errors import SIGNAL_CODES, RltrainError, failure, find_exit_code

if TYPE_CHECKING:
    from pathlib import Path

    from rltrain.config.schema import Settings
    from rltrain.mode.signals import Interrupts
    from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
BETWEEN, FAIL_FAST = "--", "--fail-fast="
"""Arguments that are not overrides."""
TURN = 0.01
"""Seconds. While a GPU computes what one run has launched, the next one continues."""
Run = Generator[None, None, int]
"""A run with breaks, in which others train; returns its exit code."""


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns its exit code. Imports take seconds, during which Ctrl-C may come."""
    keep_streams()
    threading.Thread(target=stop_with_the_sweep, name="sweep", daemon=True).start()
    # raises nothing, since imports may drop it: the run would go on with half of a package
    signal.signal(signal.SIGINT, lambda *_: os._exit(SIGNAL_CODES["SIGINT"]))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the sweep
        return train(int(arguments[0]), arguments[1:])
    except KeyboardInterrupt as stopped:
        return next(iter(stopped.args), SIGNAL_CODES["SIGINT"])


def train(n_jobs: int, arguments: Sequence[str]) -> int:
    """Carry out one job, or several in turns; returns the exit code."""
    from rltrain.mode.find_run import to_its_end

    overrides = [each for each in arguments if not each.startswith(FAIL_FAST)]
    failures = [each.removeprefix(FAIL_FAST) for each in arguments if each not in overrides]
    ends = [i for i, each in enumerate(overrides) if each == BETWEEN] + [len(overrides)]
    commands = [overrides[i + 1 : j] for i, j in pairwise([-1, *ends])]
    if len(commands) == 1:
        return to_its_end(run_job)(n_jobs, commands[0])
    begin = [partial(run_job, n_jobs, command, train_in_turns) for command in commands]
    return run_in_turns(begin, [int(code) for each in failures for code in each.split(",")])


def run_job(
    n_jobs: int,
    overrides: Sequence[str],
    train: Callable[[Trainer], Iterable[None]] | None = None,
    interrupts: Interrupts | None = None,
) -> Run:
    """Begin the run or, with ``resume=``, continue it; returns its exit code. Arguments as of
    ``training``.
    """
    from rltrain.common.files import absolute_path
    from rltrain.config.compose import compose_single
    from rltrain.config.overrides import typed_value
    from rltrain.mode.messages.banner import JobName
    from rltrain.mode.resume_settings import resumed_settings
    from rltrain.mode.train import training

    path = typed_value(overrides, "resume")
    run_dir = absolute_path(str(path or typed_value(overrides, "hydra.run.dir")))
    files = None
    try:
        if path is not None:
            others = [override for override in overrides if not override.startswith("resume=")]
            settings, run_dir = resumed_settings(run_dir, others)
        else:
            composed, settings = compose_single(overrides)
            files = composed.files(run_dir)
        result = yield from training(
            settings,
            run_dir,
            files=files,
            resume=path is not None,
            job=JobName(run_dir.name, n_jobs),
            interrupts=interrupts,
            train=train,
        )
    except Exception as error:
        return report_failure(run_dir, error)
    return result.exit_code


def train_in_turns(trainer: Trainer) -> Iterator[None]:
    """Train as ``Trainer.train`` does, with a break after every turn. On a GPU, in a CUDA stream of
    its own.
    """
    import torch

    from rltrain.common.machine.time_and_memory import cpu_seconds

    over, stream, ahead = False, None, 1
    if trainer.learner.gradient_step.weights.is_cuda:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
    while not over:
        with torch.cuda.stream(stream), trainer.reporting_exceptions():
            trainer.start()
            begun = time.monotonic()
            trainer.run(min(trainer.clock.env_steps + ahead, trainer.total_env_steps))
            passed = max(time.monotonic() - begun, 1e-9)
            ahead = max(1, min(2 * ahead, int(ahead * TURN / passed)))
            over = trainer.stopping is not None
            over |= trainer.clock.env_steps >= trainer.total_env_steps
            if over:
                trainer.end()
        if not over:
            used = cpu_seconds()
            try:
                yield
            except KeyboardInterrupt:
                with trainer.reporting_exceptions():
                    raise
            trainer.usage.cpu_begun += cpu_seconds() - used


def run_in_turns(begin: Sequence[Callable[[Interrupts], Run]], failures: Sequence[int] = ()) -> int:
    """Carry out runs until all have ended; returns the worst of their exit codes.

    Args:
        begin: makes each run, given what stops it.
        failures: exit codes of a run that stop the others.
    """
    from rltrain.mode.signals import Interrupts, handling
    from rltrain.mode.sweep.summary import worst

    log.setLevel(logging.INFO)
    log.propagate = False
    interrupts, codes = Interrupts(), []
    with handling(interrupts.handle):
        waiting = [(Context(), make(interrupts)) for make in begin]
        try:
            while waiting:
                for turn in [*waiting]:
                    context, run = turn
                    try:
                        context.run(next, run)
                        continue
                    except StopIteration as ended:
                        code = ended.value
                    except SystemExit as left:  # of code that is not ours
                        code = left.code if isinstance(left.code, int) else 1
                    codes.append(code)
                    waiting.remove(turn)
                    if code in failures and not interrupts.caught:
                        os.kill(os.getpid(), signal.SIGTERM)
                    if len(interrupts.caught) > 1:  # the run whose turn it was has ended at once
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            for context, run in waiting:
                with suppress(KeyboardInterrupt, StopIteration):
                    context.run(run.throw, KeyboardInterrupt())
            codes.append(interrupts.exit_code)
    return worst(codes)


def run_in_process(settings: Settings, run_dir: Path, n_jobs: int) -> None:
    """One run of a sweep of ``n_jobs`` for another launcher than ours, in a folder that already
    exists: it begins, continues where it was interrupted, or has finished before.

    Raises:
        KeyboardInterrupt: the run was interrupted; with its exit code.
    """
    from rltrain.common.files import json_object
    from rltrain.mode.messages.banner import JobName
    from rltrain.mode.run_folder import holds_run
    from rltrain.mode.train import run_training

    if json_object(run_dir / "run.json").get("status") == "finished":
        return
    job = JobName(run_dir.name, n_jobs)
    try:
        code = run_training(settings, run_dir, resume=holds_run(run_dir), job=job).exit_code
    except Exception as error:
        code = report_failure(run_dir, error)
    if code in SIGNAL_CODES.values():
        raise KeyboardInterrupt(code)


def report_failure(run_dir: Path, error: Exception) -> int:
    """Say that a job could not begin or continue, and record it; returns its exit code."""
    from rltrain.mode.sweep.plan import record_failure

    record_failure(run_dir, failure(error), find_exit_code(error), os.getpid())
    say(f"rltrain: {run_dir.name}: {error}", error=True)
    if not isinstance(error, RltrainError):
        say(traceback.format_exc(), error=True)
    return find_exit_code(error)


def stop_with_the_sweep() -> None:
    """Wait until standard input is closed, then stop the run."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as at the end of a command
    sys.exit(exit_code)
