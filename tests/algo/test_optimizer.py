from functools import partial

import pytest
import torch
from torch import nn

from rltrain.algo.optimizer import GradientStep, adam, one_thread, radam, rmsprop
from rltrain.types import LossResult
from tests.imports import imported


def params():
    return [nn.Parameter(torch.zeros(3))]


def test_options_reach_the_optimizer():
    optimizer = rmsprop(params(), lr=0.1, alpha=0.9, eps=1e-3, weight_decay=1e-5)
    group = optimizer.param_groups[0]
    assert [group[k] for k in ("lr", "alpha", "eps", "weight_decay")] == [0.1, 0.9, 1e-3, 1e-5]


def test_betas_are_a_list():
    assert adam(params(), lr=0.1, betas=[0.5, 0.9], eps=1e-8).param_groups[0]["betas"] == (0.5, 0.9)


def test_an_unknown_option_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"RMSprop has no option weigth_decay.*weight_decay"):
        rmsprop(params(), lr=0.1, alpha=0.9, eps=1e-3, weigth_decay=1e-5)


TORCH = {
    adam: (torch.optim.Adam, {"betas": [0.9, 0.999]}),
    radam: (torch.optim.RAdam, {"betas": [0.9, 0.999]}),
    rmsprop: (torch.optim.RMSprop, {"alpha": 0.99}),
}


@pytest.mark.parametrize("make", TORCH, ids=lambda f: f.__name__)
def test_steps_equal_those_of_torch(make):
    kind, options = TORCH[make]
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, generator=generator)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    options |= {"lr": 0.01, "eps": 1e-5, "weight_decay": 0.1}
    fused = {} if make is rmsprop or make is radam else {"fused": True}
    pair = ((ours, make([ours], **options)), (theirs, kind([theirs], **options, **fused)))
    for _ in range(5):
        gradient = torch.randn(50, generator=generator)
        for weights, optimizer in pair:
            weights.grad = gradient.clone()
            optimizer.step()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("gradient", "moved"), [(3.0, 3.0), (20.0, 10.0)])
def test_only_gradients_above_the_bound_are_clipped(gradient, moved):
    model = nn.Linear(1, 1, bias=False)
    step = GradientStep(model, partial(torch.optim.SGD, lr=1.0), 10.0, None)
    before = model.weight.item()
    loss = gradient * model.weight.sum()
    skipped, norm = step.take(LossResult(loss, torch.tensor(1.0), torch.ones(1), {}))
    assert (float(skipped), float(norm)) == (0, gradient)
    assert before - model.weight.item() == pytest.approx(moved, rel=1e-5)


def test_an_optimizer_that_raises_leaves_the_threads_as_they_were():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError), one_thread(when=True):
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_the_first_optimizer_does_not_import_the_compiler():
    code = (
        "import torch\n"
        "from rltrain.algo import adam\n"
        "w = torch.nn.Parameter(torch.zeros(3)); w.grad = torch.ones(3)\n"
        "adam([w], lr=0.1, betas=[0.9, 0.99], eps=1e-8).step()"
    )
    assert imported(code, "torch._dynamo") == []
