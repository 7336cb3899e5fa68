"""The same kills, damage and malicious files for Stable-Baselines3 and EPyMARL, installed
elsewhere: ``python -m benchmarks.faults.peers sb3 --python PYTHON``, or ``epymarl
--python PYTHON --folder CHECKOUT``. The counts are written to
``benchmarks/data/peers/NAME.json``.

They make no promises, so the counts are of what happened: a killed run that continues from its last
checkpoint, and that ends with the weights of the run without a kill; damage that loading notices,
that changes nothing, or that changes the weights unnoticed; code in a checkpoint that is executed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.corruptions import damages
from rltrain.hardware.device import machine
from rltrain.mode.run_folder import git_state

COUNTS = Path(__file__).parents[1] / "data" / "peers"
UNSAFE = ("a link to a device", "a link to the same contents")
"""Damage that is left out: the one may never end, the other is none."""
VERSIONS = """
import importlib.metadata as m
for name in ('stable-baselines3', 'torch', 'gymnasium'):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
"""
SUM = """
import hashlib, sys, torch
found = hashlib.sha256()
for tensor in torch.load(sys.argv[1]).values(): found.update(tensor.numpy().tobytes())
print(found.hexdigest())
"""
EPYMARL = [
    *("--config=qmix", "--env-config=gymma", "with", "use_cuda=False", "seed=1"),
    "env_args.key=lbforaging:Foraging-5x5-2p-1f-v3",
    *("env_args.time_limit=10", "t_max=3000", "save_model=True", "save_model_interval=200"),
    *("batch_size=8", "buffer_size=64", "test_interval=1000", "test_nepisode=2"),
]


class Code:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


class StableBaselines:
    """Stable-Baselines3."""

    begun = "begun"

    def __init__(self, python: str, folder: Path | None) -> None:
        self.script = [python, str(Path(__file__).with_name("peer_sb3.py"))]

    def start(self, run: Path) -> subprocess.Popen[str]:
        """Train, or go on with a run."""
        run.mkdir(exist_ok=True)
        return started([*self.script, "train", str(run)])

    def final(self, run: Path, printed: str) -> str:
        """What identifies the weights at the end of a run."""
        return printed.split()[-1]

    def model(self, run: Path) -> Path:
        """The file with the weights of the last checkpoint."""
        return max(run.glob("run_[0-9]*_steps.zip"), key=lambda p: p.stat().st_mtime)

    def load(self, models: Path, run: Path) -> dict[str, str]:
        """Load models: the sums of their weights by name, or ``error``."""
        command = [*self.script, "load", str(models)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {line.split()[0]: line.split()[1] for line in lines.splitlines()}

    def hostile(self, model: Path, target: Path, marker: Path) -> None:
        """A model in which an object of the configuration is a pickle that makes a file."""
        code = base64.b64encode(pickle.dumps(Code(marker))).decode()
        with zipfile.ZipFile(model) as old, zipfile.ZipFile(target, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name == "data":
                    data = json.loads(content)
                    data["learning_rate"] = {":type:": "x", ":serialized:": code}
                    content = json.dumps(data).encode()
                new.writestr(name, content)


class Epymarl:
    """EPyMARL."""

    begun = "Beginning training"

    def __init__(self, python: str, folder: Path | None) -> None:
        assert folder is not None, "--folder is missing"
        self.python, self.folder = python, folder

    def start(self, run: Path, *more: str) -> subprocess.Popen[str]:
        """Train, or go on with the newest models of a run."""
        models = list(run.glob("models/*/[0-9]*"))
        if models and not more:
            newest = max(models, key=lambda p: int(p.name))
            more = (f"checkpoint_path={newest.parent}",)
        words = [*EPYMARL, f"local_results_path={run}", *more]
        return started([self.python, "-W", "ignore", "src/main.py", *words], self.folder)

    def final(self, run: Path, printed: str) -> str:
        """What identifies the weights at the end of a run."""
        command = [self.python, "-c", SUM, str(self.model(run))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def model(self, run: Path) -> Path:
        """The file with the weights of the last checkpoint."""
        latest = max((run / "models").iterdir(), key=lambda p: p.stat().st_mtime)
        return max(latest.glob("[0-9]*"), key=lambda p: int(p.name)) / "agent.th"

    def load(self, models: Path, run: Path) -> dict[str, str]:
        """Load models: the sums of their weights by name, or ``error``. Every tenth."""
        found, place = {}, self.model(run)
        whole = place.read_bytes()
        for path in sorted(models.iterdir())[::10]:
            place.write_bytes(path.read_bytes())
            more = (f"checkpoint_path={place.parents[1]}", "evaluate=True", "test_nepisode=1")
            process = self.start(run, *more)
            process.communicate()
            found[path.name] = self.final(run, "") if process.returncode == 0 else "error"
            place.write_bytes(whole)
        return found

    def hostile(self, model: Path, target: Path, marker: Path) -> None:
        """A file of weights that is a pickle that makes a file."""
        target.write_bytes(pickle.dumps(Code(marker)))


def started(command: Sequence[str], folder: Path | None = None) -> subprocess.Popen[str]:
    """Start a command."""
    out = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, text=True)


def await_begin(process: subprocess.Popen[str], begun: str) -> None:
    """Wait until a run begins to train, or ends."""
    assert process.stdout is not None
    for line in process.stdout:
        if begun in line:
            return


def kills(peer: Any, folder: Path, rng: random.Random, most: int) -> dict[str, int]:
    """Kill runs in the middle of their training, at random, and resume them."""
    seconds, sums = 0.0, []
    for name in ("plain", "again"):
        process = peer.start(folder / name)
        await_begin(process, peer.begun)
        begun = time.monotonic()
        sums.append(peer.final(folder / name, process.communicate()[0]))
        seconds = time.monotonic() - begun
    found = Counter({"kills": 0, "same seed, same weights": int(sums[0] == sums[1])})
    while found["kills"] < most:
        run = folder / f"killed-{found['kills']}"
        process = peer.start(run)
        await_begin(process, peer.begun)
        time.sleep(rng.uniform(0.25, 0.75) * seconds)  # after a checkpoint, before the last one
        if process.poll() is not None:  # it was faster this time
            shutil.rmtree(run)
            continue
        process.kill()
        process.communicate()
        found["kills"] += 1
        process = peer.start(run)
        printed = process.communicate()[0]
        found["went on"] += process.returncode == 0
        found["equal"] += process.returncode == 0 and peer.final(run, printed) == sums[0]
    return dict(found)


def damage(peer: Any, folder: Path, rng: random.Random) -> dict[str, int]:
    """Damage the weights of a checkpoint and load them."""
    run, models = folder / "plain", folder / "models"
    model = peer.model(run)
    models.mkdir()
    (models / "000").write_bytes(model.read_bytes())
    for n, (name, change) in enumerate(damages(model, model, rng), 1):
        copy = models / f"{n:03}"
        copy.write_bytes(model.read_bytes())
        if name not in UNSAFE:
            change(copy)
        if not copy.is_file() or name in UNSAFE or copy.read_bytes() == model.read_bytes():
            subprocess.run(["rm", "-rf", copy], check=True)
    loaded = peer.load(models, run)
    whole = loaded.pop("000")
    found = Counter({"damages": len(loaded), "noticed": 0, "loaded, same": 0, "loaded, other": 0})
    for result in loaded.values():
        same = "same" if result == whole else "other"
        found["noticed" if result == "error" else f"loaded, {same}"] += 1
    return dict(found)


def hostile(peer: Any, folder: Path) -> dict[str, int]:
    """Load a model with code in it."""
    models, marker = folder / "hostile", folder / "executed"
    models.mkdir()
    peer.hostile(peer.model(folder / "plain"), models / "000", marker)
    peer.load(models, folder / "plain")
    return {"hostile": 1, "executed": int(marker.exists())}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.peers")
    parser.add_argument("peer", choices=("sb3", "epymarl"))
    parser.add_argument("--python", required=True, help="the Python that has it")
    parser.add_argument("--folder", type=Path, help="the checkout of EPyMARL")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made = {"sb3": StableBaselines, "epymarl": Epymarl}[options.peer]
    peer, rng = made(options.python, options.folder), random.Random(options.seed)
    versions = subprocess.run([options.python, "-c", VERSIONS], capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        record = {
            "peer": options.peer,
            "seed": options.seed,
            "versions": dict(line.split() for line in versions.stdout.splitlines()),
            "commit": commit_of(options.folder),
            **kills(peer, folder, rng, options.kills),
            **damage(peer, folder, rng),
            **hostile(peer, folder),
            **git_state(),
            "machine": machine(),
        }
    COUNTS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1) + "\n"
    (COUNTS / f"{options.peer}.json").write_text(text, encoding="utf-8")
    print(text)
    return 0


def commit_of(folder: Path | None) -> str | None:
    """The commit of a checkout."""
    if folder is None:
        return None
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
