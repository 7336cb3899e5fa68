"""One env step under ``rules=smaclite``: the simulation of SMAClite (Michalski et al. 2023) behind
SMAC's interface (compiled).

Only what happens inside the ticks is SMAClite's, and its reward for damage: all of it is paid, and
recovery costs nothing. Everything around follows SMAC instead: agents sorted by type and place,
enemies in SMAC's order of types, type bits, cooldowns in ticks over SMAC's divisors, time limits
from the start, a win when only healers are left and no win when no unit is, and the reward for
killed enemies also for banelings that explode.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from rltrain.common.numba_cache import prange
from rltrain.env.smac.engine.env_step import begin_step, end_step, reset_battle
from rltrain.env.smac.engine.kernel import njit
from rltrain.env.smac.engine.world import Outcome
from rltrain.env.smac.smaclite.combat import choose_desires, drop_targets, give_commands
from rltrain.env.smac.smaclite.walls import choose_velocities
from rltrain.env.smac.smaclite.weapons import act_in_turn


@njit()
def step_battle(scene, shown, rule, world, frame, e, action, orders, free):
    """One env step of battle e: actions [E, A] are remembered, orders [E, A] (as a rule the same)
    carried out; ``free`` ones count as SMAC's actions do, and may aim at any unit."""
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
def advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed):
    """Restart, step or (finished, not restarted) leave battle e as it is."""
    if restart[e]:
        reset_battle(scene, shown, world, frame, e, seed[e])
    elif world.outcome[e] == Outcome.RUNNING:
        step_battle(scene, shown, rule, world, frame, e, action, orders, free)
    else:
        frame.reward[e] = 0.0


@njit()
def advance_serial(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """Every battle: restart [E] with seed uint64 [E], or one step with actions and orders int64 [E,
    A]."""
    for e in range(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed)


@njit(parallel=True)
def advance_parallel(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """``advance_serial`` on several threads, the same bytes."""
    for e in prange(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed)
