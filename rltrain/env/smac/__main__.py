"""``python -m rltrain.env.smac`` compiles the battle engine once, so that the first run does not
have to."""

from __future__ import annotations

import numpy as np


def compile_engine() -> None:
    """Compile every kernel, or load it from the cache."""
    from rltrain.env.smac import engine
    from rltrain.env.smac.battles import Battles
    from rltrain.env.smac.sizes import Options

    battles = Battles(map_name="3m", n_envs=2, options=Options())
    battles.reset({0: 0, 1: 1})
    battles.step(np.ones((2, 3), np.int64))
    battles.refresh()
    action, restart, seed = np.zeros((2, 3), np.int64), np.ones(2, np.bool_), np.zeros(2, np.uint64)
    tables = battles.scene, battles.shown, battles.rule, battles.world, battles.frame
    engine.advance_parallel(*tables, action, action, restart, seed)
    Battles(map_name="terran_5_vs_5", n_envs=1, options=Options()).reset({0: 0})


if __name__ == "__main__":
    compile_engine()
    print("the battle engine is compiled")
