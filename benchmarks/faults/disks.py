"""Full disks: a run in file systems of 40 sizes, some with too few inodes, a read-only one, and a
folder that is deleted during the run.

Training continues while a file cannot be written, the previous checkpoint stays complete, and with
free space again the resumed run reaches the weights and replay of a run without faults. Without a
final checkpoint the exit code is 1, without a run folder 2. No traceback is shown.

Needs the right to mount file systems.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.faults.cuts import Cut
from benchmarks.faults.runs import SMALL, begin, last_lines, result_of, warm_up
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError

RUN = ["logger=[csv,wandb]", *SMALL]
LARGEST = 3200  # KiB: enough for three checkpoints
SIZES = [f"size={LARGEST * n // 40}k" for n in range(1, 41)]
INODES = [f"nr_inodes={n}" for n in range(4, 64, 6)]
N_DELETED = 10
MOST_LINES = 12


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All file systems, then the deleted folders."""
    rng = random.Random(seed)
    warm_up(folder)
    plain, listed = folder / "plain", folder / "changes.txt"
    hook = Cut(plain, None, listed=listed)
    begin([*RUN, f"hydra.run.dir={plain}"], folder / "plain.txt", hook).join()
    expected = result_of(plain)
    for option in [*SIZES, *INODES, "ro"][:n_cases]:
        disk = folder / "disk"
        disk.mkdir(exist_ok=True)
        mount(disk, "-t", "tmpfs", "-o", option, "tmpfs")
        try:
            yield option, full_disk(disk, expected, folder / "output.txt")
        finally:
            subprocess.run(["umount", disk], check=True)
    n_changes = len(listed.read_text(encoding="utf-8").splitlines())
    for at in sorted(rng.sample(range(5, n_changes), n_cases or N_DELETED)):
        yield f"deleted at change {at}", deleted(folder / "deleted", at, folder / "output.txt")


def full_disk(disk: Path, expected: dict[str, str], output: Path) -> str | None:
    """What is wrong with a run on a disk that may be too small; or None."""
    output.unlink(missing_ok=True)
    run_dir = disk / "run"
    process = begin([*RUN, f"hydra.run.dir={run_dir}"], output)
    process.join()
    if problem := unclear(process.exitcode, output):
        return problem
    for step in checkpoint.list_steps(run_dir / "checkpoints"):
        try:
            checkpoint.single(run_dir / "checkpoints" / str(step))
        except CheckpointError as error:
            return f"checkpoint {step} is not whole: {error}"
    if process.exitcode == 2:
        return None
    mount(disk, "-o", "remount,size=64m,nr_inodes=10k")
    resumed = begin([f"resume={run_dir}"], output)
    resumed.join()
    if resumed.exitcode != 0:
        return f"the resumed run ends with {resumed.exitcode}: {last_lines(output)}"
    found = result_of(run_dir)
    differ = {k for k in expected | found if expected.get(k) != found.get(k)} - {"metrics.jsonl"}
    return f"{sorted(differ)} differ" if differ else None


def deleted(run_dir: Path, at: int, output: Path) -> str | None:
    """What is wrong with the end of a run whose folder is deleted at a change; or None."""
    output.unlink(missing_ok=True)
    process = begin([*RUN, f"hydra.run.dir={run_dir}"], output, Deletion(run_dir, at))
    process.join()
    if run_dir.exists():
        names = sorted(path.name for path in run_dir.iterdir())
        shutil.rmtree(run_dir)
        return f"the folder is there again: {names}"
    return unclear(process.exitcode, output)


class Deletion(Cut):
    """Deletes the folder at a change in it."""

    def act(self, path: str, arguments: tuple[Any, ...]) -> None:
        shutil.rmtree(self.folder)


def unclear(code: int | None, output: Path) -> str | None:
    """What is wrong with how a command ended; or None."""
    text = output.read_text(encoding="utf-8")
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in text or len(text.splitlines()) > MOST_LINES:
        return f"exit code {code}, {len(text.splitlines())} lines: {last_lines(output)}"
    return None


def mount(disk: Path, *options: str) -> None:
    """Mount a file system, or change one."""
    subprocess.run(["mount", *options, disk], check=True)
