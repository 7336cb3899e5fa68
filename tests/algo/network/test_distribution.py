import pytest
import torch

from rltrain.algo.network.distribution import Categorical, Quantile, Scalar
from tests.algo.batches import AGENTS, DISTRIBUTIONS, SPEC, make_batch


def test_scalar_says_the_mean_itself():
    assert Scalar().mean(torch.tensor([[1.0], [2.0]])).tolist() == [1, 2]


def test_categorical_mean_weighs_the_atoms_with_the_softmax_of_its_last_axis():
    """Atoms -1, 0, 1; two actions of equal logits but for one certain outcome each."""
    distribution = Categorical(atoms=3, v_min=-1.0, v_max=1.0)
    assert distribution.support.tolist() == [-1, 0, 1]
    logits = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 100.0], [100.0, 0.0, 0.0]])
    assert distribution.mean(logits).tolist() == pytest.approx([0, 1, -1])


def test_quantile_levels_are_the_midpoints_of_equal_shares():
    distribution = Quantile(quantiles=4)
    assert distribution.tau.tolist() == [0.125, 0.375, 0.625, 0.875]
    assert distribution.mean(torch.tensor([1.0, 2.0, 3.0, 6.0])).item() == 3


@pytest.mark.parametrize(
    "wrong", [{"v_min": 1.0, "v_max": 1.0}, {"v_min": 2.0, "v_max": -2.0}, {"atoms": 1}]
)
def test_a_support_without_extent_is_refused(wrong):
    with pytest.raises(ValueError, match=r"v_min < v_max and at least 2 atoms.*algo.distribution"):
        Categorical(**{"atoms": 5, "v_min": -1.0, "v_max": 1.0, **wrong})


def test_the_values_that_choose_have_quantile_levels_of_their_own():
    """Of the target's levels the values would be the mean of the outputs."""
    torch.manual_seed(0)
    agents = AGENTS["mlp"](spec=SPEC, distribution=DISTRIBUTIONS["implicit_quantile"]).train()
    batch = make_batch([3, 2])
    with torch.no_grad():
        output = agents.unroll(batch)
    assert output.dist.shape[-1] == 2
    assert not torch.allclose(output.q, output.dist.mean(-1))
    learned = agents.unroll(batch)
    torch.testing.assert_close(learned.q[:-1], learned.dist[:-1].mean(-1))


def test_the_support_moves_with_the_network_and_is_not_saved():
    distribution = Categorical(atoms=3, v_min=-1.0, v_max=1.0)
    assert distribution.state_dict() == {}
    assert distribution.to(torch.float64).support.dtype == torch.float64
