"""Errors that a user can fix, each kind with its exit code."""

from __future__ import annotations

import difflib
import errno
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move the cursor, color or reorder text, or that no encoding has."""


def printable(text: str) -> str:
    r"""Text for a terminal: control characters except tabs and line ends as ``\x1b`` and so on."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape(record: logging.LogRecord) -> bool:
    """Make a log record ``printable`` for all handlers."""
    with suppress(TypeError, ValueError):  # of arguments that do not fit
        record.msg, record.args = printable(record.getMessage()), ()
    if record.exc_info:
        record.exc_text = printable(logging.Formatter().formatException(record.exc_info))
    return True


logging.getLogger("rltrain").addFilter(escape)


class RltrainError(Exception):
    """One clear paragraph: what was wrong, expected, got, what to type; as printable text."""

    exit_code = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class UsageError(RltrainError):
    """A wrong command or configuration; nothing was written."""

    exit_code = 2


class FolderError(UsageError):
    """A folder that cannot be used now: it cannot be written, or another process holds it."""


SIGNAL_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGUSR1": 85}
"""Exit codes of commands that a signal has ended."""


class NamesError(UsageError):
    """Names in a command that do not exist, a line for each, or several values for one."""


LACKS_MEMORY = re.compile("(?i)out of memory|allocate memory|DefaultCPUAllocator|ALLOC_FAILED")
"""Messages of PyTorch, whose errors of the CPU have no class of their own."""


def memory_problem(error: BaseException) -> str | None:
    """The message about an error that means too little memory, whoever raised it; else None."""
    known = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    if not known and not (isinstance(error, RuntimeError) and LACKS_MEMORY.search(str(error))):
        return None
    return (
        f"There is not enough memory ({reason(error).splitlines()[0]}). Lower what takes it: "
        "hardware.n_envs, algo.batch_size, buffer.capacity, or the size of the network "
        "(algo.network.hidden_dim or algo.network.hidden_sizes)."
    )


def joined_notes(error: BaseException) -> str:
    """The notes that were added to an exception, in parentheses, the first line of each."""
    return "".join(f" ({note.splitlines()[0]})" for note in getattr(error, "__notes__", ()))


@contextmanager
def memory_errors(kind: type[RltrainError] = RltrainError) -> Iterator[None]:
    """Context that turns an error that means too little memory into one of ``kind``."""
    try:
        yield
    except Exception as error:
        if problem := memory_problem(error):
            raise kind(problem + joined_notes(error)) from error
        raise


@contextmanager
def usage_errors() -> Iterator[None]:
    """Context that turns a part's ``ValueError``, and what is too large, into a UsageError.

    Raises:
        UsageError: in place of these.
    """
    try:
        with memory_errors(UsageError):
            yield
    except ValueError as error:
        raise UsageError(str(error)) from error
    except (RuntimeError, TypeError) as error:  # of PyTorch
        if not re.search("(?i)overflow|cannot be represented", str(error)):
            raise
        problem = str(error).splitlines()[0]
        raise UsageError(f"A number of this configuration is too large: {problem}.") from error


class CheckpointError(RltrainError):
    """A checkpoint or run folder that cannot be trusted or read."""

    exit_code = 3


class RemovedError(CheckpointError):
    """A checkpoint that was removed between its choice and its use."""


class DatasetError(RltrainError):
    """A dataset that cannot be trusted or read."""

    exit_code = 3


class StorageError(RltrainError):
    """Files of a run cannot be written, and it ends."""


UNWRITABLE = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS
"""Errors of disks that are full or read-only."""
FORBIDDEN = errno.EACCES, errno.EPERM, errno.EIO, errno.EISDIR, errno.ENOTDIR
"""Errors of reading, too: files of other users, failing disks, folders for files."""


@contextmanager
def storage_errors(what: object = None) -> Iterator[None]:
    """Context that turns an ``OSError`` into a StorageError.

    Args:
        what: the files that are written; None: the one that the error names, which may have been
            read, and only errors of ``UNWRITABLE`` and ``FORBIDDEN``.

    Raises:
        StorageError: in place of the ``OSError``.
    """
    try:
        yield
    except OSError as error:
        if what is None and error.errno in FORBIDDEN:
            file = error.filename or "A file"
            raise StorageError(f"{file} cannot be read or written: {error.strerror}.") from error
        if what is None and error.errno not in UNWRITABLE:
            raise
        raise StorageError(
            f"{what or error.filename or 'A file'} cannot be written: {error.strerror or error}. "
            "Free disk space, or choose a writable place, then run the command again."
        ) from error


def is_of_machine(error: BaseException) -> bool:
    """Whether an error comes from the machine or the moment and not from the configuration, so that
    the same command may succeed later.
    """
    if isinstance(error, OSError):
        return error.errno in UNWRITABLE + FORBIDDEN
    return isinstance(error, (StorageError, FolderError))


class FullDiskError(StorageError):
    """The steps of a buffer do not fit on the disk; the last checkpoint is kept."""

    exit_code = 4


class EnvError(RltrainError):
    """The environment or a worker is broken beyond the retry budget."""

    exit_code = 4


class DivergedError(RltrainError):
    """Learning diverged; the last good checkpoint is kept."""

    exit_code = 5


class NotTypedError(UsageError):
    """Keys that a file sets, and that count only where they are typed."""

    def __init__(self, file: object, overrides: Sequence[str]) -> None:
        self.file, self.overrides = file, overrides
        super().__init__(f"{self.reason} Pass them as well: overrides={list(overrides)}")

    @property
    def reason(self) -> str:
        """The problem, without the advice."""
        keys = ", ".join(override.partition("=")[0] for override in self.overrides)
        return (
            f"{self.file} sets {keys}, which can reach outside the run (a path, an address, or a "
            "key of any form) and is not taken from a file."
        )


STOPS = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that end a program at the user's wish; all others are the environment's failure."""


class Containment:
    """Context of code that is not ours: what would end the program becomes an ``EnvError``. A lack
    of memory stays one, with a note of where it was.

    Args:
        method: of the environment, in which any error becomes one.
        message: of the ``EnvError`` that any error becomes, another one as well.
    """

    def __init__(
        self, method: str = "", message: Callable[[BaseException], str] | None = None
    ) -> None:
        self.passed = STOPS if message else (EnvError if method else Exception, *STOPS)
        where = f" in {method}()" if method else ""
        self.message = message or (lambda error: f"The environment failed{where}: {reason(error)}")

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, self.passed):
            return
        if memory_problem(error) is None:
            raise EnvError(self.message(error)) from error
        if not hasattr(error, "__notes__"):
            error.add_note(f"the environment itself may take it: {self.message(error)}")


def described(error: BaseException) -> str:
    """An exception's type and message."""
    said = ""
    with suppress(Exception):  # of an argument that cannot be printed
        said = str(error).rstrip()
    return type(error).__name__ + (f": {said}" if said not in ("", "None") else "")


def reason(error: BaseException) -> str:
    """An exception of code that is not ours: its type and message."""
    ends = "" if isinstance(error, Exception) else " (it would have ended the program)"
    return described(error) + ends


def failure(error: BaseException) -> str:
    """The text about an exception that ended a run."""
    if isinstance(error.__cause__, StopIteration):  # Python replaces it in a generator
        error = error.__cause__
    return (memory_problem(error) or described(error)) + joined_notes(error)


def find_exit_code(error: BaseException) -> int:
    """The exit code of the command that ``error`` ends."""
    return error.exit_code if isinstance(error, RltrainError) else 1


def require_n_envs(what: str, n_saved: int, n_envs: int) -> None:
    """Refuse what was saved with a different number of environments.

    Raises:
        ValueError: both numbers, and what to type.
    """
    if n_saved != n_envs:
        raise ValueError(
            f"The saved {what} has {n_saved} environments, this run has {n_envs}: set "
            f"hardware.n_envs={n_saved}."
        )


class Interrupted(Exception):
    """A test was left because the run is to end."""


def normal(name: str) -> str:
    """A name without case and separators, for comparing."""
    return "".join(c for c in name.lower() if c.isalnum())


def one_edit(a: str, b: str) -> bool:
    """Whether one inserted, missing, wrong or swapped character makes ``a`` of ``b``."""
    if abs(len(a) - len(b)) > 1:
        return False
    i = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    if a[i + 1 :] == b[i + 1 :] or a[i:] == b[i + 1 :] or a[i + 1 :] == b[i:]:
        return True
    return a[i : i + 2] == b[i : i + 2][::-1] and a[i + 2 :] == b[i + 2 :]


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Known names that ``name`` may have been meant as, nearest first.

    The same except for case and separators, else those one edit away, else those that look alike.
    """
    names, typed, plain = list(known), name.lower(), normal(name)
    same = [k for k in names if normal(k) == plain]
    near = [k for k in names if min(len(k), len(name)) > 1 and one_edit(k.lower(), typed)]
    lower: dict[str, str] = {k.lower(): k for k in reversed(names)}
    alike = difflib.get_close_matches(typed, list(lower), n=n, cutoff=0.6)
    return (same or near or [lower[k] for k in alike])[:n]


def held(name: str, known: Iterable[str]) -> list[str]:
    """The longest known name inside of ``name``, if any is: pong of PongNoFrameskip-v4."""
    plain = normal(name)
    return sorted((k for k in known if len(k) > 3 and normal(k) in plain), key=len)[-1:]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'qmix'?`` for the nearest known name, or nothing."""
    near = closest(name, known, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
