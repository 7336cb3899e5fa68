"""Compiling: a function is compiled for one signature, and not again for an index of a different
type, since a helper's copies are compiled and optimized in all of its callers, too.
"""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from rltrain import kernels
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.policy import Policy
from rltrain.kernels import acting_kernel
from rltrain.kernels.layers import stack_kernel, td_step_kernel
from rltrain.kernels.recurrent import team_step_kernel
from rltrain.types import Clock
from tests.algo.batches import SPEC, make_batch, make_model

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
STEPS = td_step_kernel.step, team_step_kernel.step, acting_kernel.step
COMPILED = *STEPS, acting_kernel.choose, stack_kernel.expected
RULES = {  # flags
    *("write_surroundings", "push_apart", "preferred", "meet_lines", "nearest", "give_orders"),
}


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


def learned(model, change):
    batch, names = make_batch([5, 3, 1]), ("obs", "avail_actions", "action", "reward", "mask")
    batch = replace(batch, **{name: change(getattr(batch, name)) for name in names})
    loss = kernels.compile_loss(TDLoss(gamma=0.9, double=True, n_step=1), model)
    return loss(model, model, batch, Clock()).gradient


def acted(model, change):
    parts = {"exploration": FixedEpsilon(epsilon=0.5), "rng": np.random.default_rng(0)}
    policy = Policy(agents=model.agents, spec=SPEC, n_envs=3, **parts)
    kernels.compile_policy(policy)
    seen = torch.ones(3, 2, 3), torch.ones(3, 2, 4, dtype=torch.bool)
    return policy.act(*(change(x).numpy() for x in seen), np.zeros(3, bool), Clock())


@pytest.mark.parametrize("network", ["mlp", "gru"])
@pytest.mark.parametrize("compute", [learned, acted])
def test_arrays_that_are_not_contiguous_are_not_compiled_for_again(compute, network):
    """As callbacks and groups of agents make them. Defect: the first one took up to a minute."""
    model = make_model(network, "independent", last_action=False, agent_id=False)
    before, versions = compute(model, lambda x: x), [f.signatures for f in COMPILED]
    after = compute(model, lambda x: x.repeat_interleave(2, -1)[..., ::2])
    np.testing.assert_array_equal(before, after)
    assert [f.signatures for f in COMPILED] == versions


def compiled_more_than_once(*command):
    script = [sys.executable, "-c", SCRIPT, *command]
    answer = subprocess.run(script, check=True, capture_output=True, text=True)
    names = json.loads(answer.stdout.splitlines()[-1])
    return {name for name in names if not name.startswith("ol_")}
