"""What several tests use: a short training, comparisons, a callback to name in a configuration."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import rltrain
from rltrain.callback import Callback, Callbacks
from rltrain.common.checkpoint.run_checkpoints import put_manifest
from rltrain.common.files import digest
from rltrain.errors import RltrainError
from rltrain.main import run


class Failing(Callback):
    """Raises in the first iteration."""

    def on_iteration(self, trainer, value=None):
        raise ZeroDivisionError("on purpose")


class Terminated(Callback):
    """What a machine does that wants its cores back, once the run has made 100 env steps."""

    def on_iteration(self, trainer, value=None):
        if trainer.clock.env_steps >= 100:
            os.kill(os.getpid(), signal.SIGTERM)


class Penalty(Callback):
    """Lowers every reward by 100."""

    def on_collect(self, trainer, value):
        value.reward[:] -= 100
        return value


def without(words, *starts):
    """The overrides that do not begin so."""
    return [word for word in words if not word.startswith(starts)]


def over(base, *more):
    """Overrides over others, of which those of the same keys are left out."""
    keys = {word.lstrip("+~").partition("=")[0] for word in more}
    return [*(word for word in base if word.partition("=")[0] not in keys), *more]


def said(captured):
    """What was printed, without frames and line breaks."""
    return " ".join("".join(captured.readouterr()).replace("│", " ").split())


def trained(overrides, folder, until=150):
    """A trainer after so many env steps."""
    trainer = rltrain.make_trainer(overrides, run_dir=folder)
    trainer.start()
    trainer.run(until)
    return trainer


def three_iterations(trainer, test_episodes=0):
    """Collect three times and test; the trainer is closed then."""
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    if test_episodes:
        trainer.test(episodes=test_episodes)
    trainer.close()


def weights(trainer):
    """All of the online network, flat."""
    return torch.cat([p.detach().flatten() for p in trainer.learner.online.parameters()])


def leaves(tree, path=""):
    """Every value of nested containers by its path."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from leaves(value, f"{path}.{name}")
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, tree


def same(one, other):
    """Whether two values are equal to the last bit; NaN equals NaN."""
    if not isinstance(one, float) and not hasattr(one, "__array__"):
        return type(one) is type(other) and one == other
    ours, theirs = np.asarray(one), np.asarray(other)
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def require_same(one, other):
    """The same values in nested containers, to the last bit."""
    one, other = dict(leaves(one)), dict(leaves(other))
    missing = sorted(one.keys() ^ other.keys())
    differing = [path for path in one.keys() & other.keys() if not same(one[path], other[path])]
    assert not missing, missing[:6]
    assert not differing, f"{len(differing)} of {len(one)} values differ: {sorted(differing)[:6]}"


def require_same_steps(one, other, actions):
    """Two vector environments show and return the same from here on."""

    def shown(env):
        return env.obs, env.avail_actions, env.state, env.last, list(env.infos)

    np.testing.assert_equal(shown(one), shown(other))
    for action in actions:
        np.testing.assert_equal(one.step(action), other.step(action))
        np.testing.assert_equal(shown(one), shown(other))


def contents(folder):
    """The bytes of every file below a folder; False for links and for all else."""
    return {
        path.relative_to(folder): path.is_file() and not path.is_symlink() and path.read_bytes()
        for path in folder.rglob("*")
    }


@contextmanager
def unchanged(folder):
    """What is done here changes no file below a folder."""
    before = contents(folder)
    yield
    assert contents(folder) == before


def sparse(path):
    """Make a file of 1 TB that takes no room."""
    path.touch()
    os.truncate(path, 1 << 40)


@contextmanager
def no_room(size):
    """Context on a disk that is full: no file gets larger than ``size`` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def full(*given, **options):
    """In place of what writes: the disk is full."""
    raise OSError(28, "No space left on device")


def read_only(*given, **options):
    """In place of what writes: the disk is read-only."""
    raise OSError(30, "Read-only file system")


def stopped(*given, **options):
    """In place of a function: Ctrl-C while it runs."""
    raise KeyboardInterrupt


def python(*words, **options):
    """A finished Python process of its own, with its output as text."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, **options)


def refused(*words, lines=1):
    """The paragraph, or the few lines, with which a command is refused."""
    with pytest.raises(RltrainError) as found:
        run(words)
    assert found.value.exit_code in (2, 3)
    assert str(found.value).count("\n") < lines
    return str(found.value)


def nothing_written(folder):
    """Whether a folder is empty."""
    return not list(folder.iterdir())


STARTING = ("pickle", "multiprocessing", "joblib", "runpy", "optuna")
"""Modules that processes import while they start."""


def foreign_modules(folder):
    """Put modules into a folder that hide those of a run; the path of a file that they make."""
    executed = folder / "executed"
    for name in ("rltrain/__init__", "numpy", "torch", "signal", "logging", "numba", *STARTING):
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(executed)!r}, 'a').write(__name__)")
    return executed


def forged(run_dir, without=None, **changes):
    """A run whose configuration was changed and whose manifests vouch for it."""
    for file in [run_dir / "config.json", *run_dir.glob("checkpoints/*/config.json")]:
        saved = {**json.loads(file.read_text()), **changes}
        saved.pop(without, None)
        file.write_text(json.dumps(saved))
        manifest = file.with_name("manifest.json")
        if manifest.exists():
            facts = json.loads(manifest.read_text())
            facts["files"]["config.json"] = {"bytes": file.stat().st_size, "sha256": digest(file)}
            put_manifest(manifest.parent, facts)


def data_rows(name):
    """The rows of a table in ``tests/data``: the section, and the sides of ``=>``."""
    text = Path(__file__).with_name("data").joinpath(name).read_text(encoding="utf-8")
    for part in text.split("\n[")[1:]:
        section, *lines = part.splitlines()
        yield from ((section.removesuffix("]"), *line.split(" => ")) for line in lines if line)


def record_of(run_dir):
    """The record of a run."""
    return json.loads((run_dir / "run.json").read_text(encoding="utf-8"))


def put_record(run_dir, **facts):
    """A run folder with this record, and nothing else if it is new."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "run.json").write_text(json.dumps(facts), encoding="utf-8")


def put_sweep(folder, *jobs):
    """A sweep that lists these jobs."""
    facts = {"config_sha256": "0", "n_jobs": 1, "started": "", "jobs": jobs}
    folder.mkdir()
    text = json.dumps({**facts, "overrides": ["seed=1"], "typed": ["seed=1"]})
    (folder / "sweep.json").write_text(text, encoding="utf-8")


@contextmanager
def changed_json(path):
    """The content of a JSON file, which is written again with what was changed in it."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    yield tree
    path.write_text(json.dumps(tree), encoding="utf-8")


def json_lines(path):
    """The values of the lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(trainer, name):
    """The rows of metrics that have this one."""
    return [row for row in json_lines(trainer.run_dir / "metrics.jsonl") if name in row]


class Trace(Callback):
    """Remembers every row that the trainer reports."""

    def __init__(self):
        self.tests, self.saves, self.updates = [], [], []

    def on_test_end(self, trainer, value):
        self.tests.append(trainer.clock.env_steps)
        return value

    def on_save(self, trainer, value):
        self.saves.append(trainer.clock.env_steps)
        return value


def traced(overrides, folder):
    trainer = rltrain.make_trainer(overrides, run_dir=folder)
    trace = Trace()
    trainer.callbacks = Callbacks([*trainer.callbacks.callbacks, trace])
    return trainer, trace
