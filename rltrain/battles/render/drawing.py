"""A battle as numbers and names, for programs that draw it themselves."""

from __future__ import annotations

from functools import cache

import numpy as np

from rltrain.battles.battle_view import BattleView
from rltrain.battles.data import terrain
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.field_of_view import SEEN
from rltrain.battles.engine.world import NO_ONE, M, Order, P, U
from rltrain.battles.render.canvas import FINE, make_canvas

BattleDrawing = tuple[dict[str, object], list[dict[str, object]], dict[str, np.ndarray]]
"""Constants of an episode: looks of the units; numbers by name, [units] or [A, units]."""
ACTIONS = ("no-op", "stop", "north", "south", "east", "west")
LARGEST = {"health": P.HEALTH, "shield": P.SHIELD, "energy": P.ENERGY, "cooldown": P.PERIOD}


def battle_drawing(battles: Battles, index: int) -> BattleDrawing:
    """The current time step of one battle, its enemies by the numbers that agents know them by."""
    view, n_agents = battles.shown, battles.map_data.n_agents
    param, unit = battles.table("param", index), battles.world.unit[index]
    mark, field = battles.world.mark[index], shown_field(battles.map_data.terrain)
    n_turns = view.first_attack - len(ACTIONS)
    world = {
        **field,
        "actions": [*ACTIONS, *(f"turn to {360 * k // n_turns}°" for k in range(n_turns))],
        "first_target": view.first_attack,
        "orders": [order.name.lower().replace("_", " ") for order in Order],
        "rate": 3,
    }
    if view.conic_fov:
        world["cone"] = 2 * float(np.arccos(view.cone_cosine))  # radians
    looks, names = [], battles.unit_names(index)
    units = np.concatenate([np.arange(n_agents), battles.world.enemies[index]])
    for i in units.tolist():
        look = {"name": names[i], "team": int(i >= n_agents)}
        look |= {"radius": float(param[P.RADIUS, i])}
        look |= {name: float(param[row, i]) for name, row in LARGEST.items() if param[row, i] > 0}
        if i < n_agents:
            look |= {"sight": float(param[P.SIGHT, i]), "shoot": float(param[P.SHOOT, i])}
        looks.append(look)
    columns = {"x": unit[U.X], "y": unit[U.Y], "health": unit[U.HEALTH], "shield": unit[U.SHIELD]}
    columns |= {"energy": unit[U.ENERGY], "cooldown": np.maximum(unit[U.COOLDOWN], 0)}
    target = np.where(mark[M.TARGET] == NO_ONE, NO_ONE, np.argsort(units)[mark[M.TARGET]])
    columns |= {"order": mark[M.ORDER], "target": target}
    if view.limited:
        columns["sees"] = (battles.frame.visible[index] & SEEN) != 0
    else:
        columns["sees"] = BattleView(battles, index).get_visibility_matrix()[:, np.argsort(units)]
    if view.conic_fov:
        columns["facing"] = np.zeros(len(units), np.float32)
        columns["facing"][:n_agents] = np.arctan2(*battles.world.facing[index].T[::-1])
    return world, looks, {name: numbers[..., units] for name, numbers in columns.items()}


@cache
def shown_field(name: str) -> dict[str, object]:
    """The part of a terrain that is shown, and its cells: blocked, or their heights 0 to 9."""
    pathable, levels = terrain.pathable_cells(name), terrain.ground_levels(name)
    x0, y0, x1, y1 = terrain.layer_boxes(pathable)["ground"]
    digits = np.where(pathable, np.clip(levels * 9, 0, 9).astype(np.uint8).astype(str), ".")
    rows = ["".join(digits[:, y]) for y in range(digits.shape[1])]
    bounds = [x0 - 0.5, y0 - 0.5, x1 + 0.5, y1 + 0.5]
    canvas = make_canvas(name)
    corners = canvas.at(bounds[0], bounds[3]) + canvas.at(bounds[2], bounds[1])
    return {"bounds": bounds, "cells": rows, "picture": [pixel / FINE for pixel in corners]}
