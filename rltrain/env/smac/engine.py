"""One env step of one battle, and the batch of them side by side (compiled).

A battle has its own random stream and touches nothing of its neighbours, so neither the number of
battles nor the number of threads changes a result. A finished battle stays frozen on its last frame
until it is told to restart.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.avoidance import choose_velocities, move_units
from rltrain.env.smac.combat import SCAN_EVERY, choose_desires, choose_targets, use_weapons
from rltrain.env.smac.compiled import F, draw, njit, prange, stream_of
from rltrain.env.smac.observe import EAST, FIRST_ATTACK, NORTH, SOUTH, WEST, write_frame
from rltrain.env.smac.world import (
    ATTACK,
    ATTACK_MOVE,
    ATTACKER,
    BEFORE,
    DEFEAT,
    DRAW,
    GOAL_X,
    GOAL_Y,
    HEALTH,
    IDLE,
    MOVE,
    NO_ONE,
    ORDER,
    P_HEALTH,
    P_SHIELD,
    PHASE,
    RUNNING,
    SHIELD,
    TARGET,
    TIMEOUT,
    WIN,
    WINDUP,
    X,
    Y,
)

ZERO = F(0)


@njit()
def reset_battle(scene, shown, world, frame, e, seed):
    """Start positions, full health, a fresh random stream; fills the first frame."""
    unit, mark, A = world.unit[e], world.mark[e], scene.n_agents
    world.rng[e] = stream_of(seed)
    unit[:] = ZERO
    mark[:] = 0
    for i in range(unit.shape[1]):
        unit[X, i], unit[Y, i] = scene.spawn[0, i], scene.spawn[1, i]
        unit[HEALTH, i], unit[SHIELD, i] = scene.param[P_HEALTH, i], scene.param[P_SHIELD, i]
        unit[GOAL_X, i], unit[GOAL_Y, i] = scene.goal[0], scene.goal[1]
        mark[TARGET, i] = mark[ATTACKER, i] = NO_ONE
        mark[ORDER, i] = IDLE if i < A else ATTACK_MOVE
        mark[PHASE, i] = int(draw(world.rng, e) * F(SCAN_EVERY))
    world.last_action[e, :] = -1
    world.clock[e] = 0
    world.outcome[e] = RUNNING
    frame.reward[e] = 0.0
    write_frame(
        scene, shown, unit, world.last_action[e], 0, frame.obs[e], frame.avail[e], frame.state[e]
    )


@njit()
def give_orders(view, unit, mark, action):
    """Actions [A] to orders. Repeating an attack keeps its windup, any other order cancels it."""
    for i in range(view.n_agents):
        a = action[i]
        if unit[HEALTH, i] <= ZERO:
            continue
        target = view.n_agents + a - FIRST_ATTACK if a >= FIRST_ATTACK else NO_ONE
        if target == NO_ONE or target != mark[TARGET, i]:
            unit[WINDUP, i] = ZERO
        mark[TARGET, i] = target
        mark[ORDER, i] = IDLE
        if a >= FIRST_ATTACK:
            mark[ORDER, i] = ATTACK
        elif a >= NORTH:
            mark[ORDER, i] = MOVE
            unit[GOAL_X, i], unit[GOAL_Y, i] = unit[X, i], unit[Y, i]
            if a == NORTH:
                unit[GOAL_Y, i] += view.move_amount
            elif a == SOUTH:
                unit[GOAL_Y, i] -= view.move_amount
            elif a == EAST:
                unit[GOAL_X, i] += view.move_amount
            elif a == WEST:
                unit[GOAL_X, i] -= view.move_amount


@njit()
def step_battle(scene, shown, rule, world, frame, e, action, orders):
    """One env step of battle e: actions [E, A] are remembered, orders [E, A] (as a rule the same)
    carried out."""
    unit, mark, A = world.unit[e], world.mark[e], scene.n_agents
    lines, spare, queue = frame.lines[e], frame.spare[e], frame.queue[e]
    for i in range(unit.shape[1]):
        unit[BEFORE, i] = unit[HEALTH, i] + unit[SHIELD, i]
    for i in range(A):
        world.last_action[e, i] = action[e, i]
    give_orders(shown, unit, mark, orders[e])
    first = world.clock[e] * scene.loops
    for loop in range(first, first + scene.loops):
        choose_targets(unit, mark, scene.param, A, loop)
        choose_desires(unit, mark, scene.param, A)
        choose_velocities(unit, scene.param, scene.walls, scene.near_walls, lines, spare, queue)
        move_units(unit, mark, scene.param, scene.walls, scene.near_walls)
        use_weapons(unit, mark, scene.param, scene.damage, A, loop, world.rng, e, queue)
    world.clock[e] += 1
    world.outcome[e] = judge(unit, A, scene.limit, world.clock[e])
    frame.reward[e] = reward_of(rule, unit, A, world.outcome[e])
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] <= ZERO:
            unit[SHIELD, i] = ZERO
    steps, last_action = world.clock[e], world.last_action[e]
    write_frame(
        scene, shown, unit, last_action, steps, frame.obs[e], frame.avail[e], frame.state[e]
    )


@njit()
def judge(unit, n_agents, limit, steps):
    """Outcome after a step, in SMAC's order: defeat, win, nobody left, time limit."""
    allies = enemies = 0
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] > ZERO:
            if i < n_agents:
                allies += 1
            else:
                enemies += 1
    if allies == 0:
        return DEFEAT if enemies > 0 else DRAW
    if enemies == 0:
        return WIN
    return TIMEOUT if steps >= limit else RUNNING


@njit()
def reward_of(rule, unit, n_agents, outcome):
    """SMAC's reward (float64): damage dealt and kills, absolute value included, then the bonus of
    the end."""
    if rule.sparse:
        reward = 1.0 if outcome == WIN else (-1.0 if outcome == DEFEAT else 0.0)
        return reward * rule.factor
    gain = loss = 0.0
    for i in range(unit.shape[1]):
        before = np.float64(unit[BEFORE, i])
        if before <= 0.0:
            continue
        dies = unit[HEALTH, i] <= ZERO
        change = before if dies else before - unit[HEALTH, i] - unit[SHIELD, i]
        worth = change + rule.death_value if dies else change
        if i >= n_agents:
            gain += worth
        else:
            loss += worth * rule.negative_scale
    reward = abs(gain) if rule.only_positive else gain - loss
    if outcome == WIN:
        reward += rule.win
    elif outcome == DEFEAT:
        reward += rule.defeat
    return reward * rule.factor


@njit(inline="always")
def advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed):
    """Restart, step or (finished, not restarted) leave battle e as it is."""
    if restart[e]:
        reset_battle(scene, shown, world, frame, e, seed[e])
    elif world.outcome[e] == RUNNING:
        step_battle(scene, shown, rule, world, frame, e, action, orders)
    else:
        frame.reward[e] = 0.0


@njit()
def advance_serial(scene, shown, rule, world, frame, action, orders, restart, seed):
    """Every battle: restart [E] with seed uint64 [E], or one step with actions and orders int64 [E,
    A]."""
    for e in range(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed)


@njit(parallel=True)
def advance_parallel(scene, shown, rule, world, frame, action, orders, restart, seed):
    """``advance_serial`` on several threads, the same bytes."""
    for e in prange(restart.shape[0]):
        advance_battle(scene, shown, rule, world, frame, e, action, orders, restart, seed)


@njit()
def find_illegal(world, avail, action, restart):
    """Index e * A + i of the first action that is not available in a running battle, -1 if there is
    none."""
    A, n = avail.shape[1], avail.shape[2]
    for e in range(avail.shape[0]):
        if restart[e] or world.outcome[e] != RUNNING:
            continue
        for i in range(A):
            a = action[e, i]
            if a < 0 or a >= n or avail[e, i, a] == 0:
                return e * A + i
    return -1


@njit()
def write_frames(scene, shown, world, frame):
    """All frames again from the worlds, after the worlds were loaded or edited."""
    for e in range(world.clock.shape[0]):
        unit, last_action, steps = world.unit[e], world.last_action[e], world.clock[e]
        obs, avail, state = frame.obs[e], frame.avail[e], frame.state[e]
        write_frame(scene, shown, unit, last_action, steps, obs, avail, state)
