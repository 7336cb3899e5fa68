"""Settings of losses that a callback changes while a run trains."""

import inspect
from contextlib import closing
from dataclasses import replace

import pytest
import torch

import rltrain
from rltrain.api import settings_from

ALGOS = dict.fromkeys(("dqn", "munchausen_dqn", "rainbow", "iqn", "pqn", "r2d2"), "env=cartpole")
ALGOS |= dict.fromkeys(("qmix", "ow_qmix", "qtran"), "env=two_step")
OTHERS = {"gamma": 0.5, "floor": -2.0, "temperature": 0.5, "alpha": 0.25, "huber": 0.25}
OTHERS |= {"kappa": 0.25, "n_step": 2}
"""Values that no algorithm has by default, of settings that fit whatever the others are."""


@pytest.mark.parametrize("algo", ALGOS)
def test_a_setting_that_is_set_is_as_one_that_was_configured(algo, tmp_path):
    """Defect: ``loss.gamma = 0.5`` made an attribute that nothing read, and ``loss.distribution``
    and ``loss.n_step`` stayed what they were.
    """
    settings = settings_from([f"algo={algo}", ALGOS[algo], "tuned=none"])
    node = settings.nodes["algo.loss"]
    trainer = rltrain.make_trainer([f"algo={algo}", ALGOS[algo], "tuned=none"], tmp_path / "run")
    loss = trainer.learner.loss
    known = inspect.signature(type(getattr(loss, "loss", loss)).__init__).parameters
    facts = {name: getattr(loss, name) for name in ("distribution",) if name in known}
    changed = [name for name in OTHERS if name in node.kwargs]
    assert "gamma" in changed
    for name in changed:
        configured = replace(node, kwargs={**node.kwargs, name: OTHERS[name]}).build(**facts)
        before = getattr(loss, name)
        setattr(loss, name, OTHERS[name])
        assert vars(getattr(loss, "loss", loss)) == vars(configured)
        setattr(loss, name, before)
    plain = getattr(loss, "loss", loss)
    assert vars(plain).keys().isdisjoint(getattr(plain, "_settings", dict)()), (
        "a setting is kept once"
    )
    trainer.close()


def test_settings_that_contradict_each_other_are_refused(tmp_path):
    with closing(rltrain.make_trainer(["algo=dqn", "env=cartpole"], tmp_path / "run")) as trainer:
        loss = trainer.learner.loss
        with pytest.raises(ValueError, match=r"algo\.loss\.double=true: the soft value"):
            loss.munchausen = 0.9
        with pytest.raises(AttributeError, match="TDLoss has no attribute 'gama'"):
            _ = loss.gama


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("algo", ["dqn", "rainbow", "qmix"])
def test_a_discount_that_is_set_is_learned_with(algo, kernels, tmp_path):
    words = [f"algo={algo}", *ALGOS[algo].split(), "tuned=none", f"hardware.kernels={kernels}"]
    words += ["total_env_steps=100", "algo.learning_starts=32", "test.episodes=1", "logger=[]"]
    weights = []
    for typed, gamma in ((["algo.loss.gamma=0.5"], None), ([], 0.5)):
        trainer = rltrain.make_trainer([*words, *typed], tmp_path / str(gamma))
        with closing(trainer):
            if gamma is not None:
                trainer.learner.loss.gamma = gamma
            trainer.train()
            assert trainer.clock.updates > 0
            weights.append([*map(torch.clone, trainer.learner.online.state_dict().values())])
    assert all(map(torch.equal, *weights))
