import numpy as np
import pytest
import torch

from rltrain.algo.loss.distributional import categorical_projection, quantile_huber

SUPPORT = torch.tensor([-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 1.0, [0.2, 0.3, 0.5]),  # every atom falls on an atom
        (1.0, 1.0, [0.0, 0.2, 0.8]),  # … the greatest beyond the support
        (0.0, 0.5, [0.1, 0.65, 0.25]),
        (0.25, 0.0, [0.0, 0.75, 0.25]),  # terminated: all at the reward
        (-1.0, 0.0, [1.0, 0.0, 0.0]),
        (9.0, 1.0, [0.0, 0.0, 1.0]),
        (-9.0, 1.0, [1.0, 0.0, 0.0]),
    ],
)
def test_categorical_projection_by_hand(reward, discount, expected):
    m = categorical_projection(
        torch.tensor([0.2, 0.3, 0.5]), SUPPORT, torch.tensor(reward), torch.tensor(discount)
    )
    assert m.tolist() == pytest.approx(expected)


def test_categorical_projection_equals_the_papers_loop():
    """Bellemare et al. 2017, algorithm 1, in double precision; a whole b keeps all of its mass."""
    rng = np.random.default_rng(0)
    support = torch.linspace(-10, 10, 51)
    prob = rng.dirichlet(np.ones(51), 40)
    reward = np.concatenate([rng.normal(0, 8, 30), 0.4 * np.arange(-5, 5)])
    discount = np.concatenate([rng.choice([0, 0.99, 0.5], 30), np.ones(10)])
    expected = np.zeros((40, 51))
    for row in range(40):
        for j in range(51):
            moved = np.clip(reward[row] + discount[row] * (-10 + 0.4 * j), -10, 10)
            b = round((moved + 10) / 0.4, 9)
            low, high = int(np.floor(b)), int(np.ceil(b))
            expected[row, low] += prob[row, j] * (1.0 if low == high else high - b)
            expected[row, high] += prob[row, j] * (b - low)
    prob, reward, discount = (torch.from_numpy(x).float() for x in (prob, reward, discount))
    ours = categorical_projection(prob, support, reward, discount)
    assert ours.numpy() == pytest.approx(expected, abs=1e-5)
    assert ours.sum(-1).numpy() == pytest.approx(np.ones(40), abs=1e-5)


@pytest.mark.parametrize(
    ("error", "tau", "kappa", "expected"),
    [
        (0.5, 0.25, 1.0, 0.25 * 0.125),  # the quantile is too low
        (-0.5, 0.25, 1.0, 0.75 * 0.125),  # … too high
        (3.0, 0.25, 1.0, 0.25 * 2.5),
        (-3.0, 0.9, 2.0, 0.1 * 4 / 2),
        (3.0, 0.9, 0.0, 0.9 * 3),
        (-3.0, 0.9, 0.0, 0.1 * 3),
        (0.0, 0.9, 1.0, 0),
    ],
)
def test_quantile_huber_by_hand(error, tau, kappa, expected):
    loss = quantile_huber(torch.tensor([[float(error)]]), torch.tensor([tau]), kappa)
    assert loss.item() == pytest.approx(expected)


def test_quantile_levels_belong_to_the_learned_quantiles():
    """Rows are learned quantiles, columns samples of the target."""
    loss = quantile_huber(torch.ones(2, 3), torch.tensor([0.25, 0.75]), 1.0)
    assert loss.tolist() == [[0.125] * 3, [0.375] * 3]
