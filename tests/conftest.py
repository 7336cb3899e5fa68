"""Tests run in folders of their own, with one torch thread and without wandb. This file imports
PyTorch and Hydra in fixtures only, since the process that hands out tests needs neither.
"""

import functools
import gc
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["WANDB_MODE"] = "disabled"
os.environ["WANDB_ERROR_REPORTING"] = "false"  # its telemetry would open connections
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # many processes read what one has compiled
os.environ.pop("MAKEFLAGS", None)  # of "make test PYTHON=…"

import pytest

from rltrain import main as entry

sys.dont_write_bytecode = False
ROOT = Path(__file__).parents[1]
SMALL = [
    *("env=two_step", "total_env_steps=150", "test.interval=50", "test.episodes=4"),
    *("test.n_envs=2", "save.interval=50", "log.interval=25", "algo.batch_size=8"),
    *("buffer.capacity=64", "algo.exploration.env_steps=75", "hardware.n_envs=3"),
    *("hardware.threads=1", "logger.console=false", "logger.wandb.mode=disabled"),
]
"""A whole run in less than a second."""
CARTPOLE = [
    *("env=cartpole", "tuned=none", "total_env_steps=60", "test.episodes=1"),
    *("algo.learning_starts=20", "hardware.n_envs=1", "hardware.threads=1", "log.interval=20"),
    *("logger.console=false", "logger.wandb.mode=disabled"),
]
"""A shorter one of a single agent."""


def pytest_configure(config):
    """Collecting makes hundreds of thousands of objects and no garbage. Tests make tens of
    thousands of files: in memory, where there is room.
    """
    gc.disable()
    if config.option.markexpr != "gpu":  # the others compare with the CPU's compiled code
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, obj):
    """Of functions that are slow, no tests are made that would be left out."""
    left_out = collector.config.option.markexpr == "not slow"
    if left_out and any(mark.name == "slow" for mark in getattr(obj, "pytestmark", ())):
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    """``rm`` needs a sixth of the time in which pytest removes the folders of all tests."""
    folder = session.config._tmp_path_factory._basetemp
    if folder is not None and exitstatus == pytest.ExitCode.OK:
        subprocess.run(["rm", "-rf", folder])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """``sampled(n)``: ``n`` of a test's fast parameters, evenly spaced, stay fast."""
    families = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            families.setdefault(item.function, []).append(item)
    for family in families.values():
        n = family[0].get_closest_marker("sampled").args[0]
        fast = {i * len(family) // n for i in range(n)}
        for i, item in enumerate(family):
            if i not in fast:
                item.add_marker("slow")


def pytest_collection_finish(session):
    """pytest attaches its handlers in every test to all loggers that do not propagate: torch has
    forty.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 100)  # whole collections read what was compiled since
    for name in [*logging.root.manager.loggerDict]:
        if name.startswith("torch"):
            logging.getLogger(name).propagate = True


@pytest.fixture(autouse=True, scope="session")
def folders(tmp_path_factory):
    """Paths of new folders, in one of this process. The one fixture of the session that is for all
    tests, as pytest asks for each of them in every test.
    """
    parent = tmp_path_factory.mktemp("tests")
    with pytest.MonkeyPatch.context() as patch:
        leave_out_what_takes_time(patch)
        yield (parent / f"test{number}" for number in itertools.count())


def leave_out_what_takes_time(patch):
    import torch
    from hydra._internal import defaults_list

    from rltrain.mode import run_folder

    # No test can cut the power, the only fault that fsync protects from; it costs a third of a
    # small run's time.
    patch.setattr(os, "fsync", lambda handle: None)

    # Hydra maps all choices for each file's defaults list, a quarter of a composition's time; only
    # interpolations are looked up there.
    make = defaults_list._create_interpolation_map

    def map_of(overrides, defaults, self_added):
        if any(not d.is_self() and d.is_interpolation() for d in defaults):
            return make(overrides, defaults, self_added)

    patch.setattr(defaults_list, "_create_interpolation_map", map_of)

    # A run unfreezes at its end also what was collected here, and garbage collections read it.
    unused = SimpleNamespace(freeze=lambda: None, unfreeze=lambda: None)
    patch.setattr("rltrain.mode.train.gc", unused)

    # Every run records the state of the working copy, in which git reads a thousand files.
    patch.setattr(run_folder, "git_state", functools.cache(run_folder.git_state))

    # Every worker process imports Numba and loads the games that it plays.
    preload = forkserver.set_forkserver_preload
    more = ["tests.hardware.process.preloaded"]
    patch.setattr(forkserver, "set_forkserver_preload", lambda names: preload([*names, *more]))

    # Without a GPU, PyTorch keeps each seed for the first one, and the stack of who set it.
    if not torch.cuda.is_available():
        for device in (torch.cuda, torch.xpu, torch.mtia):
            patch.setattr(device, "manual_seed_all", lambda seed: None)

    # Runs leave an empty learning_curve.png, also those of fixtures; test_curve.py draws it.
    path = "rltrain.logger.curve.draw"
    patch.setattr(path, lambda run_dir, title: (run_dir / "learning_curve.png").touch())


@pytest.fixture(autouse=True)
def tmp_path(folders):
    """The current folder; modules that were imported from it are forgotten. pytest's own also moves
    a symbolic link for every test, which takes longer than most do.
    """
    path = next(folders)
    path.mkdir()
    os.chdir(path)
    before = len(sys.modules)
    yield path
    os.chdir(ROOT)
    if watch := sys.modules.get("rltrain.kernels.module_watch"):
        watch.COMPILED.clear()  # trainers that are not yet collected are looked at by later ones
    for name, module in [*sys.modules.items()] if len(sys.modules) > before else ():
        if str(getattr(module, "__file__", None)).startswith(f"{path}{os.sep}"):
            del sys.modules[name]


@pytest.fixture
def own_folder(tmp_path):
    """The current folder."""
    return tmp_path


@pytest.fixture
def no_nohup():
    """SIGHUP and SIGINT as they are unless ``nohup`` or a background job runs the tests, which
    ignore them, as does then all that they start."""
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def figures_not_drawn(monkeypatch):
    """Reports are written without their figures."""
    monkeypatch.setattr("rltrain.mode.report.draw_all", lambda analysis, folder: [])


@pytest.fixture
def no_ffmpeg(monkeypatch, tmp_path):
    """Videos are written without ffmpeg."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)


@pytest.fixture
def command():
    """Run a command in this process; gives its exit code."""
    return lambda *overrides: entry.run(overrides)


@pytest.fixture
def exit_code(monkeypatch):
    """Run a command as a shell does; gives the exit code that it leaves with."""

    def left(*overrides):
        monkeypatch.setattr(sys, "argv", ["rltrain", *overrides])
        with pytest.raises(SystemExit) as caught:
            entry.main()
        return caught.value.code

    return left


@pytest.fixture
def small(request, single):
    """In fast tests with a fifth of the updates, which take half of its time."""
    slow = request.node.get_closest_marker("slow")
    return single if slow else ["algo.updates_per_episode=0.2", *single]


@pytest.fixture
def single():
    """The small run, also with a method for one agent: these count updates by env steps."""
    return list(SMALL)


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """A finished run, made once; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert entry.run(SMALL) == 0
    (run_dir,) = folder.glob("outputs/*-*/*")
    return run_dir


@pytest.fixture
def trained(trained_once, own_folder):
    run_dir = own_folder / "outputs" / trained_once.parent.name / trained_once.name
    shutil.copytree(trained_once, run_dir)
    return run_dir
