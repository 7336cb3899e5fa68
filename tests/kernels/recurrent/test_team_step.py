"""The compiled learning step of recurrent teams against PyTorch, and its number of threads."""

import logging
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch

import rltrain
from rltrain import kernels
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.target_update import TargetUpdate
from rltrain.callback import Callback
from rltrain.errors import UsageError
from rltrain.kernels.recurrent import team_step
from rltrain.kernels.recurrent.team_step import (
    PERIOD,
    CompiledSequenceLoss,
    MeasuredThreads,
    TargetValues,
)
from rltrain.types import Clock, EnvSpec
from tests.algo import batches
from tests.algo.batches import (
    MIXERS,
    SPEC,
    gradients,
    loss_and_grads,
    make_batch,
    make_learner,
    make_model,
    with_garbage,
)


class ChangesBatches(Callback):
    def on_batch(self, trainer, value):
        return value


LENGTHS = [4, 9, 1, 6, 6, 3, 9, 7, 2, 5]
RETURNS = {
    "one-step": {},
    "no-double": {"double": False},
    "n-step": {"n_step": 3, "huber": 0.5},
    "lambda": {"trace": 0.6},
}


def td_loss(**changes):
    return TDLoss(**{"gamma": 0.9, "double": True, "n_step": 1, **changes})


def compared(loss, online, target, batch):
    compiled = loss_and_grads(CompiledSequenceLoss(loss), online, target, batch)
    plain = loss_and_grads(loss, online, target, batch)
    for ours, theirs in zip(compiled, plain, strict=True):
        torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("mixer", ["independent", "sum", "qmix"])
def test_the_compiled_step_equals_the_tensor_operations(mixer, returns):
    """Windows of unequal length in any order, some cut off, some of whose steps are masked, with
    anything at all in the padding."""
    online, target = (make_model("gru", mixer, seed=seed, hidden_dim=24) for seed in range(2))
    batch = with_garbage(make_batch(LENGTHS, cut_off=[0, 2]), LENGTHS)
    mask = batch.mask.clone()
    mask[1] = False
    batch = replace(batch, mask=mask, weight=torch.linspace(0.1, 1, len(LENGTHS)), eta=0.9)
    compared(td_loss(**RETURNS[returns]), online, target, batch)


@pytest.mark.parametrize("last_action", [True, False])
@pytest.mark.parametrize("agent_id", [True, False])
@pytest.mark.parametrize("n_agents", [1, 7])
def test_the_inputs_equal_one_hot_vectors(n_agents, agent_id, last_action):
    spec = EnvSpec(n_agents=n_agents, n_actions=19, obs_shape=(2, 3), state_dim=5, obs_scale=0.5)
    inputs = {"agent_id": agent_id, "last_action": last_action}
    online, target = (make_model("gru", "qmix", spec, seed, **inputs) for seed in range(2))
    compared(td_loss(), online, target, make_batch([3, 5, 5], spec=spec))


@pytest.mark.parametrize("rewards", [1, 2])
def test_each_agent_learns_from_its_own_reward_or_that_of_the_team(rewards):
    spec = replace(SPEC, n_rewards=rewards)
    online, target = (make_model("gru", "independent", spec, seed) for seed in range(2))
    compared(td_loss(), online, target, make_batch([3, 5], spec=spec))


def test_the_number_of_threads_changes_no_byte(monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", "compiled")
    found = []
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        learner = make_learner(make_model("gru", "qmix", seed=3, hidden_dim=80))
        for seed in range(4):
            learner.update(make_batch(LENGTHS, seed=seed), Clock())
        found.append(learner.state_dict())
    torch.set_num_threads(1)
    for other in found[1:]:
        for part in ("online", "optimizer"):
            torch.testing.assert_close(found[0][part], other[part], rtol=0, atol=0)


@pytest.mark.slow
def test_no_outcome_of_measuring_the_threads_changes_a_byte(monkeypatch):
    """Steps that take as long as each number of threads is made to need, so that each is chosen."""
    found, chosen = [], []
    for fastest in (None, 1, 2, 4, 8):
        threads = None if fastest is None else MeasuredThreads(8)
        if threads is not None:
            monkeypatch.setattr(team_step, "perf_counter", clock_of(threads, fastest))
        learner = make_learner(
            make_model("gru", "qmix"), loss=CompiledSequenceLoss(td_loss(), threads)
        )
        for seed in range(30):
            learner.update(make_batch(LENGTHS, seed=seed), Clock())
        found.append(learner.state_dict())
        chosen.append(threads and threads.best)
    assert chosen == [None, 1, 2, 4, 8]
    for other in found[1:]:
        for part in ("online", "optimizer"):
            assert all(map(torch.equal, found[0][part].values(), other[part].values()))


def clock_of(threads, fastest):
    """A clock by which steps with ``fastest`` threads are the shortest."""
    now = [0.0]

    def perf_counter():
        now[0] += 1.0 if threads.n == fastest else 5.0  # between readings: a step
        return now[0]

    return perf_counter


@pytest.mark.parametrize("max_bytes", [10_000_000, 30_000])
@pytest.mark.parametrize("mixer", ["independent", "qmix"])
def test_kept_target_values_change_no_byte(mixer, max_bytes, monkeypatch):
    """Batches of other episodes in another order, with room for all or for some, over two updates
    of the target network."""
    evaluated = []
    forget = TargetValues.places

    def counted(*arguments):
        found = forget(*arguments)
        evaluated.append((~found.known).sum())
        return found

    monkeypatch.setattr(TargetValues, "places", counted)
    episodes = make_batch(LENGTHS)
    found = []
    for cache in (None, max_bytes):
        evaluated.clear()
        learner = make_learner(
            make_model("gru", mixer, hidden_dim=24),
            loss=CompiledSequenceLoss(td_loss(), target_cache=cache),
            target_update=TargetUpdate(episodes=None, env_steps=None, updates=5, tau=1.0),
        )
        rng = np.random.default_rng(0)
        for updates in range(15):
            drawn = rng.choice(len(LENGTHS), 6, replace=False)
            learner.update(chosen(episodes, drawn), Clock(updates=updates))
        found.append(learner.state_dict()["online"])
    assert all(map(torch.equal, *(weights.values() for weights in found)))
    assert sum(evaluated) < 15 * 6 * (0.5 if max_bytes > 100_000 else 1)


def chosen(batch, drawn):
    """Some of the windows of a batch."""
    axis = {"weight": 0, "index": 0}
    return replace(
        batch,
        **{
            name: tensor.index_select(axis.get(name, 1), torch.from_numpy(drawn))
            for name, tensor in vars(batch).items()
            if isinstance(tensor, torch.Tensor) and name in {f.name for f in fields(batch)}
        },
    )


@pytest.mark.parametrize(
    "overrides",
    [["algo=qplex"], ["algo=qmix", "hardware.kernels=torch"], ["algo=dqn"]],
    ids=" ".join,
)
def test_what_nothing_does_is_refused(overrides):
    spec = SPEC if overrides != ["algo=dqn"] else EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,))
    with pytest.raises((UsageError, ValueError), match=r"Type hardware\.target_cache=null"):
        rltrain.make_learner([*overrides, "hardware.target_cache=1000000"], spec)


@pytest.mark.parametrize(("more", "hooks"), [(["buffer=sequence"], []), ([], [ChangesBatches()])])
def test_keeping_target_values_is_refused_where_windows_change(more, hooks, tmp_path):
    overrides = ["algo=qmix", "env=two_step", "hardware.target_cache=1000000", *more]
    overrides += ["logger.wandb.mode=disabled", "logger.console=false"]
    with pytest.raises(UsageError, match=r"Type .*hardware\.target_cache=null"):
        rltrain.make_trainer(overrides, run_dir=tmp_path, callbacks=hooks)


def test_an_action_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", "compiled")
    learner = make_learner()
    assert isinstance(learner.loss, CompiledSequenceLoss)
    learner.update(make_batch([4, 3]), Clock())
    batch = make_batch([4, 3])
    batch.action[2, 1, 0] = 4
    with pytest.raises(ValueError, match="action"):
        learner.update(batch, Clock())


def test_nan_reaches_the_loss():
    batch = make_batch([4, 3])
    batch.obs[1, 1] = torch.nan
    model = make_model()
    result = CompiledSequenceLoss(td_loss())(model, model, batch, Clock())
    assert np.isnan(result.loss_sum)
    assert any(x.isnan().any() for x in gradients(result, model))


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (partial(make_model, mixer="qatten"), td_loss()),
        (partial(make_model, layer_norm=True), td_loss()),
        (partial(make_model, normalize_obs=True), td_loss()),
        (make_model, td_loss(rescale=1e-3)),
        (make_model, td_loss(munchausen=0.9, double=False)),
        (make_model, td_loss(trace=0.5, corrected=True)),
    ],
)
def test_networks_and_targets_that_are_more_are_not_compiled(model, loss):
    assert kernels.compile_loss(loss, model()) is loss


def test_hypernetworks_of_one_layer_are_not_compiled(monkeypatch):
    one_layer = partial(QMix, embed_dim=4, hypernet_layers=1, hypernet_dim=8)
    monkeypatch.setitem(MIXERS, "qmix", one_layer)
    loss = td_loss()
    assert kernels.compile_loss(loss, make_model()) is loss


def test_kept_target_values_are_dropped_when_weights_are_loaded():
    """Episodes of the same numbers are others after an earlier checkpoint was restored."""
    learner = rltrain.make_learner(["algo=vdn", "hardware.target_cache=1e6"], SPEC)
    plain = rltrain.make_learner(["algo=vdn"], SPEC)
    for seed in range(2):
        batch = make_batch([4, 3], SPEC, seed=seed)
        results = [each.loss(each.online, each.target, batch, Clock()) for each in (learner, plain)]
        torch.testing.assert_close(results[0].gradient, results[1].gradient, rtol=0, atol=0)
        learner.load_state_dict(learner.state_dict())


def play(threads, seconds, steps):
    """Steps that take ``seconds`` of their number of threads; the numbers used."""
    used = []
    for work in range(1, steps + 1):
        used.append(threads.n)
        threads.took(seconds[threads.n] * work, work)  # steps of different sizes
    return used


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: 10, 2: 6, 4: 4, 6: 3}, 6),
        ({1: 10, 2: 6, 4: 5.9, 6: 9}, 2),
        ({1: 10, 2: 9.5, 4: 30, 6: 40}, 1),
    ],
)
def test_the_fastest_is_chosen_and_more_only_where_they_help(seconds, best):
    threads = MeasuredThreads(6)
    assert set(play(threads, seconds, 40)) == {1, 2, 4, 6}
    assert set(play(threads, seconds, PERIOD // 2)) == {best}


def test_another_load_is_noticed_and_each_choice_is_logged_once(caplog):
    caplog.set_level(logging.INFO, "rltrain")
    threads = MeasuredThreads(2)
    play(threads, {1: 0.010, 2: 0.006}, 3 * PERIOD)
    assert (threads.best, len(caplog.messages)) == (2, 1)
    assert "The learner uses 2 threads: a learning step takes" in caplog.text
    play(threads, {1: 0.010, 2: 0.050}, 2 * PERIOD)
    assert (threads.best, len(caplog.messages)) == (1, 2)


def test_one_core_measures_nothing():
    assert set(play(MeasuredThreads(1), {1: 1}, 50)) == {1}


@pytest.mark.parametrize(("typed", "measured"), [([], True), (["hardware.threads=1"], False)])
def test_threads_are_measured_unless_a_number_is_typed(typed, measured):
    learner = rltrain.make_learner(["algo=qmix", "logger.wandb.mode=disabled", *typed], SPEC)
    assert (learner.loss.threads is not None) is measured
