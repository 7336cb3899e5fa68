"""How a run starts: its parts, the weights or the checkpoint that it starts from, and the processes
that learn with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rltrain.assemble.agent_order import ordered_as_saved
from rltrain.assemble.offline import build_offline_trainer
from rltrain.assemble.trainer import build_trainer
from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.config.schema import Settings
from rltrain.errors import UsageError, exit_code_of, usage_errors
from rltrain.hardware.device import set_allocator_policy
from rltrain.logger.loggers import Loggers
from rltrain.mode.find_run import find_checkpoint
from rltrain.mode.messages.banner import restart_note
from rltrain.mode.run_folder import clear_folder, other_rules
from rltrain.mode.signals import Interrupts
from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
ALIKE = 10
"""Seconds for the first of several processes to say what all refuse; torchrun then ends the others.
"""


def built(
    settings: Settings,
    run_dir: Path,
    loggers: Loggers | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """A trainer, with what its parts refuse put as a usage error."""
    set_allocator_policy()
    settings = in_order(settings, run_dir)
    build: Callable[..., Trainer] = build_trainer
    if settings.run.dataset.read is not None:
        build = build_offline_trainer
    if settings.ranks is not None:
        from rltrain.assemble.ranks import build_rank_trainer

        build = build_rank_trainer
    with usage_errors():
        return build(settings, run_dir, loggers or Loggers([]), callbacks)


def in_order(settings: Settings, run_dir: Path) -> Settings:
    """The settings with the order of agents of what the trainer will go on from: a checkpoint of
    its own folder, or that of ``checkpoint=``.
    """
    newest = checkpoint.newest_full(run_dir / "checkpoints")
    if newest is not None:
        return ordered_as_saved(settings, run_dir / "checkpoints" / str(newest))
    if settings.run.checkpoint is None or settings.run.mode != "train":
        return settings
    source = find_checkpoint(settings.run.checkpoint, settings.run.load_step)
    return ordered_as_saved(settings, source.folder)


def initialize(trainer: Trainer, settings: Settings) -> str | None:
    """Load the weights that ``checkpoint=`` names; returns which were taken."""
    if settings.run.checkpoint is None:
        return None
    source = find_checkpoint(settings.run.checkpoint, settings.run.load_step)
    trainer.load_weights(source.folder)
    for remark in source.remarks + other_rules(source.folder, trainer.rollout.about):
        log.warning("%s", remark)
    return f"{source.folder} (env step {source.step:,}): {restart_note(trainer, settings)}"


def restore(trainer: Trainer, settings: Settings) -> str | None:
    """Continue from the newest valid checkpoint, with warnings of what is not as it was; a run that
    was ended before its first one starts again, from what it started from.
    """
    if checkpoint.resumable(trainer.run_dir / "checkpoints"):
        for remark in trainer.restore(trainer.run_dir).remarks:
            log.warning("%s", remark)
        return None
    log.warning("the run had no checkpoint to go on from: it starts again at env step 0.")
    clear_folder(trainer.run_dir, settings)
    return initialize(trainer, settings)


def other_rank(settings: Settings) -> bool:
    """Whether another process of torchrun writes the files of this run.

    Raises:
        UsageError: torchrun did not start this process.
    """
    if settings.ranks is None:
        return False
    from rltrain.assemble.ranks import is_first

    with usage_errors():
        return not is_first()


def run_rank(settings: Settings, run_dir: Path, *, resume: bool) -> int:
    """Learn with the process that writes the files of the run; returns the exit code.

    Raises:
        RltrainError: the run could not begin.
    """
    log.setLevel(logging.ERROR)  # the first process has the same to say
    with Interrupts() as interrupts:
        try:
            trainer = built(settings, run_dir)
        except UsageError:
            time.sleep(ALIKE)
            raise
        code = 0
        try:
            (restore if resume else initialize)(trainer, settings)
            interrupts.trainer = trainer
            trainer.train()
        except KeyboardInterrupt:
            trainer.stop("KeyboardInterrupt", interrupted=True)
        except Exception as error:
            if interrupts.trainer is None:
                raise
            code = exit_code_of(error)
            log.error("%s", error)
        finally:
            trainer.close()
        return interrupts.exit_code if trainer.interrupted else code
