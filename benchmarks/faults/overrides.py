"""Malformed overrides: refused in at most six lines with exit code 2, in under two seconds, without
writing anything; for a key with one letter wrong, the message names the right one.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from rltrain.errors import RltrainError
from rltrain.main import run

N_TYPOS, N_VALUES = 700, 300
N_COMMANDS = 50
"""Hand-written overrides that are also passed to the command, each in its own process."""
SECONDS = 2.0
BASE = ["algo=dqn", "env=cartpole"]
ALPHABET = string.ascii_lowercase + "_"
VALUES = (
    "",
    "abc",
    "-1",
    "1e400",
    "nan",
    "[",
    "{a: 1}",
    "[1,2]",
    "null",
    "true",
    "'",
    "é",
    "../..",
)
ABSENT = ("checkpoint=nowhere", "resume=nowhere", "config=nowhere")
"""Missing runs, with exit code 3."""
LONGEST = 10_000
LONG = ("", "seed=\n", "x" * LONGEST, "seed=" + "9" * LONGEST, "algo=" + "a" * LONGEST)
ROOT = Path(__file__).parents[2]
HAND_WRITTEN = Path(__file__).parents[1] / "data" / "faults" / "malformed_overrides.txt"
"""Common mistakes, with ``algo=dqn env=cartpole`` unless they choose others."""


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """The hand-written overrides, then typos of keys and wrong values that are drawn."""
    rng = random.Random(seed)
    keys = [key for key, value in flat_keys(compose_checked(BASE).plain).items() if "." in key]
    with contextlib.chdir(folder):
        written = HAND_WRITTEN.read_text(encoding="utf-8").splitlines()
        for word in [*written, *LONG][:n_cases]:
            yield shortened(word), refused(folder, word)
            clear(folder)
        most = N_COMMANDS if n_cases is None else min(n_cases, N_COMMANDS)
        for word in random.Random(seed).sample(written, most):
            yield f"rltrain {shortened(word)}", refused_by_command(folder, word)
            clear(folder)
        for _ in range(N_TYPOS if n_cases is None else n_cases):
            key = rng.choice(keys)
            typo = edited(key, rng)
            if typo not in keys:
                yield f"{key} as {typo}", refused(folder, f"{typo}=1", asks_for=key)
        for _ in range(N_VALUES if n_cases is None else n_cases):
            word = f"{rng.choice(keys)}={rng.choice(VALUES)}"
            yield word, refused(folder, word, may_pass=True)


def refused(
    folder: Path, word: str, asks_for: str | None = None, *, may_pass: bool = False
) -> str | None:
    """What is wrong with how an override is answered, or None.

    Args:
        asks_for: the key that the answer must name.
        may_pass: it may be valid after all.
    """
    begun, shown = time.monotonic(), io.StringIO()
    words = beside(word)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            if may_pass:
                check(words)
                return None
            code = run([*words, "total_env_steps=1"] if "total_env" not in word else words)
        return f"accepted (exit code {code})"
    except RltrainError as error:
        text, code = str(error), error.exit_code
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun
    if problem := unlike_promise(folder, word, code, text, seconds):
        return problem
    if asks_for is not None and asks_for.rpartition(".")[2] not in text:
        return f"does not name {asks_for}: {text}"
    return None


def refused_by_command(folder: Path, word: str) -> str | None:
    """The same of the command itself, whose seconds are those of the CPU."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "rltrain", *beside(word)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    now = os.times()
    seconds = now.children_user + now.children_system
    seconds -= before.children_user + before.children_system
    return unlike_promise(folder, word, done.returncode, done.stdout, seconds)


def beside(word: str) -> list[str]:
    """An override beside those of ``BASE`` that it does not replace."""
    return [w for w in BASE if w.partition("=")[0] != word.partition("=")[0]] + [word]


def unlike_promise(folder: Path, word: str, code: int, text: str, seconds: float) -> str | None:
    """What is wrong with an answer, or None."""
    if code != (3 if word in ABSENT else 2):
        return f"exit code {code}"
    if len(text.splitlines()) > 6:
        return f"{len(text.splitlines())} lines"
    if seconds > SECONDS:
        return f"{seconds:.1f} s"
    if list(folder.iterdir()):
        return f"{[path.name for path in folder.iterdir()]} was written"
    return None


def clear(folder: Path) -> None:
    """Remove what an accepted override has written."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check(words: list[str]) -> None:
    """Compose and validate."""

    compose_checked(words).settings()


def edited(key: str, rng: random.Random) -> str:
    """A key with one letter of its last name left out, put in, replaced or exchanged."""
    path, _, name = key.rpartition(".")
    i, kind = rng.randrange(len(name)), rng.choice(("drop", "add", "replace", "swap"))
    if kind == "drop" and len(name) > 1:
        name = name[:i] + name[i + 1 :]
    elif kind == "swap" and i + 1 < len(name):
        name = name[:i] + name[i + 1] + name[i] + name[i + 2 :]
    else:
        name = name[:i] + rng.choice(ALPHABET) + name[i + (kind == "replace") :]
    return f"{path}.{name}"


def shortened(word: str) -> str:
    """An override as a name of its case."""
    return word if len(word) < 80 else f"{word[:20]}… ({len(word):,} characters)"
