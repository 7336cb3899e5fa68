"""One env step of one battle, and the batch of them side by side (compiled).

A battle has its own random stream and touches nothing of its neighbors, so neither the number of
battles nor the number of threads changes a result. A finished battle stays frozen on its last frame
until it is restarted.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from rltrain.common.numba_cache import prange
from rltrain.env.smac.engine.combat import (
    SCAN_EVERY,
    choose_desires,
    choose_targets,
    renew_orders,
)
from rltrain.env.smac.engine.field_of_view import (
    NO_OP,
    aim,
    forget_all,
    register,
)
from rltrain.env.smac.engine.healing import choose_patients, limit_flight, mend
from rltrain.env.smac.engine.kernel import (
    F,
    draw,
    njit,
    stream_of,
)
from rltrain.env.smac.engine.movement.avoidance import choose_velocities
from rltrain.env.smac.engine.movement.crowding import flow_around
from rltrain.env.smac.engine.movement.motion import move_units
from rltrain.env.smac.engine.observe import (
    EAST,
    FIRST_ATTACK,
    NORTH,
    SOUTH,
    STOP,
    WEST,
    write_frame,
)
from rltrain.env.smac.engine.outcome import outcome_of, reward_of
from rltrain.env.smac.engine.turret import turn_turrets
from rltrain.env.smac.engine.weapons import (
    explode_killed,
    land_hits,
    recover,
    use_weapons,
)
from rltrain.env.smac.engine.world import NO_ONE, Effect, M, Order, Outcome, P, U

ZERO = F(0)


@njit()
def reset_battle(scene, shown, world, frame, e, seed):
    """Start positions, full health, a fresh random stream; fills the first frame."""
    unit, mark = world.unit[e], world.mark[e]
    world.rng[e] = stream_of(seed)
    own = e * scene.per_battle
    for i in range(unit.shape[1]):
        for row in range(unit.shape[0]):
            unit[row, i] = scene.first_unit[own, row, i]
        for row in range(mark.shape[0]):
            mark[row, i] = scene.first_mark[own, row, i]
    for i in range(unit.shape[1]):
        mark[M.PHASE, i] = int(draw(world.rng, e) * F(SCAN_EVERY))
    if scene.span_x != ZERO or scene.span_y != ZERO:
        share = draw(world.rng, e)
        for i in range(unit.shape[1]):
            unit[U.GOAL_X, i] += share * scene.span_x
            unit[U.GOAL_Y, i] += share * scene.span_y
    world.last_action[e, :] = -1
    world.clock[e] = 0
    world.outcome[e] = Outcome.RUNNING
    frame.reward[e] = 0.0
    forget_all(world.facing[e], world.watcher[e], world.watches[e])
    show(scene, shown, world, frame, e)


@njit(forceinline=True)
def show(scene, shown, world, frame, e):
    """The frame of battle e after it moved on."""
    if shown.limited:
        register(
            shown, world.unit[e], scene.param[e * scene.per_battle], world.facing[e],
            world.watcher[e], world.watches[e], world.blank[e], frame.queue[e], world.rng, e,
        )  # fmt: skip
    write_frame(scene, shown, world, frame, e)


@njit(forceinline=True)
def give_orders(view, unit, mark, param, affects, facing, visible, e, action, free):
    """Actions [E, A] of battle e to orders. Repeating an attack keeps its windup, any other order
    cancels it; an attack that the weapon cannot make is refused, and the agent stops."""
    for i in range(view.n_agents):
        a = action[e, i]
        if unit[U.HEALTH, i] <= ZERO:
            continue
        if view.limited and not free and a >= FIRST_ATTACK:
            a = aim(view, param, visible[e], facing[e], i, a)
            if a == NO_OP:
                continue
        target, heals = NO_ONE, param[P.ENERGY, i] > ZERO
        if a >= FIRST_ATTACK:
            target = a - FIRST_ATTACK if heals else view.n_agents + a - FIRST_ATTACK
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
            unit[U.GOAL_X, i], unit[U.GOAL_Y, i] = unit[U.X, i], unit[U.Y, i]
            if a == NORTH:
                unit[U.GOAL_Y, i] += view.move_amount
            elif a == SOUTH:
                unit[U.GOAL_Y, i] -= view.move_amount
            elif a == EAST:
                unit[U.GOAL_X, i] += view.move_amount
            elif a == WEST:
                unit[U.GOAL_X, i] -= view.move_amount


@njit()
def step_battle(scene, shown, rule, world, frame, e, action, orders, free):
    """One env step of battle e: actions [E, A] are remembered, orders [E, A] (as a rule the same)
    carried out; ``free`` ones count as SMAC's actions do, and may aim at any unit."""
    unit, mark, A = world.unit[e], world.mark[e], scene.n_agents
    lines, spare, queue = frame.lines[e], frame.spare[e], frame.queue[e]
    own, hops = e * scene.per_battle, scene.hops
    param, damage, affects = scene.param[own], scene.damage[own], scene.affects[own]
    walls, near_walls = scene.walls, scene.near_walls
    special = scene.special
    begin_step(world, e, action, A)
    give_orders(shown, unit, mark, param, affects, world.facing, frame.visible, e, orders, free)
    if scene.chases:
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
            flow_around(unit, mark, param, affects, scene.pathable, A, loop, queue, spare)
        choose_velocities(unit, param, walls, near_walls, lines, spare, queue)
        move_units(unit, mark, param, walls, near_walls)
        use_weapons(unit, mark, param, damage, affects, A, special, loop, world.rng, e, queue)
        if special:
            if scene.heals:
                mend(unit, mark, param, affects)
            if scene.bursts:
                explode_killed(unit, mark, param, damage, affects, A, loop)
            recover(unit, param)
    end_step(scene, shown, rule, world, frame, e)


@njit(forceinline=True)
def begin_step(world, e, action, n_agents):
    """What the reward and the next observations must know of the time before the step."""
    unit = world.unit[e]
    for i in range(unit.shape[1]):
        unit[U.BEFORE, i] = unit[U.HEALTH, i] + unit[U.SHIELD, i]
    for i in range(n_agents):
        world.last_action[e, i] = action[e, i]


@njit(forceinline=True)
def end_step(scene, shown, rule, world, frame, e):
    """Outcome, reward and frame after the loops of a step."""
    unit, param, A = world.unit[e], scene.param[e * scene.per_battle], scene.n_agents
    world.clock[e] += 1
    world.outcome[e] = outcome_of(unit, param, A, scene.heals, scene.limit, world.clock[e])
    frame.reward[e] = reward_of(rule, unit, A, world.outcome[e]) * world.factor[e]
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            unit[U.SHIELD, i] = ZERO
    show(scene, shown, world, frame, e)


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


@njit()
def find_illegal(world, avail, action, restart, any_action):
    """Index e * A + i of the first action that is not available in a running battle, or with
    ``any_action`` that there is not; -1 if there is none."""
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
