"""One env step under ``rules=smaclite``: the simulation of SMAClite (Michalski et al. 2023) behind
SMAC's interface (compiled).

Only the ticks and the reward for damage (all damage counts, recovery is not subtracted) are
SMAClite's. Everything else follows SMAC: agents sorted by type and position, enemies in SMAC's
order of types, type bits, cooldowns in ticks over SMAC's divisors, time limits, a win if only
healers are left and none if no unit is, and the reward for killed enemies also for banelings that
explode.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from numba import prange

from rltrain.battles.engine.episode import begin_step, end_step, reset_battle
from rltrain.battles.engine.kernel import njit
from rltrain.battles.engine.world import Outcome
from rltrain.battles.smaclite.combat import act_in_turn, choose_desires, drop_targets, give_commands
from rltrain.battles.smaclite.walls import choose_velocities


@njit()
def step_battle(scene, shown, rule, world, frame, e, action, orders):
    """One env step of battle e, which carries out orders [E, A] and records actions [E, A]; as a
    rule the two are the same."""
    unit, mark, A = world.unit[e], world.mark[e], scene.n_agents
    lines, spare, queue = frame.lines[e], frame.spare[e], frame.queue[e]
    param, damage, affects, walls = scene.param[0], scene.damage[0], scene.affects[0], scene.walls
    begin_step(world, e, action, A)
    give_commands(shown, unit, mark, param, orders[e])
    for _ in range(scene.loops):
        drop_targets(unit, mark, param, A)
        choose_desires(unit, mark, param, affects, A)
        choose_velocities(unit, param, walls, lines, spare, queue)
        act_in_turn(unit, mark, param, damage, affects, world.rng, e, queue)
    end_step(scene, shown, rule, world, frame, e)


@njit(inline="always")
def advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed):
    """Restart, step or (finished, not restarted) leave battle e as it is."""
    if restart[e]:
        reset_battle(scene, shown, world, frame, e, seed[e])
    elif world.outcome[e] != Outcome.RUNNING:
        frame.reward[e] = 0.0
    else:
        step_battle(scene, shown, rule, world, frame, e, action, orders)


@njit()
def advance_serial(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """See ``engine.env_step``; orders are numbered as in SMAC, ``free`` or not."""
    for e in range(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed)


@njit(parallel=True)
def advance_parallel(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """``advance_serial`` on several threads, the same bytes."""
    for i in prange(restart.shape[0]):
        e = np.int64(i)  # of the type that is compiled for one thread
        advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed)
