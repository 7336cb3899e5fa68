import pytest
import torch
from torch import nn

from rltrain.algo.optimizer import adam, rmsprop


def params():
    return [nn.Parameter(torch.zeros(3))]


def test_options_reach_the_optimiser():
    optimizer = rmsprop(params(), lr=0.1, alpha=0.9, eps=1e-3, weight_decay=1e-5)
    group = optimizer.param_groups[0]
    assert [group[k] for k in ("lr", "alpha", "eps", "weight_decay")] == [0.1, 0.9, 1e-3, 1e-5]


def test_betas_are_a_list():
    assert adam(params(), lr=0.1, betas=[0.5, 0.9], eps=1e-8).param_groups[0]["betas"] == (0.5, 0.9)


def test_an_unknown_option_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"RMSprop has no option weigth_decay.*weight_decay"):
        rmsprop(params(), lr=0.1, alpha=0.9, eps=1e-3, weigth_decay=1e-5)
