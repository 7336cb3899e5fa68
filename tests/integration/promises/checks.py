"""One function for each promise, of a state and its finished run."""

import json
import multiprocessing
import os
import socket
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rltrain
from rltrain.config.python_objects import with_env
from rltrain.errors import UsageError
from rltrain.hardware.ddp.ranks import Ranks
from rltrain.mode.evaluate import evaluate, open_checkpoint
from rltrain.mode.export.network import written
from rltrain.types import Batch, Clock
from tests.helpers import leaves, require_same
from tests.integration.promises.states import ON_DISK, State, typed_words

PROCESS = ("hardware=process", "hardware.n_workers=2")
RAY = ("hardware=ray", "hardware.n_workers=2", "hardware.worker_cpus=1")
EXTRA = {
    "workers": PROCESS,
    "ray": RAY,
    "test_workers": ("test.n_workers=2",),
    "disk": (ON_DISK,),
    "ddp": ("hardware=ddp",),
}
"""What a promise adds to the overrides of a state."""
KERNELS = (
    ("hardware.kernels=compiled",),
    ("hardware.kernels=torch", "hardware.target_cache=null"),  # the cache is of compiled code
)
OF_WINDOWS = ("weight", "index", "hidden", "agent")
"""Fields of a batch whose first axis is that of windows; elsewhere it is the second."""
CLOCKS = ("seconds", "time/", ".replay.disk.blocks")
"""Metrics that differ between equal runs, and places of steps, whose checksums are compared."""
STORED = (".replay.steps.", ".replay.disk.")
"""What differs between a replay in memory and one on disk."""
STOP = 53
"""Env steps at which a run is stopped, amid its episodes."""


@dataclass(frozen=True)
class Whole:
    """The uninterrupted run of a state, still open."""

    trainer: Any
    folder: Path
    result: dict[str, Any]


def made(state: State, folder: Path, *more: str) -> Any:
    """A trainer; of keys given twice the later ones count."""
    typed = typed_words(*state.words, *more)
    places = {"{folder}": folder, "{dataset}": DATASET[0], "outputs/opponent": OPPONENT[0]}
    words = list(typed.values())
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    return rltrain.make_trainer(words, run_dir=folder / "run", env=state.env)


DATASET: list[Path | None] = [None]
"""The folder of ``dataset.read``, made by the fixture of the same name."""
OPPONENT: list[Path | None] = [None]
"""The run that opponents have their weights of, made in the same way."""


def whole_run(state: State, folder: Path) -> Whole:
    trainer = made(state, folder)
    trainer.train()
    assert trainer.clock.updates > 1
    return Whole(trainer, folder / "run", outcome(trainer, folder))


def outcome(trainer: Any, folder: Path) -> dict[str, Any]:
    """Every value of the learner, the replay, the metrics and the recorded dataset."""
    rows: dict[str, dict[str, Any]] = {}  # by env step: a test may be reported after its row
    for line in (trainer.run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows.setdefault(str(row["env_steps"]), {}).update(row)
    parts = {
        "learner": trainer.learner.state_dict(),
        "replay": trainer.buffer.state_dict(),
        "owed": trainer.update_ratio.owed,
        "metrics": rows,
        "test": {k: v for k, v in trainer.latest.items() if k.startswith("test/")},
        "files": [path.read_bytes() for path in sorted((folder / "data").glob("*.safetensors"))],
    }
    found = dict(leaves(parts))
    return {k: v for k, v in found.items() if not any(name in k for name in CLOCKS)}


def run_again(state: State, folder: Path, *more: str) -> dict[str, Any]:
    with closing(made(state, folder, *more)) as trainer:
        trainer.train()
        return outcome(trainer, folder)


def workers(state: State, whole: Whole, folder: Path) -> None:
    for n in (1, 2):
        more = (*PROCESS, f"hardware.n_workers={n}")
        require_same(whole.result, run_again(state, folder / str(n), *more))


def test_workers(state: State, whole: Whole, folder: Path) -> None:
    require_same(whole.result, run_again(state, folder, "test.n_workers=2"))


test_workers.__test__ = False  # type: ignore[attr-defined]  # not a test by itself


def ray(state: State, whole: Whole, folder: Path) -> None:
    if find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    require_same(whole.result, run_again(state, folder, *RAY))


def disk(state: State, whole: Whole, folder: Path) -> None:
    both = whole.result, run_again(state, folder, ON_DISK)
    require_same(*({k: v for k, v in o.items() if not k.startswith(STORED)} for o in both))


def resume(state: State, whole: Whole, folder: Path) -> None:
    first = made(state, folder)
    first.start()
    first.run(STOP)
    first.save()
    first.run(STOP + 10)  # lost by a kill
    first.close()
    with closing(made(state, folder)) as second:
        assert not second.restore(folder / "run").remarks
        second.train()
        require_same(whole.result, outcome(second, folder))


def handed(state: State) -> Any:
    return None if state.env is None else partial(with_env, env=state.env)


def played(state: State, whole: Whole, *words: str) -> Any:
    """Episodes of mode=evaluate with the last weights, as many as a test has."""
    return evaluate(whole.folder, words, None, handed(state))


def evaluate_(state: State, whole: Whole, folder: Path) -> None:
    n = whole.trainer.test_episodes
    episodes, again = whole.trainer.play(n), played(state, whole)
    assert [(e.episode_return, e.length) for e in episodes] == [
        (e.episode_return, e.length) for e in again.episodes
    ]
    if whole.trainer.test_function is None:
        last = {k: v for k, v in whole.trainer.latest.items() if k.startswith("test/")}
        assert last == {name: again.metrics[name] for name in last}


def export(state: State, whole: Whole, folder: Path) -> None:
    words = ("hardware.device=cpu", "hardware.kernels=torch")
    found, settings = open_checkpoint(whole.folder, words, None, plays=state.env is None)
    settings = settings if state.env is None else with_env(settings, state.env)
    folder.mkdir()
    record = written(settings, found, folder)
    assert record["compared_steps"] > 0
    assert record["largest_relative_difference"] < 1e-4


def learner_of(state: State, whole: Whole, *more: str) -> Any:
    """Another learner in the state of the run's."""
    typed = typed_words(*state.words, *more)
    kept = [
        w for k, w in typed.items() if not k.startswith(("env.", "dataset.", "test.", "callbacks"))
    ]
    kept = [w for w in kept if state.env is None or not w.startswith("env")]
    learner = rltrain.make_learner(kept, whole.trainer.test_rollout.env.spec)
    learner.load_state_dict(whole.trainer.learner.state_dict())
    return learner


def batches(whole: Whole, n: int = 2) -> list[Batch]:
    """Batches as the run would draw next."""
    trainer = whole.trainer
    size = trainer.batch_size - trainer.batch_size % 2
    return [trainer.buffer.sample(size, trainer.clock) for _ in range(n)]


def updated(learner: Any, found: list[Batch], clock: Clock, **share: int) -> dict[str, Any]:
    """The last gradient, the last priorities and the weights after these batches."""
    torch.manual_seed(0)  # noisy layers and quantile levels
    for i, batch in enumerate(found):
        own = share_of(batch, **share) if share else batch
        result = learner.update(own, replace(clock, updates=clock.updates + i))
    step = learner.gradient_step
    return {
        "gradient": step.flat.gradient.numpy().copy(),
        "weights": step.weights.numpy().copy(),
        "priority": result.priority.numpy().copy(),
        "loss": float(result.metrics["loss"]),
    }


def share_of(batch: Batch, rank: int, world_size: int) -> Batch:
    """One rank's windows of a batch."""
    n = len(batch.weight) // world_size
    own = slice(rank * n, (rank + 1) * n)
    tensors = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    parts = {
        name: x[own].clone() if name in OF_WINDOWS else x[:, own].clone()
        for name, x in tensors.items()
        if isinstance(x, torch.Tensor)
    }
    return Batch(**{**tensors, **parts})


def require_close(one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...]) -> None:
    """The same within rounding, measured by the largest value of each."""
    for name in names:
        ours, theirs = np.asarray(one[name]), np.asarray(other[name])
        scale = max(float(np.abs(theirs).max()), 1e-3)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * scale, err_msg=name)


def compiled(state: State, whole: Whole, folder: Path) -> None:
    found, clock = batches(whole), whole.trainer.clock
    both = [updated(learner_of(state, whole, *words), found, clock) for words in KERNELS]
    require_close(*both, names=("gradient", "priority", "loss", "weights"))
    returns = [
        [(e.episode_return, e.length) for e in played(state, whole, *words).episodes]
        for words in KERNELS
    ]
    assert returns[0] == returns[1]


def ddp(state: State, whole: Whole, folder: Path) -> None:
    found, clock = batches(whole), whole.trainer.clock
    plain = "hardware=auto"
    one = updated(learner_of(state, whole, plain), found, clock)
    context, port = multiprocessing.get_context("fork"), free_port()
    ends = [context.Pipe(False) for _ in range(2)]
    ranks = [
        context.Process(
            target=rank_of,
            args=(rank, port, learner_of(state, whole, plain), found, clock, ends[rank][1]),
        )
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    answers = [end.recv() if end.poll(60) else None for end, _ in ends]
    for process in ranks:
        process.kill()
        process.join()
    assert all(isinstance(answer, dict) for answer in answers), answers
    np.testing.assert_array_equal(answers[0]["weights"], answers[1]["weights"])
    require_close(answers[0], one, names=("gradient", "weights"))


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def rank_of(rank, port, learner, found: list[Batch], clock: Clock, answers) -> None:
    """The work of one of two processes that learn together, over gloo."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = Ranks(rank=rank, world_size=2, device=torch.device("cpu"), timeout=60)
    try:
        ranks.start()
        learner.gradient_step.sum_over_ranks = ranks.sum
        answers.send(updated(learner, found, clock, rank=rank, world_size=2))
        ranks.close()
    except BaseException as error:
        answers.send(repr(error))
    finally:
        os._exit(0)


def require_refused(state: State, promise: str, folder: Path, pattern: str) -> None:
    """The command of a promise is refused in these words."""
    if promise == "ray" and find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    with pytest.MonkeyPatch.context() as patch:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        for name, value in zip(names, ("0", "2", "0", "localhost", "1"), strict=True):
            patch.setenv(name, value)
        with pytest.raises(UsageError, match=pattern):
            made(state, folder, *EXTRA[promise])


OF_STATES = (workers, test_workers, ray, disk, resume, evaluate_, export, compiled, ddp)
CHECKS = {check.__name__.rstrip("_"): check for check in OF_STATES}
