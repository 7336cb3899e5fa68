"""Worker processes: time limits, groups, and their end."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rltrain.env.smac.starcraft2.games import Crash, GameProcess
from rltrain.env.smac.vector import SmacVectorEnv
from tests.env.smac.starcraft2.conftest import step
from tests.env.smac.starcraft2.stand_in import HANG, RAISE, STOP
from tests.imports import imported


def test_hanging_game_times_out_and_can_be_killed(installed: Path) -> None:
    recipe = SmacVectorEnv(
        map_name="3m", n_envs=1, backend="sc2", replay_prefix="faults"
    ).battles.recipe
    game = GameProcess(recipe, 0)
    assert game.receive(time.monotonic() + 60)[0] == "ready"
    game.send("reset")
    assert game.receive(time.monotonic() + 60)[0] == "frame"
    game.send("step", [HANG, STOP, STOP])
    with pytest.raises(Crash, match="did not answer in time"):
        game.receive(time.monotonic() + 0.05)
    pid = game.process.pid
    game.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_restarts_leave_no_file_open(env: SmacVectorEnv) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        step(env, [RAISE, STOP, STOP], [RAISE, STOP, STOP])
    assert len(os.listdir("/proc/self/fd")) == before


def test_worker_has_its_own_process_group(env: SmacVectorEnv) -> None:
    pids = [options["pid"] for options in env.call("get_options")]
    assert [os.getpgid(pid) for pid in pids] == pids


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's pidfd")
def test_worker_ends_when_its_parent_is_killed(installed: Path) -> None:
    code = (
        "import numpy\nfrom rltrain.env.smac.vector import SmacVectorEnv\n"
        "env = SmacVectorEnv(map_name='3m', n_envs=1, backend='sc2', replay_prefix='faults')\n"
        "env.reset(lambda e, k: k)\n"
        "print(env.call('get_options')[0]['pid'], flush=True)\n"
        f"env.step(numpy.array([[{HANG}, {STOP}, {STOP}]]))\n"
    )
    paths = os.pathsep.join([str(installed / "python"), *filter(None, sys.path)])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
    )
    worker = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    assert select.select([worker], [], [], 20)[0]
    os.close(worker)


@pytest.mark.slow
def test_the_process_of_a_game_imports_neither_torch_nor_numba() -> None:
    code = "import rltrain.env.smac.starcraft2.worker"
    assert imported(code, "torch", "numba", "gymnasium", "rltrain.types") == []
