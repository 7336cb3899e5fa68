"""On a GPU: gradient steps are those of the CPU, also captured in CUDA graphs; runs are the same
again. ``pytest -m gpu`` runs these tests, which are skipped where there is no GPU.
"""

from contextlib import closing
from functools import partial

import pytest
import torch

import rltrain
from benchmarks.speed import gpu
from rltrain.kernels.cuda_graph import GraphedStep
from rltrain.mode.sweep import job
from rltrain.types import Clock
from tests.helpers import require_same

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
DRAWN = [f"algo={name}" for name in gpu.DRAWN]
RUN = [
    *("hardware=cuda", "total_env_steps=1200", "test.episodes=2", "test.n_envs=2"),
    *("test.interval=400", "save.interval=400", "logger=[]", "logger.console=false"),
    "save.replay_buffer=true",
]
RUNS = (
    "algo=rainbow env=cartpole algo.learning_starts=200",
    "algo=iqn env=cartpole algo.learning_starts=200",
    "algo=r2d2 env=cartpole algo.learning_starts=200",
    "algo=qmix env=two_step",
    "algo=qmix algo/network=lstm env=two_step",
)


@pytest.mark.parametrize("case", gpu.METHODS, ids=lambda case: " ".join(case.overrides))
def test_gradient_steps_are_those_of_the_cpu_and_of_graphs(case):
    found = gpu.compared(case)
    if case.overrides[0] not in DRAWN or "algo/network=conv" in case.overrides:
        assert found["gradient"] < 1e-4
    assert found["graph_gradient"] == found["graph_weights"] == 0
    assert found["again"]
    assert found["graph_again"]


def weights_of(folder):
    """The weights of a run's last checkpoint."""
    found = sorted(
        folder.glob("checkpoints/[0-9]*/model.safetensors"), key=lambda p: int(p.parts[-2])
    )
    return found[-1].read_bytes()


@pytest.mark.parametrize("overrides", RUNS)
def test_a_run_is_the_same_again_and_after_a_resume(overrides, tmp_path):
    given = [*RUN, *overrides.split()]
    for name in ("one", "two"):
        with closing(rltrain.make_trainer(given, run_dir=tmp_path / name)) as trainer:
            trainer.train()
    with closing(rltrain.make_trainer(given, run_dir=tmp_path / "three")) as trainer:
        trainer.start()
        trainer.run(800)
        trainer.save()
    with closing(rltrain.make_trainer(given, run_dir=tmp_path / "three")) as trainer:
        trainer.restore(tmp_path / "three")
        trainer.train()
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "two")
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "three")


@pytest.mark.parametrize("overrides", RUNS)
def test_runs_in_turns_are_those_that_are_alone(overrides, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "TURN", 0.0)
    given = [*RUN, *overrides.split()]
    folders = [tmp_path / "1", tmp_path / "2"]
    begin = [
        partial(job.run_job, 2, [*given, f"seed={folder.name}", f"hydra.run.dir={folder}"])
        for folder in folders
    ]
    assert job.run_in_turns([partial(run, job.train_in_turns) for run in begin]) == 0
    rltrain.train([*given, "seed=2", f"hydra.run.dir={tmp_path / 'alone'}"], progress=False)
    assert weights_of(folders[1]) == weights_of(tmp_path / "alone")


def test_what_a_callback_changes_is_in_the_next_step():
    case, results = gpu.METHODS[2], []
    for kernels in ("torch", "auto"):
        learner = gpu.learner_of(case, "cuda", kernels)
        for i in range(6):
            if i == 3:
                learner.loss.huber = 0.1
                learner.optimizer.param_groups[0]["lr"] = 0.1
            learner.update(gpu.on_gpu(gpu.random_batch(case, i)), Clock(i, 0, i))
        results.append(learner.gradient_step.weights.cpu())
    require_same({"weights": results[0]}, {"weights": results[1]})


def test_a_capture_that_breaks_off_leaves_random_numbers_and_weights_as_they_were(caplog):
    case = next(case for case in gpu.METHODS if case.overrides[0] == "algo=noisy")
    learner = gpu.learner_of(case, "cuda", "auto")
    loss, calls = learner.loss, []

    class Waits(type(loss)):
        def __call__(self, *args):
            calls.append(0)
            result = super().__call__(*args)
            if len(calls) == 3:  # after the warm-up
                result.loss_sum.item()
            return result

    loss.__class__ = Waits
    plain = gpu.learner_of(case, "cuda", "torch")
    weights = []
    for each in (learner, plain):
        torch.manual_seed(1)
        for i in range(4):
            each.update(gpu.on_gpu(gpu.random_batch(case, i)), Clock(i, 0, i))
        weights.append(each.gradient_step.weights)
    assert isinstance(learner.step.func, GraphedStep)
    assert "cannot be captured" in caplog.text
    assert torch.equal(*weights)
