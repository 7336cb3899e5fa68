"""Compare the battle engine with recorded StarCraft II: ``python -m benchmarks.game DATA_DIR``.

Prints the rows of every part (or of ``--parts``) with the game's values, and the criterion of
docs/calibration.md; ``--keep`` adds them to benchmarks/data/game.jsonl.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.game.data import Folder
from benchmarks.game.parts import PARTS, Row, criterion
from benchmarks.game.policies import play
from rltrain.battles.native import RULES_VERSION
from rltrain.mode.run_folder import git_state

KEPT = Path(__file__).parents[1] / "data" / "game.jsonl"


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.game",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, metavar="DATA_DIR", help="folder of recorded data")
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--all-policies", action="store_true", help="those without a rate, too")
    parser.add_argument("--keep", metavar="NOTE", help="keep the rows, with this note")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        parser.error(f"{options.data} is not a folder of recorded data")
    data, found = Folder(options.data), {}
    for name in options.parts:
        begin = time.process_time()
        print(f"\n{name:60} {'engine':>9} {'game':>9} {'error':>6}")
        found[name] = []
        for row in PARTS[name](data):
            found[name].append(row)
            values = f"{row.engine:9.4g} {row.game:9.4g} {row.error:6.2f}"
            print(f"{row.name:60} {values}", flush=True)
        mean = np.mean([row.error for row in found[name]])
        print(
            f"{'mean error, in tolerances':60} {mean:26.2f}  ({time.process_time() - begin:.0f} s)"
        )
    if options.all_policies:
        for rate in play(data, 64, 0, "", known=False):
            print(f"{rate.file:50} {rate.engine:6.2f} {rate.game if rate.game else '?'}")
    print(f"\ncriterion {criterion(found):.3f}")
    if options.keep is not None:
        rows = {name: [list(row) for row in rows] for name, rows in found.items()}
        line = {
            "rules_version": RULES_VERSION, "note": options.keep, **git_state(),
            "criterion": criterion(found), "parts": rows,
        }  # fmt: skip
        with KEPT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return found


if __name__ == "__main__":
    main()
