"""Edits of a run's code and objects train the same weights with compiled code as without."""

import logging
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import rltrain
from rltrain.callback import Callback
from rltrain.kernels import module_watch
from tests.kernels.own_networks import BUILT
from tests.kernels.run_edits import COMMON, EDITS, SAID
from tests.marks import each_once, slow_except

CLOSE = {"rtol": 1e-2, "atol": 1e-3}


class Edits(Callback):
    """Edits a run when training starts, or after so many env steps."""

    def __init__(self, edit: Any, patch: Any, at: int | None) -> None:
        self.edit, self.patch, self.at = edit, patch, at

    def on_train_start(self, trainer: Any, value: None = None) -> None:
        if self.at is None:
            self.edit(trainer, self.patch)

    def on_iteration(self, trainer: Any, value: None = None) -> None:
        if self.at is not None and trainer.clock.env_steps >= self.at:
            self.at = 10**9
            self.edit(trainer, self.patch)


def trained(
    words: tuple[str, ...], kernels: str, folder: Path, *callbacks: Callback, between: Any = None
) -> Any:
    """The weights after some dozens of gradient steps; ``between`` is called with the trainer."""
    overrides = [*words, *COMMON, f"hardware.kernels={kernels}"]
    trainer = rltrain.make_trainer(overrides, run_dir=folder, callbacks=list(callbacks))
    torch.manual_seed(0)  # of noise and quantile levels
    with trainer.reporting_exceptions():
        trainer.start()
        if between is not None:
            trainer.run(40)
            between(trainer)
        trainer.run(70)
    weights = trainer.learner.gradient_step.weights.clone()
    trainer.learner.state_dict()
    trainer.close()
    return weights


@pytest.fixture(autouse=True)
def lines(caplog):
    """The lines that are logged, each for the first time."""
    module_watch.forget_reasons()
    caplog.set_level(logging.WARNING, "rltrain")
    return caplog


@pytest.fixture(scope="module")
def unedited(tmp_path_factory):
    """The weights of a run without edits, by its overrides."""

    @cache
    def run(words):
        return trained(words, "torch", tmp_path_factory.mktemp("run") / "run")

    return run


TRIED = [(name, at) for name in EDITS for at in (None, 40)]
QUICK = (
    *((name, None) for name in ("td.huber", "agents class", "returns")),
    *((name, 40) for name in ("step", "store.batch", "qmix.F", "numbers", "ReLU.forward")),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tried", slow_except(QUICK, TRIED), ids=lambda x: "-".join(map(str, x)))
def test_edited_runs_train_as_without_compiled_code(tried, tmp_path, monkeypatch, unedited, lines):
    name, at = tried
    (words, edit), found = EDITS[name], {}
    for kernels in ("torch", "auto"):
        with monkeypatch.context() as patch:
            folder = tmp_path / kernels
            found[kernels] = trained(words, kernels, folder, Edits(edit, patch, at))
    assert sum(SAID.get(name, "") in r.getMessage() for r in lines.records) == 1 or name not in SAID
    if not (name == "state.clear()" and at is None):  # which is empty as yet
        assert not torch.allclose(found["torch"], unedited(words), **CLOSE)
    torch.testing.assert_close(found["auto"], found["torch"], **CLOSE)


@pytest.mark.sampled(2)
@each_once(
    hook=["on_step", "on_collect", "on_batch", "on_update", "by hand"],
    name=["td.huber", "qmix TDLoss._td_target", "QMix.forward", "RunningNorm.forward"],
)
def test_a_patched_class_acts_from_the_next_update_on(hook, name, tmp_path, monkeypatch, unedited):
    """Whichever hook it is made in, or between the steps of a trainer that is driven by hand.
    Defect: it acted from the next line of metrics on.
    """
    (words, edit), found = EDITS[name], {}
    for kernels in ("torch", "auto"):
        with monkeypatch.context() as patch:
            edits = Edits(edit, patch, 40)

            def called(self, trainer, value, edits=edits):
                edits.on_iteration(trainer)
                return value

            hooked = type("Hooked", (Callback,), {hook: called})()
            callbacks = [] if hook == "by hand" else [hooked]
            between = edits.on_iteration if hook == "by hand" else None
            found[kernels] = trained(
                words, kernels, tmp_path / kernels, *callbacks, between=between
            )
    assert not torch.allclose(found["torch"], unedited(words), **CLOSE)
    torch.testing.assert_close(found["auto"], found["torch"], **CLOSE)


EARLY = (
    *("Store.batch", "ArrayBatch.of", "Linear.forward", "Adam.step", "QMix.__call__"),
    *("ReLU.forward", "builtin forward", "wrapped forward", "qmix.F", "range"),
)


@pytest.mark.parametrize("name", slow_except(["Store.batch"], EARLY))
def test_a_patch_from_before_a_run_is_trained_with(name, tmp_path, monkeypatch, unedited):
    """Defect: rewards that another ``Store.batch`` returned were not learned from."""
    words, edit = EDITS[name]
    plain = unedited(words)
    with monkeypatch.context() as patch:
        edit(None, patch)
        found = [trained(words, kernels, tmp_path / kernels) for kernels in ("torch", "auto")]
    assert not torch.allclose(found[0], plain, **CLOSE)
    torch.testing.assert_close(*found, **CLOSE)


@pytest.mark.parametrize("name", slow_except(("tied", "with_own_head"), BUILT))
def test_networks_and_optimizers_of_ones_own_train_as_without_compiled_code(name, tmp_path):
    found = [trained(BUILT[name], k, tmp_path / k) for k in ("torch", "auto")]
    torch.testing.assert_close(*found, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", dict.fromkeys(words for words, _ in EDITS.values()), ids=lambda words: words[0]
)
def test_compiled_code_trains_the_same_weights(words, tmp_path, unedited):
    torch.testing.assert_close(trained(words, "auto", tmp_path), unedited(words), **CLOSE)
