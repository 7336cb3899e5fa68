"""Several processes learn what one learns from their batches together."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from rltrain.errors import UsageError
from rltrain.types import Clock
from tests.hardware.ddp.learning import CASES, batch_of, learn, learner_of, results
from tests.helpers import json_lines, record_of

ROOT = Path(__file__).parents[3]
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
SMALL = [
    *("algo=dqn", "env=cartpole", "tuned=none", "hardware=ddp", "hardware.threads=1"),
    *("hardware.n_envs=4", "algo.learning_starts=64", "algo.batch_size=8", "buffer.capacity=1000"),
    *("algo.network.hidden_sizes=[16]", "test.episodes=2", "logger.wandb.mode=disabled"),
    *("test.interval=1000000", "log.interval=200"),
]


def torchrun(n, *words, cwd, **options):
    """The processes of torchrun with these arguments."""
    environ = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.Popen(
        [*command, f"--nproc-per-node={n}", *map(str, words)],
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def ran(n, words, folder):
    """The record of the only run in a folder, after processes of torchrun that succeeded."""
    assert torchrun(n, "-m", "rltrain", *words, cwd=folder).wait(300) == 0
    return record_of(run_in(folder))


def run_in(folder):
    (config,) = (path for path in folder.rglob("config.json") if "checkpoints" not in path.parts)
    return config.parent


def failed(words, folder):
    """What two processes write on standard error that fail."""
    parent = torchrun(2, "-m", "rltrain", *words, cwd=folder, stderr=subprocess.PIPE)
    _, error = parent.communicate(timeout=200)
    assert parent.returncode != 0
    return error


@pytest.mark.parametrize("algo", CASES)
def test_the_gradient_is_that_of_all_batches_together(algo):
    dtype, parts = torch.float64, []
    other = learner_of(algo, dtype)
    other.gradient_step.sum_over_ranks = lambda whole: parts.append(whole.clone())
    other.update(batch_of(algo, 0, dtype, 1, 2), Clock())
    weights, gradient = learn(algo, dtype, 1, lambda whole: whole.add_(parts[0]), 0, 2)
    whole, of_whole = learn(algo, dtype, 1)
    np.testing.assert_allclose(gradient, of_whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(weights, whole, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path):
    assert torchrun(2, "-m", "tests.hardware.ddp.learning", tmp_path, cwd=ROOT).wait(300) == 0
    first, second = (dict(np.load(tmp_path / f"{rank}.npz")) for rank in (0, 1))
    for name, one in results().items():
        np.testing.assert_array_equal(first[name], second[name])
        within = 1e-10 if name.endswith("weights") else 1e-5
        np.testing.assert_allclose(first[name], one, rtol=0, atol=within)


@pytest.mark.slow
def test_what_all_processes_refuse_is_said_once(tmp_path):
    """Recommended settings normalize observations, which no several processes do together."""
    error = failed(["algo=dqn", "env=cartpole", "hardware=ddp", *SMALL[5:]], tmp_path)
    assert error.count(b"Type algo.network.normalize_obs=false.") == 1
    assert not (tmp_path / "outputs").exists()


def test_another_process_waits_before_it_says_what_it_refuses(monkeypatch, tmp_path):
    from rltrain.mode import train

    def refuse(*parts):
        raise UsageError("refused")

    waited = []
    monkeypatch.setattr(train, "log", logging.getLogger("another process"))
    monkeypatch.setattr(train, "built", refuse)
    monkeypatch.setattr("time.sleep", waited.append)
    with pytest.raises(UsageError, match="refused"):
        train.run_rank(None, tmp_path, resume=False)
    assert waited == [train.ALIKE]


def await_until(reached, parent):
    """Wait until ``reached()``, while torchrun runs."""
    until = time.monotonic() + 300
    while not reached():
        assert parent.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def rows(folder):
    lines = [line for path in folder.glob("outputs/*/*/metrics.jsonl") for line in path.open()]
    return [json.loads(line) for line in lines if line.endswith("}\n")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends them")
@pytest.mark.parametrize("learning", [False, True], ids=["starting", "learning"])
def test_without_torchrun_no_process_is_left(tmp_path, learning):
    """Once they learn, they save first."""
    words = [*SMALL, "total_env_steps=10_000_000"]
    parent = torchrun(2, "-m", "rltrain", *words, cwd=tmp_path)
    try:
        await_until(lambda: any(tmp_path.glob("outputs/*/*/config.json")), parent)
        if learning:
            await_until(lambda: len(rows(tmp_path)) >= 3, parent)
        ranks = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
    assert not psutil.wait_procs(ranks, timeout=30)[1]
    if learning:
        run_dir = run_in(tmp_path)
        assert record_of(run_dir)["status"] == "interrupted"
        assert (run_dir / "checkpoints" / "latest").exists()


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["1", "0"])
def test_the_end_of_one_process_ends_all_with_a_checkpoint(tmp_path, rank):
    """The first one can save nothing when it is killed: what it saved before is left."""
    words = [*SMALL, "total_env_steps=10_000_000"]
    words += ["save.interval=400"] if rank == "0" else []
    parent = torchrun(2, "-m", "rltrain", *words, cwd=tmp_path)
    try:
        awaited = "checkpoints/latest" if rank == "0" else "metrics.jsonl"
        await_until(
            lambda: any(tmp_path.glob(f"outputs/*/*/{awaited}")) and len(rows(tmp_path)) >= 3,
            parent,
        )
        ranks = {p.environ()["RANK"]: p for p in psutil.Process(parent.pid).children()}
        ranks[rank].send_signal(signal.SIGKILL)
        began = time.monotonic()
        assert parent.wait(30) != 0
        assert time.monotonic() - began < 30
        assert not any(p.is_running() for p in ranks.values())
    finally:
        parent.kill()
    run_dir = run_in(tmp_path)
    status = record_of(run_dir)["status"]
    assert status in (["running"] if rank == "0" else ["failed", "interrupted"])
    saved = int((run_dir / "checkpoints" / "latest").read_text())
    assert saved >= 400
    after = ran(1, [f"resume={run_dir}", f"total_env_steps={saved + 500}"], tmp_path)
    assert after["status"] == "finished"
    assert after["env_steps"] >= saved + 500
    assert after["updates"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("saved", [True, False], ids=["continues", "starts again"])
def test_two_processes_resume_a_run_together(tmp_path, saved):
    """Defect: both cleared the folder, and deleted what the other one was writing."""
    run_dir = tmp_path / "run"
    words = [*SMALL, "buffer=prioritized", "hydra.run.dir=run", "total_env_steps=400"]
    before, checkpoints = ran(2, words, tmp_path), run_dir / "checkpoints"
    (checkpoints / ".latest.7").touch()
    if saved:  # killed while it was replaced
        (checkpoints / str(before["env_steps"])).rename(
            checkpoints / f".tmp-{before['env_steps']}-replaced"
        )
    else:
        for folder in checkpoints.glob("[0-9]*"):
            shutil.rmtree(folder)
    after = ran(2, ["resume=run", "total_env_steps=800"], tmp_path)
    assert after["status"] == "finished"
    assert 800 <= after["env_steps"] < 900
    assert after["updates"] > (before["updates"] if saved else 0)
    steps = [row["env_steps"] for row in json_lines(run_dir / "metrics.jsonl")]
    assert steps == sorted(steps)
    assert not list(checkpoints.glob(".*"))


@pytest.mark.slow
def test_a_resumed_run_that_has_reached_its_metric_trains_no_further(tmp_path):
    before = ran(2, [*SMALL, "hydra.run.dir=run", "total_env_steps=400"], tmp_path)
    stop = ["stop.metric=test/return_mean", "stop.mode=max", "stop.value=1"]
    after = ran(2, ["resume=run", "total_env_steps=800", *stop], tmp_path)
    assert after["status"] == "finished"
    assert (after["env_steps"], after["updates"]) == (before["env_steps"], before["updates"])


@pytest.mark.slow
def test_processes_with_agents_in_another_order_do_not_learn_together(tmp_path):
    """Defect: the first agent of one process was another one in the next, without a word."""
    (tmp_path / "mixed.py").write_text(
        "import os\n"
        "from tests.integration.named_order import NamedOrder\n"
        "class Mixed(NamedOrder):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.possible_agents = self.possible_agents[:: 1 - 2 * int(os.environ['RANK'])]\n"
    )
    words = ["algo=vdn", "env=pettingzoo", "env.id=mixed:Mixed", "hardware=ddp", "test.episodes=2"]
    words += ["hardware.n_envs=4", "total_env_steps=100", "logger.wandb.mode=disabled"]
    assert b"agents a, b, c, d, in another one d, c, b, a" in failed(words, tmp_path)
    status = record_of(run_in(tmp_path))
    assert status["status"] == "failed"
    assert "PYTHONHASHSEED=0" in status["error"]


STUBS = {
    "torchrun": f'exec {sys.executable} -m torch.distributed.run --standalone "$@" $MORE\n',
    "scontrol": 'echo "$@" >> requeued\n',
}


@pytest.mark.slow
def test_the_requeue_script_of_the_docs(tmp_path):
    """Asked to end, the job is requeued; continued by the same script and finished, it is not."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", page, re.DOTALL)
    script = script.replace("--nproc-per-node=4", "--nproc-per-node=2")
    script = script.replace("algo=qmix env=smac hardware=ddp", " ".join(SMALL))
    (tmp_path / "bin").mkdir()
    for name, text in STUBS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (tmp_path / "bin" / name).chmod(0o755)
    environ = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    environ |= {"PATH": f"{tmp_path}/bin:{environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environ |= {"SLURM_JOB_ID": "7"}

    def job(total):
        environ["MORE"] = f"total_env_steps={total}"
        return subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environ)

    run_dir, first = tmp_path / "outputs" / "several-learners", job(10_000_000)
    log = run_dir / "metrics.jsonl"
    await_until(lambda: log.exists() and log.read_text(encoding="utf-8").count("\n") > 3, first)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    status = record_of(run_dir)
    assert (status["status"], status["exit_code"]) == ("interrupted", 143)
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
    assert job(status["env_steps"] + 300).wait(120) == 0
    ended = record_of(run_dir)
    assert ended["status"] == "finished"
    assert ended["env_steps"] >= status["env_steps"] + 300
    assert ended["updates"] > status["updates"] > 0
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
