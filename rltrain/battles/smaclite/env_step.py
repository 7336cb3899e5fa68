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

from rltrain.battles.engine.episode import begin_step, end_step
from rltrain.battles.engine.kernel import njit
from rltrain.battles.smaclite.combat import choose_desires, drop_targets, give_commands
from rltrain.battles.smaclite.walls import choose_velocities
from rltrain.battles.smaclite.weapons import act_in_turn


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
