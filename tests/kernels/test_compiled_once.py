"""Compiling: a function is compiled for one signature, and not again for an index of a different
type, since a helper's copies are compiled and optimized in all of its callers, too.
"""

import json
import subprocess
import sys

import pytest

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


def compiled_more_than_once(*command):
    script = [sys.executable, "-c", SCRIPT, *command]
    answer = subprocess.run(script, check=True, capture_output=True, text=True)
    names = json.loads(answer.stdout.splitlines()[-1])
    return {name for name in names if not name.startswith("ol_")}
