"""The closing lines: result, what is kept, what to type next."""

import json
from types import SimpleNamespace

import pytest

from rltrain import callback
from rltrain.common import checkpoint
from rltrain.common.failures import Disk
from rltrain.logger.loggers import Loggers
from rltrain.mode.messages import closing
from rltrain.mode.messages.closing import closing_text, kept_text, next_commands, one_line, result
from rltrain.mode.run_folder import Record
from rltrain.types import Clock

LAST = {"env_steps": 300, "test/return_mean": 7.0, "test/win_rate": 0.25}
BEST = {"env_steps": 200, "test/return_mean": 8.0}
FACTS = {"status": "finished", "final_test": LAST, "best_test": BEST}


@pytest.fixture
def trainer(own_folder):
    about = {"config": {"hardware": {}, "test": {"episodes": 8}, "stop": {"metric": None}}}
    given = {"clock": Clock(300), "seconds": 75.0, "total_env_steps": 300, "stopping": None}
    tests = SimpleNamespace(env=SimpleNamespace(frames_per_second=5.0))
    return SimpleNamespace(**given, about=about, test_rollout=tests, run_dir=own_folder / "run")


def saved(folder, full=(), best=None):
    folder.mkdir(exist_ok=True)
    for step in full:
        checkpoint.write(folder / "checkpoints", step, {"model": {}}, "full")
    if best is not None:
        checkpoint.write(folder / "checkpoints", best, {"model": {}}, "weights")
        checkpoint.name_pointer(folder / "checkpoints", "best", best)


def logged(folder):
    (folder / "run").mkdir()
    (folder / "run/train.log").touch()


def ended(facts, trainer, trust):
    return closing_text(facts, trainer, next_commands(facts, trainer, trust))


def test_a_finished_run_ends_in_five_lines(trainer, own_folder):
    saved(own_folder / "run", full=[300], best=200)
    (own_folder / "run/learning_curve.png").touch()
    (own_folder / "run/wandb/offline-run-1").mkdir(parents=True)
    assert ended(FACTS, trainer, "mine").splitlines() == [
        "Finished at 300 env steps after 75 s. Last test: win rate 25% [7%, 59%], return 7.00. "
        "Best test, at 200 (load_step=best): return 8.00.",
        "  run/learning_curve.png",
        "  rltrain mode=watch checkpoint=run trust=[mine]",
        "  rltrain mode=evaluate checkpoint=run trust=[mine]",
        "  rltrain resume=run total_env_steps=600 trust=[mine]",
    ]


def test_the_result_of_a_test_has_the_interval_that_mode_evaluate_prints():
    test = {"test/return_mean": 7.0, "test/return_std": 2.0}
    assert closing.score_text(test, 5) == "return 7.00 [4.22, 9.78]"  # 2.776 · 2 / √4
    equal = {**test, "test/return_std": 0.0}
    assert closing.score_text(equal, 5) == "return 7.00 in every episode"
    assert closing.score_text(test) == closing.score_text(test, 1) == "return 7.00"
    assert closing.score_text({"custom/score": 1.0}, 5) == ""


def test_what_cannot_be_drawn_is_not_watched(trainer, own_folder):
    saved(own_folder / "run", full=[300])
    trainer.test_rollout.env.frames_per_second = None
    assert "mode=watch" not in ended(FACTS, trainer, None)
    game = SimpleNamespace(metadata={"render_modes": ["rgb_array"]})
    trainer.test_rollout.env.envs = [SimpleNamespace(env=game)]
    assert "mode=watch" in ended(FACTS, trainer, None)


WITHOUT = "overrides=['stop.metric=null', 'stop.value=null']"


@pytest.mark.parametrize(
    ("of", "trust", "command"),
    [
        ("4 processes", None, "torchrun --nproc-per-node=4 -m rltrain resume=run {}"),
        ("4 processes", "__main__", "rltrain.resume('run', total_env_steps=600, env=YOUR_CLASS)"),
        ("a notebook", "__main__", "rltrain.resume('run', total_env_steps=600, env=YOUR_CLASS)"),
        ("a metric", None, "rltrain resume=run stop.metric=null stop.value=null"),
        ("a metric", "__main__", f"rltrain.resume('run', {WITHOUT}, env=YOUR_CLASS)"),
    ],
)
def test_the_last_command_continues_the_run(trainer, own_folder, monkeypatch, of, trust, command):
    """Defects: it was for two processes, and for a class of a script there was none; of a run that
    a metric had ended it trained one iteration and ended again.
    """
    saved(own_folder / "run", full=[200 if of == "a metric" else 300])
    if of == "4 processes":
        trainer.about["config"]["hardware"]["rank_timeout"] = 60
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    elif of == "a metric":
        trainer.clock, trainer.stopping = Clock(200), "test/win_rate reached 1"
        trainer.about["config"]["stop"]["metric"] = "test/win_rate"
    *_, before, last = ended(FACTS, trainer, trust).splitlines()
    assert last == f"  {command.format('total_env_steps=600')}"
    assert of != "a notebook" or before == "  rltrain.evaluate('run', env=YOUR_CLASS)"


def test_a_job_of_a_sweep_ends_with_sentences(trainer, own_folder):
    logged(own_folder)
    facts = {**FACTS, "status": "failed", "error": "ValueError: no money"}
    assert one_line(result(facts, trainer)) == (
        "Failed at 300 env steps after 75 s. Last test: win rate 25% [7%, 59%], return 7.00. "
        "Best test, at 200: return 8.00. "
        "Nothing is kept: there was no checkpoint yet. ValueError: no money. "
        "The traceback is in run/train.log."
    )


def test_a_result_that_is_the_best_is_said_once(trainer, own_folder):
    saved(own_folder / "run", full=[300])
    checkpoint.name_pointer(own_folder / "run/checkpoints", "best", 300)
    text = ended({**FACTS, "best_test": LAST}, trainer, None)
    assert "return 7.00, the best." in text
    assert text.count("mode=evaluate") == 1


@pytest.mark.parametrize("room", [(), (0,), (0, 100), (0, 100, 200)])
@pytest.mark.parametrize(
    ("returns", "best"),
    [([9.0], 0), ([9.0, 5.0], 100), ([9.0, 5.0, 5.0], 200), ([9.0, 5.0, 4.0], 100)],
)
def test_the_best_of_the_last_line_is_that_of_the_tests(trainer, returns, best, room):
    """The first test is of untrained weights, and weights can be saved at the steps ``room`` only.
    Defect: the best test was that whose weights could be saved.
    """

    def save(kind):
        if trainer.clock.env_steps not in room:
            raise OSError("the disk is full")
        saved(trainer.run_dir, [trainer.clock.env_steps])

    trainer.tests, trainer.counts, trainer.disk, trainer.save = trainer, True, Disk(), save
    trainer.usage, trainer.latest = SimpleNamespace(state_dict=dict), {}
    tests = callback.Test(interval=100, loggers=Loggers([]))
    record = Record(trainer.run_dir, SimpleNamespace(plain={}))
    record.facts |= {"status": "finished", "final_test": None, "best_test": None}
    for i, mean in enumerate(returns):
        trainer.clock, trainer.untrained = Clock(env_steps=100 * i), i == 0
        record.load_state_dict(json.loads(json.dumps(record.state_dict())))  # as after a resume
        for each in (tests, record):
            each.on_test_end(trainer, {"test/return_mean": mean})
    text = result(record.facts, trainer)[0]
    expected = {"env_steps": best, "test/return_mean": returns[best // 100]}
    assert record.facts["best_test"] == expected
    assert ("the best." in text) == (best == trainer.clock.env_steps)
    assert (f"Best test, at {best}" in text) == (best < trainer.clock.env_steps)
    assert ("(load_step=best)" in text) == (best in room and best < trainer.clock.env_steps)


def test_without_a_full_checkpoint_the_best_weights_are_evaluated(trainer, own_folder):
    saved(own_folder / "run", best=200)
    assert ended(FACTS | {"status": "interrupted"}, trainer, None).splitlines()[1:] == [
        "  rltrain mode=watch checkpoint=run/checkpoints/best",
        "  rltrain mode=evaluate checkpoint=run/checkpoints/best",
    ]


def test_a_failed_run_names_its_error_and_what_is_kept(trainer, own_folder):
    facts = FACTS | {"status": "failed", "error": "ValueError: no"}
    assert result(facts, trainer)[-1] == "ValueError: no"  # the run folder was deleted
    logged(own_folder)
    lines = result(facts, trainer)
    assert lines[0].endswith("return 8.00. Nothing is kept: there was no checkpoint yet.")
    assert lines[-2:] == ["ValueError: no", "The traceback is in run/train.log."]


@pytest.mark.parametrize(
    ("full", "best", "overrides"),
    [
        ([100, 300], 100, "Everything is saved."),
        ([100], None, "Kept: the last checkpoint (env step 100)."),
        ([], 200, "Kept: only the weights of the best test (env step 200)."),
        ([], None, "Nothing is kept: there was no checkpoint yet."),
    ],
)
def test_what_is_kept_of_a_run_cut_short(own_folder, full, best, overrides):
    saved(own_folder, full, best if best not in full else None)
    assert kept_text(own_folder / "checkpoints", 300) == overrides
