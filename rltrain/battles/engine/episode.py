"""Start of a battle; first and last part of every env step, its outcome and reward (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.field_of_view import forget_all, register
from rltrain.battles.engine.fighting.combat import SCAN_EVERY, choose_desires
from rltrain.battles.engine.kernel import F, draw, njit, seed_stream
from rltrain.battles.engine.movement.motion import LOOP, push_apart
from rltrain.battles.engine.observe import SIZE, value_at, write_frame
from rltrain.battles.engine.world import M, Order, Outcome, P, U

ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)
LAST = np.nextafter(SIZE, ZERO)  # the largest coordinate on the map


@njit()
def reset_battle(scene, shown, world, frame, e, seed):
    """Set start positions, full health and a new random stream; write the first frame."""
    unit, mark = world.unit[e], world.mark[e]
    world.rng[e] = seed_stream(seed)
    own = e * scene.per_battle
    for i in range(unit.shape[1]):
        for row in range(unit.shape[0]):
            unit[row, i] = scene.first_unit[own, row, i]
        for row in range(mark.shape[0]):
            mark[row, i] = scene.first_mark[own, row, i]
    if world.commanded[e] != 0:
        for i in range(scene.n_agents, unit.shape[1]):
            mark[M.ORDER, i], mark[M.ARRIVED, i] = Order.IDLE, 0
    if scene.starts.shape[0] > 0:
        k = int(draw(world.rng, e) * F(scene.starts.shape[0]))
        for i in range(unit.shape[1]):
            unit[U.X, i], unit[U.Y, i] = scene.starts[k, 0, i], scene.starts[k, 1, i]
            unit[U.GOAL_X, i], unit[U.GOAL_Y, i] = scene.starts[k, 2, i], scene.starts[k, 3, i]
    if not scene.smaclite:
        number_enemies(world.enemies, scene.n_agents, world.rng, e)
    for i in range(unit.shape[1]):
        mark[M.PHASE, i] = int(draw(world.rng, e) * F(SCAN_EVERY))
    if scene.span_x != ZERO or scene.span_y != ZERO:
        share = draw(world.rng, e)
        for i in range(unit.shape[1]):
            unit[U.GOAL_X, i] += share * scene.span_x
            unit[U.GOAL_Y, i] += share * scene.span_y
    if scene.jitter != ZERO:
        jitter_starts(scene, unit, mark, world.rng, e)
    if not scene.smaclite:
        set_out(unit, mark, scene.param[own], scene.hops, scene.n_agents)
    world.last_action[e, :] = -1
    world.clock[e] = 0
    world.outcome[e] = Outcome.RUNNING
    frame.reward[e] = 0.0
    forget_all(world.facing[e], world.watcher[e], world.watches[e])
    show(scene, shown, world, frame, e)


@njit()
def number_enemies(enemies, n_agents, rng, e):
    """Number the enemies of battle e: each, in the order of creation, takes the first or the last
    number that is left, with equal probability."""
    first, last = 0, enemies.shape[1] - 1
    for k in range(enemies.shape[1]):
        if draw(rng, e) < HALF:
            enemies[e, first] = n_agents + k
            first += 1
        else:
            enemies[e, last] = n_agents + k
            last -= 1


@njit()
def set_out(unit, mark, param, hops, n_agents):
    """Enemies with an attack-move begin it one loop before the first observation."""
    choose_desires(unit, mark, param, hops, n_agents)
    for i in range(n_agents, unit.shape[1]):
        unit[U.VX, i], unit[U.VY, i] = unit[U.UX, i], unit[U.UY, i]
        unit[U.X, i] += unit[U.VX, i] * LOOP
        unit[U.Y, i] += unit[U.VY, i] * LOOP


@njit()
def jitter_starts(scene, unit, mark, rng, e):
    """Moves every unit, and the end of its attack-move with it, by up to ``scene.jitter`` cells
    along each axis, both within the map; numbers the agents of each type by position again."""
    own = e * scene.per_battle
    param, n_agents = scene.param[own], scene.n_agents
    for i in range(unit.shape[1]):
        dx = scene.jitter * (TWO * draw(rng, e) - ONE)
        dy = scene.jitter * (TWO * draw(rng, e) - ONE)
        x, y = unit[U.X, i] + dx, unit[U.Y, i] + dy
        if param[P.SPEED, i] != ZERO and value_at(scene.pathable, x, y, 0) != 0:
            unit[U.X, i], unit[U.Y, i] = x, y
            unit[U.GOAL_X, i] += dx
            unit[U.GOAL_Y, i] += dy
    push_apart(unit, mark, param, False)
    for i in range(unit.shape[1]):
        for row in (U.X, U.Y, U.GOAL_X, U.GOAL_Y):
            unit[row, i] = min(max(unit[row, i], ZERO), LAST)
    for i in range(1, n_agents):
        k = i
        while (
            k > 0
            and scene.type_bit[own, k] == scene.type_bit[own, k - 1]
            and (unit[U.X, k] < unit[U.X, k - 1])
        ):
            for row in (U.X, U.Y, U.GOAL_X, U.GOAL_Y):
                unit[row, k], unit[row, k - 1] = unit[row, k - 1], unit[row, k]
            k -= 1


@njit(forceinline=True)
def show(scene, shown, world, frame, e):
    """Write the frame of battle e after a reset or a step."""
    if shown.limited:
        register(
            shown, world.unit[e], scene.param[e * scene.per_battle], world.facing[e],
            world.enemies[e], world.watcher[e], world.watches[e], world.blank[e], frame.queue[e],
            world.rng, e,
        )  # fmt: skip
    write_frame(scene, shown, world, frame, e)


@njit(forceinline=True)
def begin_step(world, e, action, n_agents):
    """Record what the reward and the next observations need from before the step."""
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
    commanded = world.commanded[e] != 0
    world.outcome[e] = compute_outcome(
        unit, param, A, scene.heals, commanded, scene.limit, world.clock[e]
    )
    frame.reward[e] = compute_reward(rule, unit, A, world.outcome[e]) * world.factor[e]
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            unit[U.SHIELD, i] = ZERO
    show(scene, shown, world, frame, e)


@njit()
def compute_outcome(unit, param, n_agents, heals, commanded, limit, steps):
    """Outcome after a step, in SMAC's order: defeat, win, no unit left, time limit.

    With healers on the map a team with nothing else left has lost, the agents' one first; then
    there is no draw, except where the enemies are commanded as the agents are.
    """
    allies = enemies = fighters = 0
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] > ZERO:
            fights = param[P.ENERGY, i] == ZERO
            if i >= n_agents:
                enemies += 1
                fighters += fights
            elif fights:
                allies += 1
    if allies == 0:
        if commanded:
            return Outcome.DEFEAT if fighters > 0 else Outcome.DRAW
        return Outcome.DEFEAT if enemies > 0 or heals else Outcome.DRAW
    if fighters == 0:
        return Outcome.WIN
    return Outcome.TIMEOUT if steps >= limit else Outcome.RUNNING


@njit()
def compute_reward(rule, unit, n_agents, outcome):
    """SMAC's reward (float64): damage dealt and kills, absolute value included, then the bonus of
    the end."""
    if rule.reward_sparse:
        reward = 1.0 if outcome == Outcome.WIN else (-1.0 if outcome == Outcome.DEFEAT else 0.0)
        return reward * rule.factor
    gain = loss = 0.0
    for i in range(unit.shape[1]):
        before = np.float64(unit[U.BEFORE, i])
        if before <= 0.0:
            continue
        dies = unit[U.HEALTH, i] <= ZERO
        change = before if dies else before - unit[U.HEALTH, i] - unit[U.SHIELD, i]
        worth = change + rule.reward_death_value if dies else change
        if i >= n_agents:
            gain += worth
        else:
            loss += worth * rule.reward_negative_scale
    reward = gain - loss
    if rule.reward_only_positive:
        reward = max(gain, 0.0) if rule.clamps else abs(gain)
    if outcome == Outcome.WIN:
        reward += rule.reward_win
    elif outcome == Outcome.DEFEAT:
        reward += rule.reward_defeat
    return reward * rule.factor
