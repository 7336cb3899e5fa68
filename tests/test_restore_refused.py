"""Checkpoints that a trainer refuses to restore, and what it is afterwards."""

import pytest
import torch

import rltrain
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import contents, trained, weights

ADAMW = "algo.optimizer={_target_: torch.optim.AdamW, lr: 5e-4}"
OPTIMIZERS = ["algo/optimizer=adam", "algo/optimizer=radam", "algo/optimizer=rmsprop", ADAMW]


@pytest.mark.parametrize("before", OPTIMIZERS[:2])
def test_a_run_goes_on_with_its_own_optimizer_only(small, tmp_path, before):
    """Defect: RAdam and AdamW took the moments of Adam for theirs, which have the same names."""
    folder = trained([*small, before], tmp_path / "before", 40).save()
    for i, now in enumerate(OPTIMIZERS):
        trainer = rltrain.make_trainer([*small, now, "algo.optimizer.lr=0.1"], tmp_path / f"{i}")
        if now == before:
            trainer.restore(folder)
            continue
        initial = weights(trainer)
        said = r"saved with the optimizer rltrain\.algo\.r?adam, and"
        with pytest.raises(UsageError, match=said):
            trainer.restore(folder)
        assert torch.equal(weights(trainer), initial)


@pytest.mark.parametrize("typed", ["latest", "best"])
def test_a_name_in_place_of_a_path_is_answered_with_the_path(small, tmp_path, typed):
    """Defect: commands take it, and the answer did not say what a trainer takes."""
    trainer = rltrain.make_trainer(small, run_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*That of a trainer is trainer"):
        trainer.restore(typed)


PATH = "expected a path .*got "


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda trainer: trainer.restore(None), f"path=None: {PATH}NoneType"),
        (lambda trainer: trainer.restore(100), f"path=100: {PATH}int"),
        (lambda trainer: trainer.export(None), f"folder=None: {PATH}NoneType"),
        (lambda trainer: trainer.load_weights(100), f"folder=100: {PATH}int"),
        (lambda trainer: trainer.save("/tmp/dir"), r"got '/tmp/dir'.*trainer\.export\(folder\)"),
        (lambda trainer: trainer.metrics.add("custom", "x"), "got 'x', expected numbers by name"),
    ],
    ids=["restore None", "restore 100", "export", "load_weights", "save", "metrics"],
)
def test_methods_of_a_trainer_refuse_other_arguments(small, tmp_path, call, said):
    """Defect: ``save`` returned a checkpoint that the step had; others ended in a traceback."""
    trainer = rltrain.make_trainer(small, run_dir=tmp_path / "run")
    trainer.save()
    with pytest.raises(UsageError, match=said):
        call(trainer)


def test_weights_are_loaded_from_all_that_names_a_checkpoint(small, tmp_path):
    """Defect: all but the folder of a step were said to have been removed by a training."""
    trainer = rltrain.make_trainer(small, run_dir=tmp_path / "run")
    step = trainer.save()
    for named in (tmp_path / "run", step.parent, step.parent / "latest", step):
        for weight in trainer.learner.online.parameters():
            weight.data.zero_()
        trainer.load_weights(named)
        assert any(weight.any() for weight in trainer.learner.online.parameters())
    with pytest.raises(CheckpointError, match=r"There is no checkpoint at .*other"):
        trainer.load_weights(tmp_path / "other")


BEGUN = {
    "iterated": lambda make: iterated(make()),
    "tested": lambda make: with_a_test(make()),
    "saved": lambda make: saved(make()),
    "to be restored itself": lambda make: saved(make()).close() or make(),
}


def iterated(trainer):
    trainer.iterate()
    return trainer


def with_a_test(trainer):
    trainer.test()
    return trainer


def saved(trainer):
    trainer.save()
    return trainer


@pytest.mark.sampled(1)
@pytest.mark.parametrize("begun", BEGUN)
def test_a_run_that_has_begun_takes_no_checkpoint_of_another(small, tmp_path, begun):
    """Defect: its rows were cut where those of the other one ended, and its own later checkpoints
    were newer than what it then saved."""
    other = iterated(rltrain.make_trainer(small, run_dir=tmp_path / "other")).save()
    run_dir = tmp_path / "run"
    trainer = BEGUN[begun](lambda: rltrain.make_trainer([*small, "seed=1"], run_dir=run_dir))
    before, clock, own = contents(run_dir), trainer.clock, weights(trainer)
    with pytest.raises(UsageError, match=r"of another run.*NEW_FOLDER"):
        trainer.restore(other)
    assert contents(run_dir) == before
    assert trainer.clock == clock
    assert torch.equal(weights(trainer), own)


RATIOS = [
    ("updates_per_episode=0.7", "updates_per_episode=0.5"),
    ("updates_per_episode=0.5", "updates_per_episode=0.7"),
    ("updates_per_episode=0.7", "updates_per_episode=null", "updates_per_env_step=0.01"),
]


@pytest.mark.parametrize(("before", "now"), [(before, now) for before, *now in RATIOS])
def test_a_changed_ratio_of_updates_is_named(small, tmp_path, before, now):
    """Defect: the checkpoint was "damaged", or the part of an update that was owed another one."""
    folder = trained([*small, f"algo.{before}"], tmp_path / "before", 10).save()
    trainer = rltrain.make_trainer([*small, *(f"algo.{each}" for each in now)], tmp_path / "now")
    with pytest.raises(UsageError, match=r"updates_per_episode 0.* is (0|null).*as it was"):
        trainer.restore(folder)


@pytest.mark.parametrize("other", ["hardware.n_envs=2", "buffer=prioritized_episode"])
def test_a_trainer_into_which_a_part_was_restored_does_not_go_on(small, tmp_path, other):
    """Defect: it trained on with the weights of the other run."""
    folder = trained(small, tmp_path / "other", 10).save()
    trainer = rltrain.make_trainer([*small, other], run_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match="does not fit this run"):
        trainer.restore(folder)
    with pytest.raises(UsageError, match="This trainer is closed"):
        trainer.iterate()
