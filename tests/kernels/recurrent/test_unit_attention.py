"""Attention to units and values of attacks in compiled code are those of the plain modules."""

import copy

import pytest
import torch

from rltrain import kernels
from rltrain.algo.network.unit_agents import AttackValues, UnitAttention
from rltrain.kernels.recurrent import unit_attention

KINDS = "attention", "attack"


def problem(kind, shape, n_units=(3, 4), sizes=(5, 2), n_hidden=6, width=8, heads=2, seen=0.6):
    """A plain module, its compiled twin, hidden states and observations, some of whose units are
    not there; the second row sees none.
    """
    torch.manual_seed(0)
    start, blocks = 3, {}
    for name, count, size in zip(("enemies", "allies"), n_units, sizes, strict=True):
        blocks[name] = {"start": start, "count": count, "size": size}
        start += count * size + 1
    obs = torch.randn(*shape, start + 2)
    for block in blocks.values():
        rows = obs[..., block["start"] :][..., : block["count"] * block["size"]]
        rows = rows.unflatten(-1, (block["count"], block["size"]))
        rows *= (torch.rand(rows.shape[:-1]) < seen).unsqueeze(-1)
        rows.flatten(0, -3)[1:2] = 0
    plain = (
        UnitAttention(blocks, n_hidden, width, heads)
        if kind == "attention"
        else AttackValues(blocks["enemies"], n_hidden, width)
    )
    compiled = copy.deepcopy(plain)
    kernels.compile_agents(compiled)
    return plain, compiled, torch.randn(*shape, n_hidden, requires_grad=True), obs


def results(module, x, obs):
    """The values and the gradients of everything."""
    values = module(x, obs)
    toward = torch.randn(values.shape, generator=torch.Generator().manual_seed(1))
    grads = torch.autograd.grad(values, [x, *module.parameters()], toward)
    return [values.detach(), *grads]


def require_equal(plain, compiled, x, obs, atol=6e-6):
    for ours, theirs in zip(results(compiled, x, obs), results(plain, x, obs), strict=True):
        scale = theirs.nan_to_num().abs().amax().clamp(min=1)
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=atol, equal_nan=True)


def counted(monkeypatch):
    """How often the compiled kernel runs from now on."""
    runs, run = [], unit_attention._run
    monkeypatch.setattr(unit_attention, "_run", lambda *words: (runs.append(1), run(*words)))
    return runs


@pytest.mark.parametrize("shape", [(2,), (3, 2), (257, 3), (40, 2, 8)], ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"n_units": (1, 1), "sizes": (1, 1), "n_hidden": 1, "width": 1, "heads": 1},
        {"n_units": (27, 30), "sizes": (9, 12), "n_hidden": 64, "width": 32, "heads": 4},
        {"n_units": (10, 9), "sizes": (10, 12), "n_hidden": 33, "width": 65, "heads": 8},
        {"seen": 0.0},
        {"seen": 1.0},
    ],
    ids=["small", "one", "large", "odd", "none", "all"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_plain_module(kind, sizes, shape, monkeypatch):
    runs = counted(monkeypatch)
    require_equal(*problem(kind, shape, **sizes))
    assert len(runs) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_logits_that_saturate_and_units_that_are_not_numbers(kind):
    plain, compiled, x, obs = problem(kind, (40, 2))
    require_equal(plain, compiled, (x.detach() * 100).requires_grad_(), obs, atol=1e-4)
    obs[3, 0, 3] = torch.nan
    require_equal(plain, compiled, x, obs)


@pytest.mark.parametrize("attends", [True, False])
def test_any_number_of_threads_gives_the_same_bytes(attends):
    _, module, _, obs = problem("attention", (700, 2))
    blocks, layers = list(module.blocks.values()), list(module.embed.values())
    n_kinds = 2 if attends else 1
    query = torch.randn(700, 2, n_kinds, 8, requires_grad=True)
    before, found = torch.get_num_threads(), []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        values = unit_attention._over_units(attends, blocks[:n_kinds], layers[:n_kinds], query, obs)
        wanted = [query, *(p for layer in layers[:n_kinds] for p in layer.parameters())]
        found.append([values.detach(), *torch.autograd.grad(values.square().sum(), wanted)])
    torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_kernel_does_not_compute_is_plain(kind, monkeypatch):
    runs = counted(monkeypatch)
    plain, compiled, x, obs = problem(kind, (4, 2))
    wanted = obs.clone().requires_grad_()
    ours, theirs = (torch.autograd.grad(m(x, wanted).sum(), wanted)[0] for m in (compiled, plain))
    torch.testing.assert_close(ours, theirs)
    double = copy.deepcopy(compiled).double()
    assert double(x.double(), obs.double()).dtype == torch.float64
    seen = []
    next(compiled.children()).register_forward_hook(lambda *_: seen.append(1))
    if kind == "attack":
        compiled(x, obs)
        assert seen
    many = problem(kind, (4, 2), heads=9)[1:]
    many[0](*many[1:])
    assert len(runs) == (kind == "attack")


def test_sizes_that_do_not_fit_are_refused():
    _, compiled, x, obs = problem("attention", (4, 2))
    with pytest.raises(ValueError, match="expected units of"):
        compiled(x, obs[..., :9])
    with pytest.raises(ValueError, match="as many queries"):
        compiled(x[:3], obs)
