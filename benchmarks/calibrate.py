"""Compare win rates of scripted policies under variants of the battle rules and start layouts with
published win rates. docs/calibration.md states the procedure.

``python -m benchmarks.calibrate`` plays missing battles and prints the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from benchmarks.anchors import ANCHORS, heuristic_anchors
from benchmarks.crowding import SECONDS, geometric_maximum, strikers
from benchmarks.difficulty import TACTICS, version
from benchmarks.variant_battles import HEURISTIC, Layout, Variant, win_rates
from rltrain.battles.data.maps import map_names

CHOOSING = ("2s3z", "10m_vs_11m", "corridor", "27m_vs_30m", "MMM2")
"""Maps used to choose a variant; results are reported on the maps below."""
REPORTING = ("3s5z", "1c3s5z", "bane_vs_bane", "3s5z_vs_3s6z", "6h_vs_8z")

BATTLES = 32  # per layout
TOLERANCE = 3.0  # percentage points of the mean error within which the earlier candidate is taken

LAYOUTS = tuple(
    Layout(first, turn, mirrored, measured=False)
    for first, turn, mirrored in product("SENW", ("ccw", "cw"), (False, True))
)
JITTER = 0.25  # cells, of the additional column of jittered starts
OWN_BATTLES = 256  # on the fixed and on the jittered starts

CANDIDATES = (
    Variant("own place"),
    Variant("own place, scan 8", scan_every=8),
    Variant("own place, soft", contact=0.94),
    Variant("own place, scan 8, soft", scan_every=8, contact=0.94),
    Variant("any place", places="any"),
    Variant("any place, scan 8", places="any", scan_every=8),
    Variant("any place, soft", places="any", contact=0.94),
    Variant("any place, scan 8, soft", places="any", scan_every=8, contact=0.94),
)
"""Rules between which no source decides, in the order of preference where errors are equal."""

CONTRASTS = (
    Variant("one point", goals="point"),
    Variant("keep in scan range", keeps="scan"),
    Variant("previous rules", goals="point", keeps="scan", places="any"),
)
"""Played for comparison only: the evidence contradicts them."""

CELLS = Path("outputs/calibrate")

Cell = Mapping[str, list[float]]
"""Win rates of one variant, map and player: ``layouts`` [16], ``fixed`` [1], ``jittered`` [1]."""


def mean_error(win: Mapping[str, float], maps: tuple[str, ...]) -> float:
    """Mean distance, in percentage points, of win rates in percent (means over layouts) from the
    published rates of SMAC's heuristic policy."""
    published = heuristic_anchors()
    return sum(abs(win[name] - published[name]) for name in maps) / len(maps)


def choose(errors: Mapping[str, float]) -> str:
    """The first candidate whose error on the choosing half is within the tolerance of the
    smallest."""
    best = min(errors[c.name] for c in CANDIDATES)
    return next(c.name for c in CANDIDATES if errors[c.name] <= best + TOLERANCE)


def play(variant: Variant, map_name: str, player: str) -> Cell:
    """All battles of a cell."""
    own = (Layout(),)
    return {
        "layouts": win_rates(map_name, variant, player, LAYOUTS, BATTLES),
        "fixed": win_rates(map_name, variant, player, own, OWN_BATTLES),
        "jittered": win_rates(map_name, variant, player, own, OWN_BATTLES, JITTER),
    }


class Cells:
    """Cells of this version of the engine; played once and kept in a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._known: dict[tuple[str, ...], Cell] = {
            tuple(row["key"]): row["cell"] for row in map(json.loads, lines)
        }

    def __call__(self, variant: Variant, map_name: str, player: str = HEURISTIC) -> Cell:
        """The cell of a variant, map and player."""
        key = (variant.name, map_name, player)
        if key not in self._known:
            self._known[key] = play(variant, map_name, player)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "cell": self._known[key]}) + "\n")
        return self._known[key]

    def mean(self, variant: Variant, map_name: str) -> float:
        """Mean win rate over the layouts in percent."""
        rates = self(variant, map_name)["layouts"]
        return 100 * sum(rates) / len(rates)


def candidate_table(cells: Cells) -> tuple[list[list[str]], Variant]:
    """Mean win rates of all variants on the maps with anchors, their errors, and the choice."""
    maps, published = CHOOSING + REPORTING, heuristic_anchors()
    rows = [["rules", *maps, "error, choosing", "error, reporting"]]
    errors = {}
    for variant in CANDIDATES + CONTRASTS:
        win = {name: cells.mean(variant, name) for name in maps}
        errors[variant.name] = mean_error(win, CHOOSING)
        last = [f"{errors[variant.name]:.1f}", f"{mean_error(win, REPORTING):.1f}"]
        rows.append([variant.name, *(f"{win[name]:.0f}" for name in maps), *last])
        print(*rows[-1], flush=True)
    rows.append(["published", *(str(published[name]) for name in maps), "", ""])
    chosen = choose(errors)
    return rows, next(c for c in CANDIDATES if c.name == chosen)


def map_table(cells: Cells, variant: Variant) -> list[list[str]]:
    """Scripted players on all maps under one variant, beside what is published."""
    rows = [["map", "heuristic_ai", "range", "fixed", "jittered", "closest", "tactic", "published"]]
    for name in map_names():
        cell = cells(variant, name)
        closest = cells(variant, name, "closest")["layouts"]
        tactic = ""
        if name in TACTICS:
            rates = cells(variant, name, TACTICS[name])["layouts"]
            tactic = f"`{TACTICS[name]}` {mean_and_range(rates)}"
        rates = cell["layouts"]
        rows.append(
            [
                name,
                f"{100 * sum(rates) / len(rates):.0f}",
                f"{100 * min(rates):.0f} – {100 * max(rates):.0f}",
                f"{100 * cell['fixed'][0]:.0f}",
                f"{100 * cell['jittered'][0]:.0f}",
                mean_and_range(closest),
                tactic,
                "; ".join(published(name)),
            ]
        )
        print(*rows[-1], flush=True)
    return rows


def mean_and_range(rates: list[float]) -> str:
    """``31 (0 – 88)``, in percent."""
    mean = 100 * sum(rates) / len(rates)
    return f"{mean:.0f} ({100 * min(rates):.0f} – {100 * max(rates):.0f})"


def published(map_name: str) -> Iterator[str]:
    """What is published about a map, one text per source and kind of player."""
    rows = [anchor for anchor in ANCHORS if anchor.map_name == map_name]
    for anchor in rows:
        if anchor.player == "heuristic":
            beta = "" if anchor.comparable else ", beta map"
            yield f"heuristic {anchor.win} ({anchor.source}{beta}; {anchor.confidence})"
    learned: dict[str, list[str]] = {}
    for anchor in rows:
        if anchor.player != "heuristic":
            learned.setdefault(anchor.source, []).append(f"{anchor.player} {anchor.win}")
    for source, texts in learned.items():
        yield f"{', '.join(texts)} ({source})"


def crowd_table() -> list[list[str]]:
    """Zerglings that strike six standing zealots, by rules."""
    rows = [["rules", *(f"{s} s" for s in SECONDS), "most that fit"]]
    for variant in CANDIDATES + CONTRASTS:
        if variant.scan_every == 4:
            counts = [f"{count:.1f}" for count in strikers(variant)]
            rows.append([variant.name, *counts, str(geometric_maximum(variant.contact))])
    return rows


def markdown(rows: list[list[str]]) -> str:
    """A table, the first row its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def main() -> None:
    """Play, print, and write the tables."""
    cells = Cells(CELLS / f"{version()}.jsonl")
    candidates, chosen = candidate_table(cells)
    tables = [markdown(candidates), f"chosen: {chosen.name}", markdown(map_table(cells, chosen))]
    text = "\n\n".join([*tables, markdown(crowd_table())])
    cells.path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
