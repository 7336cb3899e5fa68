"""Damage to one file of the newest checkpoint: the checkpoint is named and skipped, and the
previous one is used. If all are damaged, nothing is loaded or overwritten.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.runs import SMALL, digests
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError
from rltrain.main import run

WHOLE_COMMANDS = 20
"""After this many cases, the command itself is run on the damaged run."""


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """64 kinds of damage to each file, alone and with all other checkpoints damaged."""
    rng = random.Random(seed)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert run([*SMALL, "hydra.run.dir=run"]) == 0
    steps = checkpoint.list_steps(folder / "run" / "checkpoints")
    newest, older = (folder / "run" / "checkpoints" / str(step) for step in steps[:2])
    todo = [
        (file.name, name, damage)
        for file in sorted(newest.iterdir())
        for name, damage in damages(file, older / file.name, rng)
    ]
    for i, (file, name, damage) in enumerate(todo[:n_cases]):
        copy = folder / "damaged"
        shutil.copytree(folder / "run", copy)
        path = copy / "checkpoints" / newest.name / file
        before = path.read_bytes()
        damage(path)
        same = path.is_file() and not path.is_symlink() and path.read_bytes() == before
        if not same:  # zeros may have been there already
            problem = passed_over(copy, steps, by_command=i % WHOLE_COMMANDS == 0)
            yield f"{file}: {name}", problem
        shutil.rmtree(copy)


def passed_over(copy: Path, steps: list[int], *, by_command: bool) -> str | None:
    """What is wrong with how a run with a damaged newest checkpoint is continued, or None."""
    try:
        found = checkpoint.find(copy, full=True)
    except CheckpointError as error:
        return f"the checkpoint before it was not taken: {error}"
    if found.step != steps[1] or str(steps[0]) not in " ".join(found.remarks):
        return f"took {found.step} with the remarks {found.remarks}"
    if not by_command:
        return None
    for step in steps[1:]:
        (copy / "checkpoints" / str(step) / "model.safetensors").write_bytes(b"")
    before = digests(copy)
    try:
        code = run([f"resume={copy}"])
        return f"all checkpoints are damaged, and resume= ends with {code}"
    except CheckpointError as error:
        if error.exit_code != 3:
            return f"exit code {error.exit_code}"
    return None if digests(copy) == before else "files of the run were changed"


def damages(
    file: Path, older: Path, rng: random.Random
) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """64 kinds of damage to a file, by name."""
    size = file.stat().st_size
    for _ in range(32):
        at, bit = rng.randrange(size), rng.randrange(8)
        yield f"bit {bit} of byte {at} flipped", lambda p, at=at, bit=bit: flip(p, at, bit)
    for _ in range(12):
        at = rng.randrange(size)
        yield f"512 bytes from {at} zeroed", lambda p, at=at: put(p, at, bytes(min(512, size - at)))
    for keep in (0, 1, size // 4, size // 2, size - 8, size - 1):
        yield f"cut to {keep} bytes", lambda p, keep=keep: p.write_bytes(p.read_bytes()[:keep])
    for length in (0, 2**31, 2**62, 2**63 - 1, 2**64 - 1):
        header = length.to_bytes(8, "little")
        yield f"{length} in the first 8 bytes", lambda p, header=header: put(p, 0, header)
    yield "one byte longer", lambda p: p.write_bytes(p.read_bytes() + b"\0")
    yield "twice as long", lambda p: p.write_bytes(p.read_bytes() * 2)
    yield "random bytes", lambda p: p.write_bytes(rng.randbytes(size))
    yield "missing", Path.unlink
    yield "a folder", lambda p: (p.unlink(), p.mkdir())
    yield "a link to the same contents", lambda p: link(p, file)
    yield "a link to a device", lambda p: link(p, Path("/dev/zero"))
    yield "a link to nothing", lambda p: link(p, Path("/nowhere"))
    other = older if older.is_file() and older.read_bytes() != file.read_bytes() else Path(__file__)
    yield "another checkpoint's", lambda p: shutil.copy(other, p)


def flip(path: Path, at: int, bit: int) -> None:
    """Flip a bit."""
    put(path, at, bytes([path.read_bytes()[at] ^ 1 << bit]))


def put(path: Path, at: int, data: bytes) -> None:
    """Write over bytes."""
    old = path.read_bytes()
    path.write_bytes(old[:at] + data + old[at + len(data) :])


def link(path: Path, target: Path) -> None:
    """Replace a file by a link."""
    path.unlink()
    path.symlink_to(target)
