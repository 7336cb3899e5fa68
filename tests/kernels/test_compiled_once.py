"""Compiling: a function is compiled for one signature, and not again for an index of a different
type, since a helper's copies are compiled and optimized in all of its callers, too.
"""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rltrain import kernels
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.loss.td import TDLoss
from rltrain.kernels import acting_kernel
from rltrain.kernels.acting import choose
from rltrain.kernels.layers import stack_kernel, td_step_kernel
from rltrain.kernels.recurrent import team_step_kernel
from rltrain.types import Clock
from tests.algo.batches import make_batch, make_model

SCRIPT = """
import gc, json, runpy, sys
from numba.core.registry import CPUDispatcher
runpy.run_module(sys.argv.pop(), run_name="__main__")
functions = [f for f in gc.get_objects() if isinstance(f, CPUDispatcher)]
names = [f.py_func.__qualname__ for f in functions if len(f.signatures) > 1]
print(json.dumps(names))
"""
TILES = {"multiply", "add_outer", "add_product", "take_matrix"}  # strides known beforehand
FEW_LINES = {
    *("copy_column", "below", "place", "move", "draw_team", "finish_window", "best_action"),
    "_call",
}
DISTRIBUTIONS = {
    *("step", "evaluate", "outputs", "expected", "behind_trunk", "differentiate", "distances"),
    *("means", "take_rows", "sized", "fits", "cosines"),
}
RULES = {"write_surroundings", "push_apart", "preferred", "meet_lines", "nearest"}  # flags


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["rltrain.kernels", "rltrain.battles", "rltrain.env.games", "rltrain.buffer"]
)
def test_functions_are_compiled_for_one_signature(module, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = TILES | FEW_LINES | DISTRIBUTIONS | RULES
    assert compiled_more_than_once(module) <= known


@pytest.mark.slow
def test_the_backward_pass_that_is_compiled_first_is_the_one_that_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled_more_than_once("td_step", "rltrain.kernels") <= TILES | FEW_LINES


def part_of_more(x):
    """The same numbers in a larger array."""
    whole = torch.as_tensor(x).repeat_interleave(2, -1)[..., ::2]
    return whole if isinstance(x, torch.Tensor) else whole.numpy()


def learned(network, change):
    names = "obs", "avail_actions", "action", "reward", "mask", "last_action"
    batch = make_batch([5, 3, 1], seed=1)
    batch = replace(batch, **{name: change(getattr(batch, name)) for name in names})
    model = make_model(network, "independent")
    loss = kernels.compile_loss(TDLoss(gamma=0.9, double=True, n_step=1), model)
    return loss(model, model, batch, Clock()).gradient


def stepped(network, change):
    agents = make_model(network, "independent", last_action=False, agent_id=False).agents
    kernels.compile_agents(agents)
    given = torch.ones(3, 2, 3), torch.ones(3, 2, dtype=torch.int64)
    with torch.no_grad():
        return agents.step(*map(change, given), torch.ones(3, 2, agents.hidden_dim))[0]


def chosen(change):
    q, available = np.ones((3, 2, 4), np.float32), np.ones((3, 2, 4), bool)
    given = change(q), change(available), Clock(), np.random.default_rng(0)
    return torch.from_numpy(choose(FixedEpsilon(epsilon=0.5), *given))


GIVEN = {
    "td_step": (td_step_kernel.step, partial(learned, "mlp")),
    "team_step": (team_step_kernel.step, partial(learned, "gru")),
    "layers": (stack_kernel.expected, partial(stepped, "mlp")),
    "cells": (acting_kernel.step, partial(stepped, "gru")),
    "choose": (acting_kernel.choose, chosen),
}


@pytest.mark.parametrize("name", GIVEN)
def test_arrays_that_are_not_contiguous_are_not_compiled_for_again(name):
    """As callbacks and groups of agents make them. Defect: the first one took up to a minute."""
    kernel, compute = GIVEN[name]
    before = compute(lambda x: x)
    n_versions = len(kernel.signatures)
    assert torch.equal(compute(part_of_more), before)
    assert len(kernel.signatures) == n_versions


def compiled_more_than_once(*command):
    script = [sys.executable, "-c", SCRIPT, *command]
    answer = subprocess.run(script, check=True, capture_output=True, text=True)
    names = json.loads(answer.stdout.splitlines()[-1])
    return {name for name in names if not name.startswith("ol_")}
