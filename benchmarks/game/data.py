"""Recorded data of the game, in the formats that docs/calibration.md describes."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Starts = Sequence[Mapping[str, Mapping[str, list[tuple[float, float]]]]]
CENTER, MAX_DISTANCE = 16, 28  # cells, of the states


class Folder:
    """The files of a folder of recorded data."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def records(self) -> Records:
        return Records(self.path / "records" / "3m_a.npz")

    def orders(self, name: str) -> Orders:
        with gzip.open(self.path / "orders" / f"{name}.json.gz", "rt") as file:
            return Orders(**json.load(file))

    @cached_property
    def starts(self) -> Mapping[str, Starts]:
        """Measured start positions by map."""
        text = (self.path / "starts" / "measured_starts.json").read_text(encoding="utf-8")
        return {name: found["starts"] for name, found in json.loads(text)["maps"].items()}

    @cached_property
    def policies(self) -> list[dict[str, str]]:
        """The rows of the index of policies."""
        with open(self.path / "policies" / "index.csv", newline="") as file:
            return list(csv.DictReader(file))


class Records:
    """Battles of 3m, a row per state [R]; battle k is the rows ``offset[k]`` to ``offset[k + 1]``.

    Places [R, 6, 2] are cells, health [R, 6] is absolute; agents, then enemies.
    """

    UNITS, FULL = 3, 45.0

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.offset = file["offset"].astype(int)
            self.state, self.obs = file["state"], file["obs"]
            self.action, reward = file["actions"].astype(int), file["reward"]
        agents = self.state[:, :12].reshape(-1, self.UNITS, 4).astype(float)
        enemies = self.state[:, 12:21].reshape(-1, self.UNITS, 3).astype(float)
        self.health = np.concatenate([agents[..., 0], enemies[..., 0]], 1) * self.FULL
        places = np.concatenate([agents[..., 2:], enemies[..., 1:]], 1)
        self.place = places * MAX_DISTANCE + CENTER
        self.cooldown = agents[..., 1] * 15  # loops
        self.won = np.array([reward[self.rows(k)].sum() > 19.99 for k in range(len(self))])

    def __len__(self) -> int:
        return len(self.offset) - 1

    def rows(self, k: int) -> slice:
        return slice(self.offset[k], self.offset[k + 1])

    def contact(self, k: int) -> int | None:
        """The last step of battle k before a unit lost health or fired; None without contact."""
        rows = self.rows(k)
        hurt = (self.health[rows] < self.FULL - 0.01).any(1)
        busy = hurt | (self.cooldown[rows] > 0).any(1)
        return int(np.argmax(busy)) - 1 if busy.any() else None


class Orders(NamedTuple):
    """The battles of one replay."""

    map: str
    game_version: str
    battles: list[dict[str, Any]]


def types_of(battle: Mapping[str, Any]) -> list[str]:
    """Unit types of a battle of a replay, agents first."""
    return [kind.removesuffix("_RL").lower() for kind, _, _ in battle["units"]]


def first_places(battle: Mapping[str, Any], start: Any) -> np.ndarray:
    """Where the units of a battle of a replay stood at first [units, 2]: where they were ordered to
    move from, else as ``start`` says, or in the middle of the cell of their birth if that is
    another one: survivors of the battle before may stand in the way."""
    orders = dict(battle["steps"]).get(0, {})
    left = {team: {n: list(p) for n, p in start[team].items()} for team in ("allies", "enemies")}
    places = []
    for k, (name, (_, player, cell)) in enumerate(
        zip(types_of(battle), battle["units"], strict=True)
    ):
        place = left["allies" if player == 1 else "enemies"][name].pop(0)
        if [math.floor(x) for x in place] != cell:
            place = [x + 0.5 for x in cell]
        order = orders.get(str(k))
        places.append(order[2:] if order and order[0] == "move" else place)
    return np.array(places, float)


def layout_of(battle: Mapping[str, Any], starts: Starts) -> int:
    """Which of the starts fits a battle of a replay best."""

    def misfit(start: Any) -> float:
        exact, given = first_places(battle, start), first_places({**battle, "steps": []}, start)
        return float(np.abs(exact - given).sum())

    return int(np.argmin([misfit(start) for start in starts]))
