"""Does a repeated attack order begin a wind-up again? ``python -m benchmarks.game.repeated_orders
DATA_DIR`` counts in recorded battles on which loop after such an order agents killed its target.

An order has effect in the first loop after it. If a wind-up began again then, a unit that winds up
for w loops could not hit before loop 1 + ceil(w).
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.game.data import Folder, Orders, types_of
from benchmarks.game.play import LOOPS
from rltrain.battles.data.units import UNITS

LOOPS_PER_SECOND = 16


def kills(orders: Orders) -> dict[tuple[str, bool], np.ndarray]:
    """Kills by agents with immediate weapons on the target of their order, per loop after it
    [LOOPS], by unit type and whether the order repeated the one before."""
    found: dict[tuple[str, bool], np.ndarray] = defaultdict(lambda: np.zeros(LOOPS, int))
    for battle in orders.battles:
        given, types = dict(battle["steps"]), types_of(battle)
        for loop, victim, killer, _ in battle["deaths"]:
            if killer is None or battle["units"][killer][1] != 1:
                continue
            after = (loop - 1) % LOOPS  # an order of the same loop comes after the kill
            at = loop - 1 - after
            last, before = (given.get(t, {}).get(str(killer)) for t in (at, at - LOOPS))
            if UNITS[types[killer]].weapon == "instant" and is_attack(last, victim):
                found[types[killer], is_attack(before, victim)][after] += 1
    return dict(found)


def is_attack(order: Sequence[Any] | None, target: int) -> bool:
    return order is not None and order[0] == "attack" and order[1] == target


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.game.repeated_orders")
    parser.add_argument("data", type=Path, metavar="DATA_DIR", help="folder of recorded data")
    data = Folder(parser.parse_args(arguments).data)
    total: dict[tuple[str, bool], np.ndarray] = defaultdict(lambda: np.zeros(LOOPS, int))
    for path in sorted((data.path / "orders").glob("*.json.gz")):
        for kind, counts in kills(data.orders(path.name.removesuffix(".json.gz"))).items():
            total[kind] += counts
    print("| unit | order | wind-up, loops | kills on loop 1, 2, … | before a new wind-up ends |")
    print("| --- | --- | --- | --- | --- |")
    for (name, repeated), counts in sorted(total.items()):
        wind_up = UNITS[name].damage_point * LOOPS_PER_SECOND
        order = "repeated" if repeated else "new"
        row = [name, order, f"{wind_up:.1f}", " ".join(map(str, counts))]
        print("|", " | ".join([*row, str(counts[: math.ceil(wind_up)].sum())]), "|")


if __name__ == "__main__":
    main()
