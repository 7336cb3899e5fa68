import copy
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rltrain.algo.network.packing import PackedGRU
from rltrain.battles.engine import compile_cache
from rltrain.common import numba_cache
from rltrain.kernels.recurrent.packed_gru import gru

ROOT = Path(__file__).parents[3]
RAGGED = [37] * 3 + [36, 33, 20, 20, 17, 16, 15, 4, 3, 1, 1]


@pytest.fixture
def two_threads():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(n_threads)


def problem(n_rows, n_in=5, size=7, seed=0):
    """Inputs, first state and cell that want gradients."""
    torch.manual_seed(seed)
    x = torch.randn(sum(n_rows), n_in, requires_grad=True)
    first = torch.randn(n_rows[0], size, requires_grad=True)
    return PackedGRU(n_in, size), x, first, n_rows


def results(recurrence, cell, x, first, n_rows):
    """Hidden states and the gradients of everything."""
    hidden = recurrence(cell, x, first, n_rows)
    toward = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    grads = torch.autograd.grad(hidden, [x, first, *cell.parameters()], toward)
    return [hidden.detach(), *grads]


@pytest.mark.parametrize("n_rows", [[1], [3, 3], [16] * 4, [40] * 5, RAGGED], ids=len)
@pytest.mark.parametrize(("n_in", "size"), [(5, 7), (1, 1), (8, 16), (70, 65), (64, 64)])
def test_equals_the_plain_recurrence(n_rows, n_in, size):
    case = problem(n_rows, n_in, size)
    for ours, plain in zip(results(gru, *case), results(PackedGRU.unroll, *case), strict=True):
        assert (ours - plain).abs().max() <= 2e-6 * max(1, plain.abs().max())


def test_without_gradients_gives_the_same_states():
    cell, x, first, n_rows = problem(RAGGED)
    with torch.no_grad():
        hidden = gru(cell, x, first, n_rows)
    assert torch.equal(hidden, gru(cell, x, first, n_rows))


def test_one_large_step_equals_the_plain_one():
    """Sums of gates far outside of what an exponential can take."""
    cell, x, first, n_rows = problem([4, 4])
    x = (x.detach() * 1e4).requires_grad_()
    for ours, plain in zip(
        results(gru, cell, x, first, n_rows),
        results(PackedGRU.unroll, cell, x, first, n_rows),
        strict=True,
    ):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["x", "first", "weight_ih", "weight_hh", "bias_ih", "bias_hh"])
def test_shows_what_is_not_finite_where_the_plain_recurrence_does(where, bad):
    """A NaN always and everywhere; an infinity may saturate a gate and be gone from the values."""
    cell, x, first, n_rows = problem(RAGGED)
    {"x": x, "first": first, **dict(cell.named_parameters())}[where].data.view(-1)[1] = bad
    ours, plain = (
        [bool(result.isfinite().all()) for result in results(recurrence, cell, x, first, n_rows)]
        for recurrence in (gru, PackedGRU.unroll)
    )
    assert ours == plain
    if math.isnan(bad):
        assert not any(ours[:1] + ours[3:])


def test_nan_stays_in_its_own_sequence():
    cell, x, first, n_rows = problem([3, 2, 2])
    x.data[4, 0] = torch.nan  # row 1 of step 1
    bad = gru(cell, x, first, n_rows).isnan().any(1)
    assert bad.tolist() == [False, False, False, False, True, False, True]


@pytest.mark.slow
def test_runs_and_threads_agree_to_the_last_bit(two_threads):
    case = problem([100] * 10 + RAGGED, 64, 64)
    hidden = []
    for n_threads in (1, 2, 2, 1):
        torch.set_num_threads(n_threads)
        hidden.append(results(gru, *case))
    for other in hidden[1:]:
        assert all(torch.equal(a, b) for a, b in zip(hidden[0], other, strict=True))


def test_a_second_backward_gives_the_same():
    cell, x, first, n_rows = problem(RAGGED)
    loss = gru(cell, x, first, n_rows).square().sum()
    once = torch.autograd.grad(loss, x, retain_graph=True)
    assert torch.equal(once[0], torch.autograd.grad(loss, x)[0])


def test_inputs_may_lie_in_memory_in_any_way():
    cell, x, first, n_rows = problem([3, 3])
    other_x, other_first = (t.detach().t().clone().t().requires_grad_() for t in (x, first))
    expected = results(gru, cell, x, first, n_rows)
    torch.testing.assert_close(results(gru, cell, other_x, other_first, n_rows), expected)


def test_other_types_take_the_plain_recurrence():
    cell, x, first, n_rows = problem(RAGGED)
    cell = copy.deepcopy(cell).double()
    hidden = gru(cell, x.double(), first.double(), n_rows)
    assert torch.equal(hidden, PackedGRU.unroll(cell, x.double(), first.double(), n_rows))


@pytest.mark.slow
def test_numba_is_imported_by_the_first_call_only():
    code = (
        "import sys; from rltrain.algo import learner, loss, mixer; "
        "from rltrain.kernels.layers import td_step; "
        "from rltrain.kernels.recurrent import packed_gru; "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_cache_follows_the_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("A = 1")
    other.write_text("A = 2")
    folder = numba_cache.cache_folder(str(one))
    assert folder.is_relative_to(tmp_path / "rltrain")
    assert numba_cache.cache_folder(str(other)) != folder
    other.write_text("A = 1")
    numba_cache.cache_folder.cache_clear()
    assert numba_cache.cache_folder(str(other)) == folder


def test_decorating_leaves_the_cache_folder_of_others_alone(monkeypatch):
    monkeypatch.setattr(compile_cache.settings, "CACHE_DIR", "elsewhere")
    numba_cache.njit(__file__)(lambda: 0)
    assert compile_cache.settings.CACHE_DIR == "elsewhere"
