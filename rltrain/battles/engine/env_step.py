"""One env step of a battle under ``rules=sc2``, and of a batch of battles (compiled).

A battle has its own random stream and shares no state with others, so neither the number of battles
nor the number of threads changes a result. A finished battle keeps its last frame until it is
restarted.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from numba import prange

from rltrain.battles.engine.episode import begin_step, end_step, reset_battle
from rltrain.battles.engine.field_of_view import NO_OP, aim
from rltrain.battles.engine.fighting.combat import (
    choose_desires,
    choose_targets,
    renew_orders,
    set_move_goal,
    set_off,
)
from rltrain.battles.engine.fighting.healing import choose_patients, limit_flight, mend, recover
from rltrain.battles.engine.fighting.weapons import (
    explode_killed,
    land_hits,
    turn_turrets,
    use_weapons,
)
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.movement.crowding import flow_around
from rltrain.battles.engine.movement.motion import choose_velocities, move_units
from rltrain.battles.engine.observe import FIRST_ATTACK, NORTH, STOP, write_frame
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, Outcome, P, U

ZERO = F(0)


@njit(forceinline=True)
def give_orders(view, unit, mark, param, affects, enemies, facing, visible, e, action, free):
    """Actions [E, A] of battle e to orders. Repeating an attack keeps its windup, any other order
    cancels it; an attack that the weapon cannot make is refused, and the agent stops."""
    for i in range(view.n_agents):
        a = action[e, i]
        if unit[U.HEALTH, i] <= ZERO:
            continue
        if view.limited and not free and a >= FIRST_ATTACK:
            a = aim(view, param, enemies[e], visible[e], facing[e], i, a)
            if a == NO_OP:
                continue
        target, heals = NO_ONE, param[P.ENERGY, i] > ZERO
        if a >= FIRST_ATTACK:
            target = a - FIRST_ATTACK if heals else enemies[e, a - FIRST_ATTACK]
            if affects[i, target] == Effect.NOTHING:
                a, target = STOP, NO_ONE
        if target == NO_ONE or target != mark[M.TARGET, i]:
            unit[U.WINDUP, i] = ZERO
        mark[M.TARGET, i] = target
        mark[M.ORDER, i] = Order.IDLE
        if a >= FIRST_ATTACK:
            mark[M.ORDER, i] = Order.HEAL if heals else Order.ATTACK
        elif a >= NORTH:
            mark[M.ORDER, i] = Order.MOVE
            set_move_goal(view, unit, i, a)
            set_off(unit, param, i)


@njit()
def step_battle(scene, shown, rule, world, frame, e, action, orders, free):
    """One env step of battle e, which carries out orders [E, A] and records actions [E, A]; as a
    rule the two are the same. ``free`` orders are numbered as in SMAC and may target any unit."""
    unit, mark, A = world.unit[e], world.mark[e], scene.n_agents
    spare, queue = frame.spare[e], frame.queue[e]
    own, hops = e * scene.per_battle, scene.hops
    param, damage, affects = scene.param[own], scene.damage[own], scene.affects[own]
    walls, near_walls = scene.walls, scene.near_walls
    special = scene.special
    begin_step(world, e, action, A)
    give_orders(
        shown,
        unit,
        mark,
        param,
        affects,
        world.enemies,
        world.facing,
        frame.visible,
        e,
        orders,
        free,
    )
    if scene.chases and world.commanded[e] == 0:
        renew_orders(unit, mark, affects, A)
    first = world.clock[e] * scene.loops
    for loop in range(first, first + scene.loops):
        if special:
            land_hits(unit, mark, param, damage, A, loop)
            if scene.heals:
                choose_patients(unit, mark, param, affects)
        choose_targets(unit, mark, param, affects, A, loop)
        choose_desires(unit, mark, param, hops, A)
        if special:
            if scene.heals:
                limit_flight(unit, mark, param, affects)
            turn_turrets(unit, mark, param)
            flow_around(
                unit, mark, param, affects, scene.pathable, scene.any_place, A, loop, queue, spare
            )
        choose_velocities(unit, mark, param, queue)
        move_units(unit, mark, param, walls, near_walls, loop)
        use_weapons(unit, mark, param, damage, affects, A, special, loop, world.rng, e, queue)
        if special:
            if scene.heals:
                mend(unit, mark, param, affects)
            if scene.bursts:
                explode_killed(unit, mark, param, damage, affects, A, loop)
            recover(unit, param)
    end_step(scene, shown, rule, world, frame, e)


@njit(inline="always")
def advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed):
    """Restart, step or (finished, not restarted) leave battle e as it is."""
    if restart[e]:
        reset_battle(scene, shown, world, frame, e, seed[e])
    elif world.outcome[e] != Outcome.RUNNING:
        frame.reward[e] = 0.0
    else:
        step_battle(scene, shown, rule, world, frame, e, action, orders, free)


@njit()
def advance_serial(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """Every battle: restart [E] with seed uint64 [E], or one step with actions and orders int64 [E,
    A]."""
    for e in range(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed)


@njit(parallel=True)
def advance_parallel(scene, shown, rule, world, frame, action, orders, free, restart, seed):
    """``advance_serial`` on several threads, the same bytes."""
    for i in prange(restart.shape[0]):
        e = np.int64(i)  # of the type that is compiled for one thread
        advance_battle(scene, shown, rule, world, frame, e, action, orders, free, restart, seed)


@njit()
def find_illegal(world, avail, action, restart, any_action):
    """Index e * A + i of the first action that is not available in a running battle, or with
    ``any_action`` that does not exist; -1 if there is none."""
    A, n = avail.shape[1], avail.shape[2]
    for e in range(avail.shape[0]):
        if restart[e] or world.outcome[e] != Outcome.RUNNING:
            continue
        for i in range(A):
            a = action[e, i]
            if a < 0 or a >= n or (avail[e, i, a] == 0 and not any_action):
                return e * A + i
    return -1


@njit()
def write_frames(scene, shown, world, frame):
    """All frames again from the worlds, after the worlds were loaded or edited."""
    for e in range(world.clock.shape[0]):
        write_frame(scene, shown, world, frame, e)
