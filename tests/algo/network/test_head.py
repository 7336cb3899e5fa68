import math

import pytest
import torch
from torch import nn

from rltrain.algo.network.head import Head, NoisyLinear, perceptron
from tests.algo.batches import DISTRIBUTIONS


def make_head(distribution="scalar", **changes):
    torch.manual_seed(0)
    parts = {"n_in": 6, "n_actions": 3, "hidden_sizes": []}
    parts |= {"dueling": False, "sigma": None, "layer_norm": False}
    return Head(distribution=DISTRIBUTIONS[distribution], **{**parts, **changes})


def inputs(distribution, n=5):
    torch.manual_seed(1)
    features = torch.randn(n, 6)
    implicit = DISTRIBUTIONS[distribution].implicit
    return (features, torch.rand(n, 4)) if implicit else (features,)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize(
    ("distribution", "n_outputs"),
    [("scalar", 1), ("categorical", 5), ("quantile", 3), ("implicit_quantile", 4)],
)
def test_every_action_has_its_outputs(distribution, n_outputs, dueling):
    head = make_head(distribution, dueling=dueling, hidden_sizes=[7])
    assert head(*inputs(distribution)).shape == (5, 3, n_outputs)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_dueling_adds_the_value_to_advantages_centered_over_the_actions(distribution):
    """Output by output: an atom's mean over actions is the value stream's logit of that atom."""
    head = make_head(distribution, dueling=True)
    given = inputs(distribution)
    out = head(*given)
    x = given[0]
    if head.embed is not None:
        levels = torch.cos(given[1].unsqueeze(-1) * math.pi * torch.arange(4))
        x = x.unsqueeze(1) * head.embed(levels)  # [X, K, F]
    value = head.value(x) if head.embed is None else head.value(x).squeeze(-1)  # [X, K]
    torch.testing.assert_close(out.mean(1), value)
    advantage = head.advantage(x)
    advantage = advantage.view(5, 3, -1) if head.embed is None else advantage.transpose(1, 2)
    torch.testing.assert_close(out[:, 0] - out[:, 1], advantage[:, 0] - advantage[:, 1])


def test_a_dueling_categorical_head_has_a_value_for_every_atom():
    """Defect: one value for all atoms cancels in the softmax, and the value stream never learns."""
    head, distribution = make_head("categorical", dueling=True), DISTRIBUTIONS["categorical"]
    q = distribution.mean(head(*inputs("categorical")))
    grads = torch.autograd.grad(q.square().sum(), list(head.value.parameters()))
    assert all(grad.abs().max() > 1e-4 for grad in grads)


def test_categorical_probabilities_of_every_action_sum_to_one():
    """Defect: with dueling the softmax ran over the actions."""
    head, distribution = make_head("categorical", dueling=True), DISTRIBUTIONS["categorical"]
    logits = head(*inputs("categorical"))
    prob = logits.exp() / logits.exp().sum(2, keepdim=True)  # [X, A, K]
    expected = (prob * distribution.support).sum(2)
    torch.testing.assert_close(distribution.mean(logits), expected)


def test_an_implicit_head_multiplies_features_by_an_embedding_of_cosines():
    """cos(π i τ), i = 0 … 3, through a layer and a ReLU (Dabney et al. 2018b, equation 4)."""
    head = make_head("implicit_quantile")
    features, tau = inputs("implicit_quantile")
    layer = head.embed[0]
    for k in range(4):
        cosines = torch.stack([torch.cos(math.pi * i * tau[:, k]) for i in range(4)], -1)
        expected = head.advantage(features * layer(cosines).relu())
        torch.testing.assert_close(head(features, tau)[:, :, k], expected)


def test_layers_are_linear_then_norm_then_relu():
    kinds = [type(layer) for layer in perceptron([4, 3, 2], None, True)]
    assert kinds == [nn.Linear, nn.LayerNorm, nn.ReLU] * 2


def test_every_layer_of_a_noisy_head_is_noisy():
    head = make_head(sigma=0.5, hidden_sizes=[4], dueling=True)
    linear = [m for m in head.modules() if isinstance(m, nn.Linear | NoisyLinear)]
    assert [type(layer) for layer in linear] == [NoisyLinear] * 4


def test_noisy_layers_are_silent_in_evaluation():
    """Defect: noise was active in tests."""
    layer, x = NoisyLinear(4, 3, 0.5).eval(), torch.randn(2, 4)
    state = torch.get_rng_state()
    torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)
    assert torch.equal(torch.get_rng_state(), state)


def test_noisy_layers_draw_noise_for_every_call():
    layer, x = NoisyLinear(4, 3, 0.5), torch.randn(2, 4)
    assert not torch.equal(layer(x), layer(x))


def test_noisy_layers_start_uniform_with_constant_noise():
    """Defect: all weights began at one constant. Fortunato et al. 2018, section 3.2."""
    torch.manual_seed(0)
    layer = NoisyLinear(100, 50, 0.5)
    for weight in (layer.weight, layer.bias):
        assert 0.09 < weight.abs().max() <= 0.1
        assert weight.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.2)
    assert layer.weight_sigma.unique().tolist() == pytest.approx([0.05])
    assert layer.bias_sigma.unique().tolist() == pytest.approx([0.05])


def test_noise_is_factorised():
    """W + σ f(a) f(b)', f(x) = sign(x) √|x|: the noise of all weights is an outer product."""
    layer = NoisyLinear(4, 3, 0.5)
    with torch.no_grad():
        layer.weight.zero_(), layer.bias.zero_(), layer.bias_sigma.zero_()
    torch.manual_seed(5)
    noise = layer(torch.eye(4)).T  # [3, 4]
    torch.manual_seed(5)
    a, b = torch.randn(4), torch.randn(3)
    f_a, f_b = (x.sign() * x.abs().sqrt() for x in (a, b))
    torch.testing.assert_close(noise.detach(), layer.weight_sigma.detach() * torch.outer(f_b, f_a))


def test_the_noise_of_biases_is_that_of_the_outputs():
    layer = NoisyLinear(4, 3, 0.5)
    torch.manual_seed(5)
    noise = layer(torch.zeros(4)) - layer.bias
    torch.manual_seed(5)
    torch.randn(4)
    b = torch.randn(3)
    torch.testing.assert_close(noise, layer.bias_sigma * b.sign() * b.abs().sqrt())


def test_noise_is_learned():
    layer = NoisyLinear(4, 3, 0.5)
    layer(torch.ones(2, 4)).sum().backward()
    assert layer.weight_sigma.grad.any()
    assert layer.bias_sigma.grad.any()
