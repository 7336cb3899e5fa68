"""Tests in worker processes: the results of this process, beside unchanged training."""

from contextlib import closing

import pytest

import rltrain
from rltrain.mode.evaluate import evaluate
from tests.hardware.process.test_process_rollout import SMALL
from tests.helpers import json_lines, require_same

WORDS = [w for w in SMALL if not w.startswith("test.")]
WORDS += ["env=cartpole", "test.episodes=5", "test.interval=100", "test.n_envs=3"]
WORDS += ["log.interval=40", "save.interval=100", "logger.wandb.mode=disabled"]
WORDS += ["total_env_steps=300"]
APART = ["test.n_workers=2"]


def run(overrides, folder):
    """The rows of a whole run."""
    with closing(rltrain.make_trainer(overrides, run_dir=folder)) as trainer:
        trainer.train()
    return rows_of(folder)


def rows_of(folder):
    """The rows of metrics, without what depends on time; those of tests apart."""
    rows = json_lines(folder / "metrics.jsonl")
    rows = [{k: v for k, v in r.items() if k[:5] not in ("time/", "secon")} for r in rows]
    tests = [r for r in rows if "test/return_mean" in r]
    tests = [{k: r[k] for k in r if k.startswith("test/") or k == "env_steps"} for r in tests]
    return [r for r in rows if "test/return_mean" not in r], tests


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["test.epsilon=0"],
        ["test.epsilon=0.5"],
        ["algo.network.normalize_obs=true"],
        ["algo.network._target_=tests.hardware.process.networks.hooked"],
    ],
    ids=lambda more: more[0].rpartition(".")[2],
)
def test_tests_in_workers_give_the_results_of_this_process(tmp_path, more):
    words = [*WORDS, *more]
    local = run(words, tmp_path / "local")
    assert run([*words, *APART], tmp_path / "apart") == local
    assert len(local[1]) == 4
    order = [row["env_steps"] for row in json_lines(tmp_path / "apart/metrics.jsonl")]
    assert order == sorted(order)
    best = [(tmp_path / x / "checkpoints" / "best").read_text() for x in ("local", "apart")]
    assert best[0] == best[1]


@pytest.mark.slow
def test_the_best_weights_are_those_that_were_tested(tmp_path):
    saved = []
    for name, more in (("local", []), ("apart", APART)):
        words = [*WORDS, "log.interval=1000", "save.interval=100000", *more]
        trainer = rltrain.make_trainer(words, run_dir=tmp_path / name)
        trainer.start()
        trainer.run(150)
        trainer.tests.finish()
        assert trainer.clock.env_steps > 140
        trainer.close()
        best = (tmp_path / name / "checkpoints" / "best").read_text().strip()
        saved.append((tmp_path / name / "checkpoints" / best / "model.safetensors").read_bytes())
    assert int(best) < 110
    assert saved[0] == saved[1]


@pytest.mark.slow
def test_a_checkpoint_made_while_a_test_is_played_continues_with_it(tmp_path):
    whole = rltrain.make_trainer([*WORDS, *APART], run_dir=tmp_path / "whole")
    whole.train()
    part = rltrain.make_trainer([*WORDS, *APART], run_dir=tmp_path / "part")
    part.start()
    part.run(100)
    assert part.tests.pending.clock.env_steps == part.clock.env_steps  # its test has just begun
    part.save()
    part.close()
    again = rltrain.make_trainer(WORDS, run_dir=tmp_path / "part")  # tests in this process
    again.restore(tmp_path / "part")
    again.train()
    assert rows_of(tmp_path / "part") == rows_of(tmp_path / "whole")
    states = [{"l": t.learner.state_dict(), "b": t.buffer.state_dict()} for t in (whole, again)]
    require_same(*states)
    whole.close()
    again.close()


@pytest.mark.slow
def test_evaluation_in_workers_gives_the_same_episodes(tmp_path):
    run(WORDS, tmp_path / "run")
    words = ["test.n_envs=3", "test.epsilon=0.3", "test.episodes=7"]
    here, apart = (evaluate(tmp_path / "run", words + more, None).record for more in ([], APART))
    assert (here["episodes"], len(here["episodes"])) == (apart["episodes"], 7)
