import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.optimizer import adam, radam, rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.interfaces import Model
from rltrain.types import Clock, Output
from tests.algo.batches import (
    MIXERS,
    SPEC,
    gradients,
    make_batch,
    make_learner,
    make_method,
    make_model,
)

BATCH = make_batch([4, 3, 2])
RMSPROP = partial(rmsprop, lr=1e-2, alpha=0.99, eps=1e-5)
ADAM = partial(adam, lr=1e-2, betas=[0.9, 0.999], eps=1e-8)
RADAM = partial(radam, lr=1e-2, betas=[0.9, 0.999], eps=1e-8)


def target_update(*, tau=1.0, **period):
    return TargetUpdate(**{"episodes": None, "env_steps": None, "updates": None, **period}, tau=tau)


def state_of(learner):
    state = learner.state_dict()
    return [t for part in ("online", "target", "optimizer") for t in state[part].values()]


def assert_same(ours, theirs):
    torch.testing.assert_close(list(ours), list(theirs), rtol=0, atol=0)


@pytest.mark.parametrize("optimizer", [RMSPROP, ADAM, RADAM])
def test_flat_steps_equal_those_over_a_list_of_parameters(optimizer):
    learner = make_learner(optimizer=optimizer, max_grad_norm=0.1)
    plain = make_model()
    plain_optimizer = optimizer(list(plain.parameters()))
    target = make_model()
    for updates in range(3):
        result = learner.loss(plain, target, BATCH, Clock())
        for weights, gradient in zip(plain.parameters(), gradients(result, plain), strict=True):
            weights.grad = gradient / result.count
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        plain_optimizer.step()
        metrics = learner.update(BATCH, Clock(updates=updates)).metrics
        if updates == 1:  # the learner's period is 2
            target.load_state_dict(plain.state_dict())
        torch.testing.assert_close(torch.as_tensor(metrics["grad_norm"]), norm)
    torch.testing.assert_close(list(learner.online.parameters()), list(plain.parameters()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mixer", MIXERS)
def test_learning_on_one_batch_lowers_its_loss(mixer):
    learner = make_learner(make_model(mixer=mixer), target_update=target_update(updates=1000))
    losses = [learner.update(BATCH, Clock(updates=k)).metrics["loss"].item() for k in range(30)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("tau", [1.0, 0.25])
@pytest.mark.parametrize("method", ["qtran", "ow_qmix"])
def test_target_updates_move_critics_too(method, tau):
    model, loss = make_method(method)
    learner = make_learner(model, loss=loss, target_update=target_update(updates=1, tau=tau))
    before = {name: t.clone() for name, t in learner.target.critic.state_dict().items()}
    learner.update(BATCH, Clock())
    online = learner.online.critic.state_dict()
    for name, weights in learner.target.critic.state_dict().items():
        torch.testing.assert_close(weights, torch.lerp(before[name], online[name], tau))
    assert any(not torch.equal(before[name], online[name]) for name in online)


def test_weights_and_gradients_are_views_into_flat_tensors():
    learner = make_learner()
    for values in (
        [p.data for p in learner.online.parameters()],
        [p.grad for p in learner.online.parameters()],
        list(learner.target.parameters()),
    ):
        assert len({value.untyped_storage().data_ptr() for value in values}) == 1
    learner.update(BATCH, Clock())
    assert len({p.grad.untyped_storage().data_ptr() for p in learner.online.parameters()}) == 1


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("optimizer", [RMSPROP, ADAM, RADAM])
def test_a_step_that_is_not_finite_is_undone(optimizer, warm):
    learner = make_learner(optimizer=optimizer, target_update=target_update(updates=1000))
    if warm:
        learner.update(BATCH, Clock())
    before = state_of(learner)
    reward = BATCH.reward.clone()
    reward[0, 0] = torch.nan
    result = learner.update(replace(BATCH, reward=reward), Clock(updates=1))
    assert result.metrics["skipped_updates"].item() == 1
    assert_same(state_of(learner), before)
    assert learner.update(BATCH, Clock(updates=2)).metrics["skipped_updates"].item() == 0
    assert not any(torch.equal(*ab) for ab in zip(state_of(learner)[:4], before[:4], strict=True))


def test_a_gradient_that_is_not_finite_is_undone_though_the_loss_is():
    def loss(online, target, batch, clock):
        result = TDLoss(gamma=0.99, double=True, n_step=1)(online, target, batch, clock)
        root = (online.agents.fc2.weight.sum() * 0).sqrt()  # 0, with a slope of 0 / 0
        return replace(result, loss_sum=result.loss_sum + root)

    learner = make_learner(loss=loss)
    before = state_of(learner)
    metrics = learner.update(BATCH, Clock()).metrics
    assert metrics["loss"].isfinite()
    assert metrics["skipped_updates"].item() == 1
    assert_same(state_of(learner), before)


@pytest.mark.parametrize("optimizer", [RMSPROP, ADAM, RADAM])
def test_a_restored_learner_goes_on_bit_for_bit(optimizer):
    learner = make_learner(optimizer=optimizer)
    for updates in range(3):
        learner.update(BATCH, Clock(updates=updates))
    state = learner.state_dict()
    other = make_learner(make_model(seed=1), optimizer=optimizer)
    other.load_state_dict(state)
    assert other.target_update.done_at == 2
    for updates in range(3, 6):
        learner.update(BATCH, Clock(updates=updates))
        other.update(BATCH, Clock(updates=updates))
    assert_same(state_of(other), state_of(learner))
    assert other.target_update.done_at == learner.target_update.done_at


def test_a_saved_state_is_made_of_tensors_and_numbers_of_its_own():
    learner = make_learner()
    state = learner.state_dict()
    saved = pickle.dumps(state)
    learner.update(BATCH, Clock())
    assert pickle.dumps(state) == saved
    for part in state.values():
        assert all(isinstance(value, torch.Tensor | int) for value in part.values())


def test_another_optimizers_state_is_refused():
    state = make_learner(optimizer=ADAM).state_dict()
    with pytest.raises(ValueError, match=r"exp_avg.*but this optimizer keeps square_avg"):
        make_learner(optimizer=RMSPROP).load_state_dict(state)


@pytest.mark.parametrize("unit", ["episodes", "env_steps", "updates"])
def test_target_update_is_due_when_a_period_has_passed_since_the_last(unit):
    update = target_update(**{unit: 10})
    answers = [update.due(Clock(**{unit: now})) for now in (0, 9, 10, 11, 19, 23, 32, 33)]
    assert answers == [False, False, True, False, False, True, False, True]


@pytest.mark.parametrize("periods", [{}, {"episodes": 200, "updates": 10}])
def test_target_update_needs_exactly_one_period(periods):
    with pytest.raises(ValueError, match="exactly one period"):
        target_update(**periods)


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_target_moves_by_tau_when_due_and_not_before(tau):
    learner = make_learner(target_update=target_update(updates=2, tau=tau))
    start = [p.clone() for p in learner.target.parameters()]
    learner.update(BATCH, Clock(updates=0))
    assert_same(learner.target.parameters(), start)
    learner.update(BATCH, Clock(updates=1))
    for new, old, online in zip(
        learner.target.parameters(), start, learner.online.parameters(), strict=True
    ):
        torch.testing.assert_close(new, old + tau * (online.detach() - old))


def test_target_carries_no_gradient():
    learner = make_learner()
    learner.update(BATCH, Clock())
    assert all(p.grad is None and not p.requires_grad for p in learner.target.parameters())


def test_the_learning_rate_follows_its_schedule():
    """Straight lines through (100, 1) and (200, 0.2), flat before and after, times 1e-2."""
    learner = make_learner(lr_factors=[[100, 1.0], [200, 0.2]])
    rates = []
    for env_steps in (0, 100, 150, 200, 999):
        reported = learner.update(BATCH, Clock(env_steps=env_steps)).metrics["lr"]
        assert reported.item() == pytest.approx(learner.optimizer.param_groups[0]["lr"])
        rates.append(reported.item())
    assert rates == pytest.approx([1e-2, 1e-2, 6e-3, 2e-3, 2e-3])


def test_without_a_schedule_the_learning_rate_stays():
    learner = make_learner()
    result = learner.update(BATCH, Clock(env_steps=10**6))
    assert learner.optimizer.param_groups[0]["lr"] == 1e-2
    assert "lr" not in result.metrics


def test_a_learning_rate_of_zero_changes_nothing():
    learner = make_learner(lr_factors=[[0, 0.0]])
    before = [p.detach().clone() for p in learner.online.parameters()]
    learner.update(BATCH, Clock())
    assert_same(learner.online.parameters(), before)


@pytest.mark.parametrize("schedule", [[], [[0]], [[0, 1, 5]], [[9, 1], [9, 0.1]]])
def test_a_schedule_that_is_none_is_refused(schedule):
    with pytest.raises(ValueError, match=r"algo.lr_factors: expected \[env step, factor\] pairs"):
        make_learner(lr_factors=schedule)


def test_learning_has_noise_also_after_a_test_switched_it_off():
    learner = make_learner(make_model("mlp", "independent", noisy_sigma=0.5))
    learner.online.agents.eval()
    state = torch.get_rng_state()
    learner.update(BATCH, Clock())
    assert not torch.equal(torch.get_rng_state(), state)


def test_loading_a_state_keeps_its_own_target_network():
    """Defect: restoring copied the online network over the target."""
    learner = make_learner(target_update=target_update(updates=1000))
    learner.update(BATCH, Clock())
    other = make_learner(make_model(seed=1))
    other.load_state_dict(learner.state_dict())
    assert_same(other.target.parameters(), learner.target.parameters())
    assert not torch.equal(next(other.target.parameters()), next(other.online.parameters()))


class Normalized(nn.Module):
    """Agents with a batch normalization, whose statistics are buffers."""

    hidden_dim = 0

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(SPEC.obs_shape[0])
        self.q = nn.Linear(SPEC.obs_shape[0], SPEC.n_actions)

    def unroll(self, batch, start=0, stop=None):
        rows = self.norm(batch.obs.flatten(0, 2)).view_as(batch.obs)
        return Output(self.q(rows), rows.new_empty(*rows.shape[:3], 0))


def buffers_of(module):
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_buffers_of_modules_are_copied_to_the_target_and_kept_by_steps_not_finite(tau):
    """Defect: only parameters were; running means stayed as they were drawn."""
    model = Model(Normalized(), Independent(spec=SPEC))
    learner = make_learner(model, target_update=target_update(updates=2, tau=tau))
    learner.update(BATCH, Clock(updates=0))
    online, target = buffers_of(learner.online), buffers_of(learner.target)
    assert not torch.equal(target["agents.norm.running_mean"], torch.zeros(3))
    learner.online.agents.norm.running_mean += 1  # the target's own pass has moved it alike
    learner.update(BATCH, Clock(updates=1))
    online, target = buffers_of(learner.online), buffers_of(learner.target)
    assert len(online) == 3
    torch.testing.assert_close(online, target, rtol=0, atol=0)
    spoiled = replace(BATCH, obs=torch.full_like(BATCH.obs, torch.nan))
    assert learner.update(spoiled, Clock()).metrics["skipped_updates"].item() == 1
    torch.testing.assert_close(buffers_of(learner.online), online, rtol=0, atol=0)


def test_statistics_of_observations_stay_shared_with_the_target():
    learner = make_learner(make_model(normalize_obs=True))
    assert learner.target.agents.input.norm is learner.online.agents.input.norm
    learner.update(BATCH, Clock(updates=1))


REPLACEMENTS = {
    "a parameter": lambda m: setattr(m.agents.fc2, "weight", nn.Parameter(m.agents.fc2.weight * 1)),
    "its data": lambda m: setattr(m.agents.fc2.weight, "data", m.agents.fc2.weight.data * 1),
    "a module": lambda m: setattr(m.agents, "fc2", copy.deepcopy(m.agents.fc2)),
    "a new module": lambda m: setattr(m.agents, "fc2", nn.Sequential(m.agents.fc2)),
    "by loading": lambda m: m.load_state_dict(copy.deepcopy(m.state_dict()), assign=True),
}


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_replaced_parameters_are_refused_by_name(how):
    """Defect: they stayed as they were for the rest of the run, without a word."""
    learner = make_learner()
    learner.update(BATCH, Clock())
    REPLACEMENTS[how](learner.online)
    name = "its network" if how == "a new module" else r"agents\.fc"
    with pytest.raises(ValueError, match=rf"cannot train .*{name}.*were replaced"):
        learner.update(BATCH, Clock())


def test_parameters_whose_values_change_are_trained_on():
    learner, other = make_learner(), make_model(seed=1)
    learner.online.load_state_dict(other.state_dict())
    with torch.no_grad():
        learner.online.agents.fc2.weight.mul_(2)
    before = learner.online.agents.fc2.weight.detach().clone()
    learner.update(BATCH, Clock())
    assert not torch.equal(learner.online.agents.fc2.weight, before)
