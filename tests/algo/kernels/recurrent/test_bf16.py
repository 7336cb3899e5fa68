"""Products of factors rounded to bfloat16 against PyTorch's rounding."""

import numpy as np
import pytest
import torch

from rltrain.algo.kernels.arithmetic import bf16_kernel, product_kernel, tile_kernel
from rltrain.algo.kernels.arithmetic.tile_kernel import padded
from rltrain.algo.kernels.recurrent.learning import CompiledSequenceLoss
from rltrain.common import numba_cache
from rltrain.types import Clock
from tests.algo import batches
from tests.algo.batches import loss_and_grads, make_batch, make_learner, make_model
from tests.algo.kernels.recurrent.test_learning import LENGTHS, td_loss

pytestmark = pytest.mark.skipif(
    not bf16_kernel.SUPPORTED, reason="this CPU does not multiply bfloat16"
)


@numba_cache.njit(__file__, *product_kernel.SOURCES)
def products(x, weight, out, outer):
    """x [R, K] times packed weights, and the transposed x times the result."""
    (n_rows, n), n_columns = x.shape, out.shape[1]
    row, result, sums = (x.reshape(-1), 0, n), (out.reshape(-1), 0, n_columns), outer.reshape(-1)
    product_kernel.multiply(
        result, result, (*row, 1), (weight, 0, tile_kernel.COLUMNS * n, tile_kernel.COLUMNS),
        n_rows, n_columns, n,
    )  # fmt: skip
    product_kernel.add_outer((sums, 0, n_columns), row, result, n, n_columns, n_rows, weight)


def rounded(x):
    return torch.from_numpy(x).bfloat16().double().numpy()


@pytest.mark.parametrize("n_rows", [1, 2, 9])
@pytest.mark.parametrize(("n", "width"), [(1, 5), (31, 64), (48, 80), (65, 130)])
def test_products_are_those_of_rounded_factors(n_rows, n, width):
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(s, dtype=np.float32) for s in ((n_rows, n), (n, width)))
    packed = tile_kernel.packed(weight)
    out = np.ones((n_rows, padded(width)), np.float32)
    outer = np.ones((n, padded(width)), np.float32)
    products(x, bf16_kernel.packed(packed, n), out, outer)
    np.testing.assert_allclose(out[:, :width], 1 + rounded(x) @ rounded(weight), 1e-5, 1e-5)
    np.testing.assert_allclose(outer, 1 + rounded(x).T @ rounded(out), 1e-5, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["independent", "sum", "qmix"])
def test_the_gradient_points_where_that_of_fp32_does(mixer):
    online, target = (make_model("gru", mixer, seed=seed, hidden_dim=24) for seed in range(2))
    batch = make_batch(LENGTHS, cut_off=[0, 2])
    found = [
        loss_and_grads(CompiledSequenceLoss(td_loss(), bf16=bf16), online, target, batch)
        for bf16 in (False, True)
    ]
    whole, half = (torch.cat([g.flatten() for g in each[1:]]) for each in found)
    assert torch.nn.functional.cosine_similarity(whole, half, 0) > 0.999
    assert 0.99 < half.norm() / whole.norm() < 1.01
    assert not torch.equal(whole, half)


@pytest.mark.slow
def test_neither_threads_nor_kept_values_change_a_byte(monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", "compiled")
    found = []
    for n_threads, cache in ((1, None), (3, None), (1, 30_000)):
        torch.set_num_threads(n_threads)
        loss = CompiledSequenceLoss(td_loss(), target_cache=cache, bf16=True)
        learner = make_learner(make_model("gru", "qmix", seed=3), loss=loss)
        for _ in range(4):
            learner.update(make_batch(LENGTHS), Clock())
        found.append(learner.state_dict()["online"].values())
    torch.set_num_threads(1)
    assert all(map(torch.equal, found[0], found[1]))
    assert all(map(torch.equal, found[0], found[2]))


@pytest.mark.slow
def test_nan_reaches_the_loss():
    batch = make_batch([4, 3])
    batch.obs[1, 1] = torch.nan
    model = make_model()
    result = CompiledSequenceLoss(td_loss(), bf16=True)(model, model, batch, Clock())
    assert result.loss_sum.isnan()
