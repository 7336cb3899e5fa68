"""``sweep.batch_seeds``: runs that differ in their seed alone, in turns in one process."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context

import torch

from rltrain.common.json_text import flat
from rltrain.common.machine.time_and_memory import cpu_seconds
from rltrain.config.schema import Settings
from rltrain.errors import UsageError
from rltrain.mode.signals import Interrupts, handling
from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.summary import worst
from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
TURN = 0.01
"""Seconds. While a GPU computes what one run has launched, the next one continues."""
OWN = ("seed", "name", "dataset.write")
"""Keys that may differ."""
Run = Generator[None, None, int]
"""A run with breaks, in which others train; returns its exit code."""


def batches(jobs: Mapping[SweepJob, Settings]) -> list[tuple[SweepJob, ...]]:
    """The jobs that differ in their seed alone, together."""
    together: dict[str, list[SweepJob]] = {}
    for job, settings in jobs.items():
        together.setdefault(json.dumps(apart_from_seed(settings)), []).append(job)
    return [*map(tuple, together.values())]


def apart_from_seed(settings: Settings) -> dict[str, object]:
    """The resolved configuration by key, without what may differ."""
    return {key: value for key, value in flat(settings.record).items() if key not in OWN}


def require_batches(settings: Sequence[Settings]) -> None:
    """UsageError if no two runs of a sweep differ in their seed alone."""
    ours = [apart_from_seed(each) for each in settings]
    if all(a != b for i, a in enumerate(ours) for b in ours[:i]):
        differ = sorted({k for a in ours for k in a.keys() | ours[0] if a.get(k) != ours[0].get(k)})
        found = f"the runs differ in {', '.join(differ[:5])}" if differ else "there is one run"
        raise UsageError(
            "sweep.batch_seeds=true trains the runs of a sweep that differ in their seed alone in "
            f"one process, but {found}. Type several seeds, such as seed=1,2,3, or "
            "sweep.batch_seeds=false."
        )


def train_in_turns(trainer: Trainer) -> Iterator[None]:
    """Train as ``Trainer.train`` does, with a break after every turn. On a GPU, in a CUDA stream of
    its own.
    """
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
