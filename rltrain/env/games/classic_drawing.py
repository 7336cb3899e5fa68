"""Drawings of CartPole, Acrobot and MountainCar from their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rltrain.types import Drawing

Points = Sequence[tuple[float, float]]


def cart_pole(env: Any, state: np.ndarray) -> Drawing:
    """The cart, and the tip of its pole."""
    x, _, angle, _ = state.tolist()
    tip = (x + 2 * env.length * np.sin(angle), 2 * env.length * np.cos(angle))
    edge = env.x_threshold
    world = {"bounds": [-edge - 0.3, -0.6, edge + 0.3, 1.6], "lines": [[[-edge, 0], [edge, 0]]]}
    return joined({**world, "actions": ["left", "right"], "rate": 30}, "cart tip", [(x, 0), tip])


def acrobot(env: Any, state: np.ndarray) -> Drawing:
    """The tip, the joint of the two links, and where they hang."""
    first, second = state[:2].tolist()
    joint = env.LINK_LENGTH_1 * np.array([np.sin(first), -np.cos(first)])
    tip = joint + env.LINK_LENGTH_2 * np.array([np.sin(first + second), -np.cos(first + second)])
    world = {"bounds": [-2.3, -2.3, 2.3, 2.3], "lines": [[[-2.3, 1], [2.3, 1]]], "rate": 15}
    actions = {"actions": ["torque -1", "no torque", "torque 1"]}
    return joined(world | actions, "tip joint base", [tuple(tip), tuple(joint), (0, 0)])


def mountain_car(env: Any, state: np.ndarray) -> Drawing:
    """The car on its hill, and the flag."""
    low, high = env.min_position, env.max_position
    hill = [[x, float(env._height(x))] for x in np.linspace(low, high, 60).tolist()]
    world = {"bounds": [low - 0.1, -0.1, high + 0.1, 1.3], "lines": [hill], "rate": 30}
    actions = {"actions": ["push left", "no push", "push right"]}
    places = [(x, float(env._height(x)) + 0.04) for x in (float(state[0]), env.goal_position)]
    drawing = joined(world | actions, "car flag", places)
    return drawing._replace(columns={**drawing.columns, "target": np.array([-1, -1])})


def joined(world: dict[str, Any], names: str, places: Points) -> Drawing:
    """Units, each with a rod to the next."""
    wide = 0.02 * (world["bounds"][2] - world["bounds"][0])
    looks = [
        {"name": name, "team": 2 * (k > 0), "radius": wide, "square": name == "cart", "rod": True}
        for k, name in enumerate(names.split())
    ]
    x, y = np.array(places, np.float32).T
    target = np.array([*range(1, len(looks)), -1])
    return Drawing(world | {"whole": True}, looks, {"x": x, "y": y, "target": target})
