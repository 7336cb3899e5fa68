"""mode=train: one run in one folder, from the banner to the closing text; also a resumed one, one
that is driven by hand, and the processes that learn with it.
"""

from __future__ import annotations

import gc
import logging
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from rltrain.assemble.build_trainer import build_loggers, build_trainer
from rltrain.assemble.env import ordered_as_saved
from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.common.failures import closed_on_error
from rltrain.common.files import absolute_path, json_object, require_empty
from rltrain.common.machine.places import OTHER_FOLDER, refused_writes
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError, UsageError, failure, find_exit_code, usage_errors
from rltrain.hardware.device import TorchRandom, set_allocator_policy
from rltrain.logger.curve import history
from rltrain.logger.live import LivePanel
from rltrain.logger.loggers import Loggers
from rltrain.logger.metric_files import JsonLines
from rltrain.logger.screen import PlainLines, Screen
from rltrain.logger.train_log import TrainLog, train_log
from rltrain.mode import run_folder
from rltrain.mode.find_opponents import with_opponents
from rltrain.mode.find_run import chosen_again, find_checkpoint, to_its_end
from rltrain.mode.messages.banner import JobName, banner, job_line, restart_note
from rltrain.mode.messages.closing import conclusion
from rltrain.mode.messages.warnings import other_rules, warn, warnings
from rltrain.mode.signals import Interrupts, handling
from rltrain.offline.shards import require_free
from rltrain.stage import Stage
from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
ALIKE = 10
"""Seconds for the first of several processes to say what all refuse; torchrun then ends the others.
"""


@dataclass(frozen=True)
class Result:
    """The result of a run. ``metrics`` are the last values by name, ``error`` is what ended it."""

    run_dir: Path
    metrics: Mapping[str, float] = field(default_factory=dict)
    exit_code: int = 0
    error: BaseException | None = None

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        """``metrics.jsonl`` as arrays of equal length by name, NaN where a row does not have the
        metric: ``pandas.DataFrame(result.history)`` takes it as it is.
        """
        return history(self.run_dir / "metrics.jsonl")

    def __fspath__(self) -> str:
        """The run folder, so that a result stands wherever one is expected."""
        return str(self.run_dir)


@chosen_again
def training(
    settings: Settings,
    run_dir: Path,
    *,
    files: Mapping[str, str] | None = None,
    resume: bool = False,
    loud: bool = True,
    job: JobName | None = None,
    callbacks: Sequence[Callback] = (),
    interrupts: Interrupts | None = None,
    train: Callable[[Trainer], Iterable[None]] | None = None,
) -> Generator[None, None, Result]:
    """One whole run in ``run_dir``. Everything is built before the folder is created; failures
    after that are recorded there and become an exit code.

    Args:
        files: what to write into ``.hydra/``, texts by name.
        resume: continue the run in ``run_dir``.
        loud: show banner, progress and result.
        job: of a sweep; its lines begin with its name, since several may run at once.
        callbacks: without state, not named in the configuration.
        interrupts: of several runs that take turns; None for signals that are handled here.
        train: trains, with breaks in which the others do; None for ``Trainer.train``.

    Raises:
        RltrainError: the run could not begin; the folder is as it was.
    """
    settings = with_opponents(settings, kept_in=run_dir)
    if settings.ranks is not None:
        from rltrain.hardware.ddp.ranks import torchrun_ranks

        if torchrun_ranks()[0] > 0:  # another process of torchrun writes the files of this run
            return Result(run_dir, exit_code=run_rank(settings, run_dir, resume=resume))
    if not resume:
        advice = run_folder.NEW_FOLDER if job is None else run_folder.OF_SWEEP
        run_folder.require_new(run_dir, advice)
        if settings.run.dataset.write is not None:
            require_free(absolute_path(settings.run.dataset.write))
    unseen = loud and not settings.logger.console and job is None
    loud = loud and settings.logger.console
    screen = Screen(quiet=not loud)
    name = None if job is None else job.name
    interrupts, handled = interrupts or Interrupts(), interrupts is not None
    handler = nullcontext() if handled else handling(interrupts.handle)
    with ExitStack() as stack, train_log(screen, name) as keep_log, handler:
        live = screen.is_terminal and job is None
        display = LivePanel(screen, settings.title) if live else PlainLines(screen, name)
        loggers = Loggers(
            [
                JsonLines(run_dir / "metrics.jsonl"),
                TrainLog(),
                *build_loggers(settings, run_dir),
                *([display] if loud else []),
            ]
        )
        record = run_folder.Record(run_dir, settings)
        if resume:
            stack.enter_context(run_folder.run_lock(run_dir))
            checkpoint.restore_replaced(run_dir / "checkpoints")
            keep_log(run_dir)
        trainer = built(settings, run_dir, loggers, [record, *callbacks])
        try:
            record.initialize(trainer.rollout.about)
            origin = (restore if resume else initialize)(trainer, settings)
            if not resume:
                with refused_writes(run_dir):
                    stack.enter_context(run_folder.new_run(run_dir, files or {}))
                    keep_log(run_dir)
            interrupts.follow(trainer)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            code = interrupts.exit_code if stopped else find_exit_code(error)
            status = "interrupted" if stopped else "failed"
            run_folder.leave(record.path, os.getpid(), status=status, exit_code=code)
            trainer.close()
            raise
        with recorded(trainer, record, loggers, interrupts):
            with refused_writes(run_dir, run_folder.COPY if resume else OTHER_FOLDER):
                record.begin(trainer)
            if job is None:
                screen.print(banner(settings, trainer, record.facts["plan"], origin))
            else:
                screen.lines(job_line(settings, trainer, job))
            warn(warnings(settings, trainer))
            if loud:
                display.follow(trainer)
            gc.freeze()  # what there is by now stays to the end of the run: it is not garbage
            if train is None:
                trainer.train()
            else:
                yield from train(trainer)
        failed = record.facts["status"] == "failed"
        ending = Screen(stderr=True) if unseen and failed else screen
        ending.lines(conclusion(settings, trainer, record.facts, job))
    return Result(run_dir, dict(trainer.latest), record.facts["exit_code"], record.error)


run_training = to_its_end(training)


@contextmanager
def recorded(
    trainer: Trainer, record: run_folder.Record, loggers: Loggers, interrupts: Interrupts
) -> Iterator[None]:
    """Context that records how training ends, and what went wrong, and closes trainer and loggers;
    no exception leaves it.
    """
    code, status = 0, "finished"
    try:
        yield
    except KeyboardInterrupt:
        trainer.stop("KeyboardInterrupt", interrupted=True)
    except BaseException as error:  # SystemExit too: the run has ended, and its record says how
        code, status, record.error = find_exit_code(error), "failed", error
        log.error("%s", traceback.format_exc())
        record.facts["error"] = failure(error)
    finally:
        gc.unfreeze()  # the process may continue, and shall not keep what this run leaves
    if trainer.interrupted:
        code, status = interrupts.exit_code, "interrupted"
    ended = {"status": status, "exit_code": code, "finished": run_folder.now()}
    tests = {name: record.facts[f"{name}_test"] for name in ("final", "best")}
    record.write(trainer, **ended)  # also if this process does not outlive what is closed
    with ExitStack() as closed:
        closed.callback(record.write, trainer, **ended)  # CPU time of what was closed
        closed.callback(trainer.close)
        loggers.close({"status": status, **tests})


def driven_trainer(settings: Settings, run_dir: Path) -> Trainer:
    """A trainer to drive by hand. One whose folder holds a run must be restored first."""
    settings = with_opponents(settings, kept_in=run_dir)
    loggers = Loggers([JsonLines(run_dir / "metrics.jsonl")])
    trainer = built(settings, run_dir, loggers, [run_folder.Journal(run_dir, settings)])
    with closed_on_error("a trainer", [trainer]):
        if run_folder.holds_run(run_dir):
            trainer.stage = Stage.OCCUPIED
            # else another process writes there
            with suppress(UsageError), run_folder.run_lock(run_dir):
                checkpoint.restore_replaced(run_dir / "checkpoints")
        else:
            require_empty(run_dir, "a run", "Choose another run_dir.")
        warn(warnings(settings, trainer))
        initialize(trainer, settings)
        run_dir.mkdir(parents=True, exist_ok=True)
    return trainer


def built(
    settings: Settings,
    run_dir: Path,
    loggers: Loggers | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """A trainer, with what its parts refuse put as a usage error, and the order of agents of what
    it will resume from: a checkpoint of its own folder, or that of ``checkpoint=``.
    """
    set_allocator_policy()
    run, checkpoints = settings.run, run_dir / "checkpoints"
    if (newest := checkpoint.newest_full(checkpoints)) is not None:
        settings = ordered_as_saved(settings, checkpoints / str(newest))
    elif run.checkpoint is not None and run.mode == "train":
        source = find_checkpoint(run.checkpoint, run.load_step)
        settings = ordered_as_saved(settings, source.folder)
    build: Callable[..., Trainer] = build_trainer
    if run.dataset.read is not None and settings.ranks is None:
        from rltrain.assemble.offline import build_offline_trainer

        build = build_offline_trainer
    with usage_errors(), TorchRandom():
        return build(settings, run_dir, loggers or Loggers([]), callbacks)


def initialize(trainer: Trainer, settings: Settings) -> str | None:
    """Load the weights that ``checkpoint=`` names; returns which were taken."""
    if settings.run.checkpoint is None:
        return None
    source = find_checkpoint(settings.run.checkpoint, settings.run.load_step)
    trainer.load_weights(source.folder)
    warn(source.remarks + other_rules(source.folder, trainer.rollout.about))
    return f"{source.folder} (env step {source.step:,}): {restart_note(trainer, settings)}"


def restore(trainer: Trainer, settings: Settings) -> str | None:
    """Continue from the newest valid checkpoint, with warnings of what is not as it was; a run that
    was ended before its first one starts again, from what it started from.
    """
    if trainer.on_first_rank(lambda: has_begun(trainer.run_dir, settings)):
        warn(trainer.restore(trainer.run_dir).remarks)
        steps, total = trainer.clock.env_steps, trainer.total_env_steps
        if total <= steps:
            log.warning(f"the run has {steps:,} env steps: nothing is trained up to {total:,}")
        return None
    return initialize(trainer, settings)


def has_begun(run_dir: Path, settings: Settings) -> bool:
    """Whether a run has anything to resume from; the folder of one that has not is cleared.

    Raises:
        CheckpointError: it cannot start again, since it began with imported weights.
        UsageError: it cannot, since there is a dataset where it would write one.
    """
    if checkpoint.resumable(run_dir / "checkpoints"):
        return True
    if "imported" in json_object(run_dir / "run.json"):
        raise CheckpointError(
            f"{run_dir} should have imported weights, but has no checkpoint to resume "
            "from. Delete it, and run the command with mode=import again."
        )
    log.warning("the run had no checkpoint to resume from: it starts again at env step 0.")
    run_folder.clear_folder(run_dir, settings)
    return False


def run_rank(settings: Settings, run_dir: Path, *, resume: bool) -> int:
    """Learn with the process that writes the files of the run; returns the exit code."""
    log.setLevel(logging.ERROR)  # the first process has the same to say
    interrupts, code = Interrupts(), 0
    with handling(interrupts.handle):
        try:
            trainer = built(settings, run_dir)
        except UsageError:
            time.sleep(ALIKE)
            raise
        try:
            (restore if resume else initialize)(trainer, settings)
            interrupts.follow(trainer)
            trainer.train()
        except KeyboardInterrupt:
            trainer.stop("KeyboardInterrupt", interrupted=True)
        except Exception as error:
            if not interrupts.trainers:
                time.sleep(ALIKE)
                raise
            code = find_exit_code(error)
            log.error("%s", error)
        finally:
            trainer.close()
        return interrupts.exit_code if interrupts.caught else code
