"""Attention to units and values of attacks on the CPU, without the units that are not there.

Compiled kernels embed units and compare them with queries; matrix products over all rows are
PyTorch's. The plain modules compute other devices, other types than float32, and gradients by
observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from rltrain.algo.network.unit_agents import AttackValues, Block, UnitAttention
from rltrain.kernels.layers.stack import readable
from rltrain.kernels.module_watch import ModuleWatch

MOST_QUERIES = 8
"""The number that fits into a register of every CPU."""


def compiled_forward(part: UnitAttention | AttackValues) -> Callable[..., Tensor] | None:
    """The counterpart of ``forward`` where linear layers embed units."""
    layers = part.embed.values() if isinstance(part.embed, nn.ModuleDict) else [part.embed]
    if not all(type(layer) is nn.Linear and readable(layer) for layer in layers):
        return None
    return partial(attention if isinstance(part, UnitAttention) else attack, ModuleWatch(part))


def attention(watch: ModuleWatch, part: UnitAttention, x: Tensor, obs: Tensor) -> Tensor:
    """``UnitAttention.forward``."""
    if not _compiles(x, obs, part.heads, watch):
        return UnitAttention.forward(part, x, obs)
    query = part.query(F.relu(x)).unflatten(-1, (part.heads, -1)) * part.scale
    layers = [part.embed[name] for name in part.blocks]
    attended = _over_units(True, [*part.blocks.values()], layers, query, obs)
    joined: Tensor = part.out(attended.flatten(-2))
    return joined


def attack(watch: ModuleWatch, part: AttackValues, hidden: Tensor, obs: Tensor) -> Tensor:
    """``AttackValues.forward``."""
    if not _compiles(hidden, obs, 1, watch):
        return AttackValues.forward(part, hidden, obs)
    query, constant = part.queries(hidden)
    products = _over_units(False, [part.block], [part.embed], query.unsqueeze(-2), obs)
    return products.squeeze(-2) + constant.unsqueeze(-1)


def _compiles(x: Tensor, obs: Tensor, n_queries: int, watch: ModuleWatch) -> bool:
    usual = x.is_cpu and x.dtype == obs.dtype == torch.float32 and not obs.requires_grad
    return usual and n_queries <= MOST_QUERIES and watch.plain()


def _over_units(
    attends: bool, blocks: Sequence[Block], layers: Sequence[Any], query: Tensor, obs: Tensor
) -> Tensor:
    """The kernel with queries [..., Q, D] and observations [..., O].

    Raises:
        ValueError: sizes that do not fit.
    """
    sizes = [block["size"] for block in blocks]
    end = max(block["start"] + block["count"] * block["size"] for block in blocks)
    fitting = sizes == [layer.in_features for layer in layers] and end <= obs.shape[-1]
    widths = {query.shape[-1], *(layer.out_features for layer in layers)}
    if not (fitting and query.shape[:-2] == obs.shape[:-1] and len(widths) == 1):
        raise ValueError(
            f"expected units of {sizes} numbers in observations of at least {end} and as many "
            f"queries, got {list(obs.shape)} and {list(query.shape)}."
        )
    places = tuple((block["start"], block["count"], block["size"]) for block in blocks)
    weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    rows = obs.flatten(0, -2), query.flatten(0, -3)
    result: Tensor = _OverUnits.apply(attends, places, *rows, *weights)
    return result.unflatten(0, obs.shape[:-1])


class _OverUnits(torch.autograd.Function):
    """Σ_j softmax_j(q · e_j) e_j, or every q · e_j; e_j = relu(W x_j + b)."""

    @staticmethod
    def forward(
        ctx: Any,
        attends: bool,
        places: tuple[tuple[int, int, int], ...],
        obs: Tensor,
        query: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        from rltrain.kernels.arithmetic.tile_kernel import padded

        results = query.new_empty(*query.shape[:-1], query.shape[-1] if attends else places[0][1])
        width = padded(query.shape[-1])
        layers = [_layer(w, b, width) for w, b in zip(weights[::2], weights[1::2], strict=True)]
        if len(layers) == 1:
            places, layers = (*places, (0, 0, 1)), [*layers, layers[0]]
        none = query.new_empty(0, 1, width)
        _run(attends, obs, places, *layers, query, query, none, none, results)
        ctx.attends, ctx.places, ctx.n_layers = attends, places, len(weights) // 2
        ctx.save_for_backward(obs, query, *layers)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from rltrain.kernels.recurrent.unit_attention_kernel import GROUP

        obs, query, *layers = ctx.saved_tensors
        of_query = torch.empty_like(query, memory_format=torch.contiguous_format)
        n_groups = -(-len(obs) // GROUP)
        sums = [grad.new_zeros(n_groups, *layer.shape) for layer in layers]
        _run(ctx.attends, obs, ctx.places, *layers, query, grad, *sums, of_query)
        of_layers = [each.sum(0)[:, : query.shape[-1]] for each in sums[: ctx.n_layers]]
        of_weights = [each for layer in of_layers for each in (layer[:-1].t(), layer[-1])]
        return None, None, None, of_query, *of_weights


def _layer(weight: Tensor, bias: Tensor, width: int) -> Tensor:
    """W and below it b, [k + 1, width]."""
    layer = torch.cat([weight.t(), bias.unsqueeze(0)])
    return F.pad(layer, (0, width - len(bias)))


def _run(attends: bool, obs: Tensor, places: tuple[object, ...], *tensors: Tensor) -> None:
    """The kernel over all rows, on as many threads as PyTorch may use."""
    from rltrain.common import numba_cache
    from rltrain.kernels.recurrent import unit_attention_kernel as kernel

    every = _array(obs), np.array(places), attends, *map(_array, tensors)
    n_groups = -(-len(obs) // kernel.GROUP)
    n_threads = min(torch.get_num_threads(), numba_cache.MAX_THREADS, n_groups)
    if n_threads <= 1:
        kernel.over_units(0, 1, *every)
    else:
        numba_cache.set_num_threads(n_threads)
        kernel.over_units_parallel(n_threads, every)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()
