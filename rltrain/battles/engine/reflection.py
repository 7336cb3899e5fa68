"""Battles as the enemies' side sees them, and the orders that it gives (compiled).

A battle is written into a second ``World``, in which the enemies are the agents and the map is
turned by 180 degrees. Its frame and its orders then come from the code that agents use.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from rltrain.battles.engine.env_step import give_orders
from rltrain.battles.engine.episode import show
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.observe import SIZE, write_frame
from rltrain.battles.engine.world import NO_ONE, M, Order, Outcome, U

ZERO = F(0)


@njit()
def reflect(world, other, order, place, e):
    """Write what observations and orders read of battle e into ``other``; unit j there is unit
    order[e, j] here, and unit i here is place[e, i] there."""
    unit, mark, seen, marks = world.unit[e], world.mark[e], other.unit[e], other.mark[e]
    for j in range(unit.shape[1]):
        i = order[e, j]
        for row in (U.HEALTH, U.SHIELD, U.COOLDOWN, U.WINDUP, U.ENERGY):
            seen[row, j] = unit[row, i]
        for row in (U.X, U.Y):
            seen[row, j] = SIZE - unit[row, i]
        for row in (U.VX, U.VY, U.UX, U.UY):
            seen[row, j] = -unit[row, i]
        target = mark[M.TARGET, i]
        marks[M.ORDER, j] = mark[M.ORDER, i]
        marks[M.TARGET, j] = place[e, target] if target != NO_ONE else NO_ONE
    outcome = world.outcome[e]
    if outcome == Outcome.WIN:
        other.outcome[e] = Outcome.DEFEAT
    elif outcome == Outcome.DEFEAT:
        other.outcome[e] = Outcome.WIN
    else:
        other.outcome[e] = outcome
    other.clock[e] = world.clock[e]


@njit()
def return_orders(world, other, order, n_agents, e):
    """The orders of the first ``n_agents`` units of ``other``, back into battle e."""
    unit, mark, seen, marks = world.unit[e], world.mark[e], other.unit[e], other.mark[e]
    for j in range(n_agents):
        i = order[e, j]
        if unit[U.HEALTH, i] <= ZERO:
            continue
        unit[U.WINDUP, i] = seen[U.WINDUP, j]
        target = marks[M.TARGET, j]
        mark[M.ORDER, i] = marks[M.ORDER, j]
        mark[M.TARGET, i] = order[e, target] if target != NO_ONE else NO_ONE
        if marks[M.ORDER, j] == Order.MOVE:
            unit[U.GOAL_X, i], unit[U.GOAL_Y, i] = (
                SIZE - seen[U.GOAL_X, j],
                SIZE - seen[U.GOAL_Y, j],
            )
            for row in (U.VX, U.VY, U.UX, U.UY):
                unit[row, i] = -seen[row, j]


@njit()
def command(scene, shown, world, other, frame, order, action, restart):
    """Actions [E, M] of the enemies' side to orders, in the running battles that it commands."""
    for e in range(action.shape[0]):
        if world.commanded[e] == 0 or world.outcome[e] != Outcome.RUNNING or restart[e]:
            continue
        for j in range(scene.n_agents):
            other.last_action[e, j] = action[e, j]
        own = e * scene.per_battle
        give_orders(
            shown, other.unit[e], other.mark[e], scene.param[own], scene.affects[own],
            other.enemies, other.facing, frame.visible, e, action, False,
        )  # fmt: skip
        return_orders(world, other, order, scene.n_agents, e)


@njit()
def observe(scene, shown, world, other, frame, order, place, again):
    """The frames of the battles that the enemies' side commands; elsewhere it can do nothing.
    ``again``: those that were shown before, after the worlds were loaded."""
    for e in range(order.shape[0]):
        if world.commanded[e] == 0:
            frame.obs[e] = ZERO
            frame.state[e] = ZERO
            frame.avail[e] = 0
            frame.avail[e, :, 0] = 1
        elif again:
            reflect(world, other, order, place, e)
            write_frame(scene, shown, other, frame, e)
        elif world.outcome[e] == Outcome.RUNNING or other.outcome[e] == Outcome.RUNNING:
            reflect(world, other, order, place, e)
            show(scene, shown, other, frame, e)
