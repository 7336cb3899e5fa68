"""The command ``rltrain``: flags, ``--help`` and other questions, messages and exit codes.

Slow imports are made where they are needed: ``--help`` needs no torch, a wrong flag no hydra
either.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import FrameType

import rltrain
from rltrain.common.imports import import_path
from rltrain.common.machine.places import require_places
from rltrain.common.machine.streams import keep_streams, lost_output, say
from rltrain.config.catalog import SHIPPED, Catalog
from rltrain.config.command_line import CommandLine, read, shell_word
from rltrain.errors import (
    SIGNAL_CODES,
    NamesError,
    NotTypedError,
    RltrainError,
    UsageError,
    memory_errors,
    storage_errors,
)


def main() -> None:
    """Console entry: exits with the codes of the contract."""
    keep_streams()
    if logging.lastResort is not None:  # shows the warnings of commands without a ``train.log``
        logging.lastResort.setFormatter(logging.Formatter("warning: %(message)s"))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        if signal.getsignal(number) is signal.SIG_DFL:  # not ignored, as nohup does
            signal.signal(number, leave)
    with suppress(FileNotFoundError):  # the current folder was deleted
        os.environ.update(import_path())  # for every process that this one starts
    try:
        sys.exit(run(sys.argv[1:]))
    except RltrainError as error:
        say(f"rltrain: {error}{in_one(error, sys.argv[1:])}", error=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt as stopped:
        sys.exit(next(iter(stopped.args), 130))


def leave(number: int, frame: FrameType | None) -> None:
    """End the command as Ctrl-C does, so that nothing half-written and no process is left."""
    raise KeyboardInterrupt(SIGNAL_CODES[signal.Signals(number).name])


def run(arguments: Sequence[str]) -> int:
    """Carry out a command; returns the exit code.

    Raises:
        RltrainError: with the exit code in it.
    """
    line = read(arguments)
    if line.asks:
        answer(line, arguments)
        return answered()
    require_places()
    if "mode=list" in line.overrides:
        from rltrain.mode.list import show

        flags = [f"--{switch}" for switch in line.switches]
        others = [override for override in line.overrides if override != "mode=list"]
        show([*flags, *others], catalog_for(line))
        return answered()
    require_overrides(line, arguments)
    from rltrain.mode.dispatch import dispatch

    try:
        with storage_errors(), memory_errors():
            return dispatch(line.overrides, multirun="multirun" in line.switches)
    except NotTypedError as error:
        command = " ".join(map(shell_word, ["rltrain", *arguments, *error.overrides]))
        raise UsageError(f"{error.reason} Type it all, if you know it:\n  {command}") from error


def in_one(error: RltrainError, arguments: Sequence[str]) -> str:
    """The command with all names as they are here, where several were wrong and all are known."""
    one_name = re.match(r"Unknown key|[^\n]*: unknown", str(error)) and "\n" not in str(error)
    if not isinstance(error, NamesError) or one_name:
        return ""
    from rltrain.config.compose import refusal
    from rltrain.config.suggest.translate import translated

    line = read(arguments)
    try:
        catalog = catalog_for(line)
    except RltrainError:  # the custom configuration is wrong too
        return ""
    sweep = ["-m"] if "multirun" in line.switches else []
    done = translated([*sweep, *line.overrides], catalog, partial(refusal, catalog, []))
    known = all(" (" in text for text in done.left_out)  # with the reason
    return f"\nIn one command:\n  {done}" if known and not done.refused else ""


def answered() -> int:
    """The exit code of a command that only prints: 141 if its reader has gone.

    Raises:
        RltrainError: standard output cannot be written.
    """
    failure = lost_output()
    if failure is None:
        return 0
    if isinstance(failure, BrokenPipeError):
        return 141
    raise RltrainError(f"Standard output cannot be written: {failure.strerror}.") from failure


def answer(line: CommandLine, arguments: Sequence[str]) -> None:
    """Print the answer to ``--help``, ``--version``, ``--cfg``, ``--info`` or a completion."""
    if line.asks == "version":
        say(f"rltrain {rltrain.__version__}")
    elif line.asks == "help":
        from rltrain.config.show.help import help_text

        say(help_text(line.overrides, catalog_for(line)))
    elif line.asks == "completion":
        from rltrain.config.show.completion import complete

        separator = "\n" if "query=fish" in line.overrides else " "
        typed, words = os.environ.get("COMP_LINE", "rltrain "), list[str]()
        with suppress(RltrainError):  # of an unfinished line
            words = complete(typed, catalog_for(read(typed.split())))
        say(separator.join(words))
    elif line.asks == "hydra":
        from rltrain.config.show.configuration import ask_hydra

        ask_hydra(arguments)
    else:
        require_overrides(line, arguments)
        require_new_run(line.overrides)
        from rltrain.config.compose import compose_checked
        from rltrain.config.show.configuration import config_text

        package, resolve = line.values.get("package"), "resolve" in line.switches
        for title, overrides in list_jobs(line).items():
            composed = compose_checked(overrides)
            composed.settings()
            say(title + config_text(composed, package, resolve=resolve), end="")


def list_jobs(line: CommandLine) -> dict[str, Sequence[str]]:
    """The overrides of each job of a command, by a comment that names the job where -m was typed.

    Raises:
        UsageError: several values for a key without -m, or -m without several values.
    """
    from rltrain.config.overrides import require_one_value, swept_paths

    if "multirun" not in line.switches:
        require_one_value(line.overrides)
        return {"": line.overrides}
    from rltrain.config.hydra_sweep import job_overrides

    jobs = job_overrides([swept_paths(text) for text in line.overrides])
    return {f"# job {i}: {' '.join(job)}\n": job for i, job in enumerate(jobs)}


def require_new_run(overrides: Sequence[str]) -> None:
    """Refuse to show the configuration of a run that would be loaded.

    Raises:
        UsageError: what shows it.
    """
    from rltrain.config.overrides import typed_value
    from rltrain.config.validate.mode_keys import LOADED

    path, mode = typed_value(overrides, "resume"), typed_value(overrides, "mode")
    if path is None and mode in LOADED:
        path = typed_value(overrides, "checkpoint")
    if path is not None:
        raise UsageError(
            f"--cfg shows the configuration of a new run, and {path} has its own: config.json in "
            "its folder. Type --cfg job config=RUN_FOLDER."
        )


def require_overrides(line: CommandLine, arguments: Sequence[str]) -> None:
    """Refuse overrides that are not ``key=value``.

    Raises:
        UsageError: the command to type instead.
    """
    from rltrain.config.overrides import is_strange

    if any(map(is_strange, line.overrides)):
        from rltrain.config.compose import refusal
        from rltrain.config.suggest.translate import command_problem

        catalog = catalog_for(line)
        raise UsageError(command_problem(arguments, catalog, partial(refusal, catalog, [])))


def catalog_for(line: CommandLine) -> Catalog:
    """Return the groups and keys that this command can choose from."""
    if not line.own:
        return SHIPPED
    from rltrain.config.overrides import parse
    from rltrain.config.user_yaml import own_catalog

    return own_catalog(parse(line.own))


if __name__ == "__main__":
    main()
