"""The compiled gradient step against PyTorch's Adam."""

from functools import partial

import pytest
import torch

from rltrain.algo.optimizer import GradientStep, adam, rmsprop
from rltrain.kernels import compile_part
from rltrain.types import LossResult

ADAM = partial(adam, lr=1e-2, betas=[0.9, 0.999], eps=1e-8)


def made(optimizer=ADAM, bound=None, compiled=False):
    torch.manual_seed(0)
    step = GradientStep(torch.nn.Linear(37, 3), optimizer, bound, None)
    if compiled:
        compile_part(step)
    return step


def pair(optimizer=ADAM, bound=None):
    """The same step plain and compiled."""
    return [made(optimizer, bound, compiled) for compiled in (False, True)]


def result(gradient, loss=1.0, count=4):
    return LossResult(torch.tensor(loss), torch.tensor(count), torch.zeros(1), {}, gradient)


def test_weights_and_moments_are_those_of_pytorch_bit_for_bit():
    plain, compiled = pair()
    assert "take" in vars(compiled)
    for seed in range(4):
        torch.manual_seed(seed)
        gradient = torch.randn(len(plain.weights))
        (skipped, norm), (_, plain_norm) = (
            step.take(result(gradient.clone())) for step in (compiled, plain)
        )
        assert skipped == 0
        torch.testing.assert_close(torch.tensor(norm), plain_norm)
    assert torch.equal(compiled.weights, plain.weights)
    torch.testing.assert_close(compiled.state_dict(), plain.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_moments_of_a_gradient_that_stays_zero_decay_to_zero(compiled):
    step = made(compiled=compiled)
    for k in range(1_000):
        step.take(result(torch.full_like(step.weights, float(k == 0))))
    assert not step.moments["exp_avg"].any()  # 0.9^999 is not a normal number
    assert torch.tensor(1e-40) * 0.5 > 0  # outside of a step they are kept


def test_clipping_bounds_the_norm():
    plain, compiled = pair(bound=0.5)
    for step in (plain, compiled):
        step.take(result(torch.full_like(step.weights, 3.0)))
    torch.testing.assert_close(compiled.weights, plain.weights)
    torch.testing.assert_close(compiled.flat.gradient.norm(), torch.tensor(0.5))


@pytest.mark.parametrize(("loss", "value"), [(torch.inf, 1.0), (1.0, torch.nan)])
def test_a_step_that_is_not_finite_changes_nothing(loss, value):
    step = made(compiled=True)
    before = step.weights.clone(), step.state_dict()
    skipped, _ = step.take(result(torch.full_like(step.weights, value), loss))
    assert skipped == 1
    assert torch.equal(step.weights, before[0])
    assert all(torch.equal(step.state_dict()[name], x) for name, x in before[1].items())


def test_a_loss_without_a_gradient_of_its_own_is_differentiated():
    plain, compiled = pair()
    for step in (plain, compiled):
        loss = step.flat.model(torch.ones(2, 37)).sum()
        step.take(LossResult(loss, torch.tensor(2), torch.zeros(1), {}))
    assert torch.equal(compiled.weights, plain.weights)


def test_other_optimizers_and_options_are_left_to_pytorch():
    other = made(partial(rmsprop, lr=1e-2, alpha=0.9, eps=1e-5), compiled=True)
    assert "take" not in vars(other)
    plain, compiled = pair(partial(ADAM, weight_decay=0.1))
    for step in (plain, compiled):
        step.take(result(torch.ones_like(step.weights)))
    assert torch.equal(compiled.weights, plain.weights)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_state_is_that_of_the_present_optimizer(compiled):
    step = made(compiled=compiled)
    step.take(result(torch.ones_like(step.weights)))
    step.optimizer = ADAM([step.flat.values])
    first = step.state_dict()
    assert first["step"] == 0
    step.take(result(torch.ones_like(step.weights)))
    own = step.optimizer.state[step.flat.values]
    assert step.state_dict()["step"] == own["step"] == 1
    step.load_state_dict(first)
    assert own["step"] == 0
    assert not own["exp_avg"].any()


def test_steps_of_an_optimizer_that_was_replaced_are_undone():
    step = made()
    step.optimizer = torch.optim.Adagrad([step.flat.values], lr=torch.inf)
    before = step.weights.clone()
    skipped, _ = step.take(result(torch.ones_like(step.weights)))
    assert not step.weights.isfinite().all() or skipped
    step.weights.copy_(before)
    skipped, _ = step.take(result(torch.ones_like(step.weights)))
    assert skipped
    assert torch.equal(step.weights, before)
