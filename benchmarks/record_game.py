"""Record StarCraft II data that determine the rules of the built-in engine: the first frames of
episodes, battles of SMAC's heuristic policy and tracks of all units.

    python -m benchmarks.record_game                       the maps of the calibration
    python -m benchmarks.record_game 3m 2s3z --battles 64  these maps
    python -m benchmarks.record_game --table               only print the table of a file

Every map is added to one JSON file when it is done; a map that is in it already is skipped. The
table has the recorded win rates beside those of the engine, on its own start positions and on the
recorded ones, and the published ones. ``env.start_positions=FILE`` plays on the recorded positions.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibrate import CHOOSING, OWN_BATTLES, REPORTING, markdown, published
from rltrain.battles.data.map_data import MapData
from rltrain.battles.data.maps import find_map, map_names
from rltrain.battles.data.units import UNITS
from rltrain.common.seeding import seed_key
from rltrain.env.smac.vector import SmacVectorEnv

MAPS = ("3m", "8m", *CHOOSING, *REPORTING)
"""The maps whose published win rates of the heuristic policy are compared with."""
FILE = Path("outputs/game.json")
BATTLES, TRACKS, GAMES = 32, 2, 2
DIGITS = 3  # of recorded numbers
X, Y, HEALTH = 1, 2, 3  # columns of get_units


def record(env: SmacVectorEnv, map_data: MapData, battles: int, tracks: int) -> dict[str, Any]:
    """First frames, results and tracks of ``battles`` episodes of the heuristic policy.

    A track has one row per env step: x, y, health, shield and cooldown of every unit, agents by id,
    then enemies.
    """
    env.reset(lambda e, k: seed_key(0, e, k))
    running: list[list[np.ndarray]] = [[] for _ in range(env.n_envs)]
    starts, results, kept = [], [], []
    while len(results) < battles:
        for e, units in enumerate(env.call("get_units")):
            if env.lost[e]:
                running[e] = []
            running[e].append(np.array(units, np.float64))
        for e in np.flatnonzero(env.last).tolist():
            frames, running[e] = running[e], []
            if len(results) < battles:
                starts.append(positions(frames[0], map_data))
                results.append({"win": env.infos[e]["win"], "steps": len(frames) - 1})
                kept += [frames] * (len(kept) < tracks)
        env.step(env.avail_actions.argmax(-1))  # ignored: the heuristic policy gives the orders
    return {
        "starts": starts,
        "battles": results,
        "tracks": [np.round(np.array(frames)[:, :, 1:], DIGITS).tolist() for frames in kept],
    }


def positions(units: np.ndarray, map_data: MapData) -> dict[str, dict[str, list[list[float]]]]:
    """The rows of ``get_units`` by team and unit type."""
    names = {UNITS[name].sc2_id: name for name in map_data.enemy_types}
    agents = map_data.n_agents
    teams = {
        "allies": list(map_data.ally_types),
        "enemies": [names.get(int(row[0]), f"type {row[0]:.0f}") for row in units[agents:]],
    }
    out: dict[str, dict[str, list[list[float]]]] = {team: {} for team in teams}
    rows = iter(np.round(units[:, [X, Y]], DIGITS).tolist())
    for team, types in teams.items():
        for name in types:
            out[team].setdefault(name, []).append(next(rows))
    return out


def spread(starts: list[Mapping[str, Mapping[str, list[list[float]]]]]) -> float:
    """The largest distance of a unit from its mean start position, cells."""
    points = np.array(
        [[p for team in s.values() for row in team.values() for p in row] for s in starts]
    )
    return float(np.hypot(*(points - points.mean(0)).reshape(-1, 2).T).max())


def engine_win_rate(map_name: str, start_positions: str | None) -> float:
    """Win rate of the heuristic policy on the built-in engine, in percent."""
    env = SmacVectorEnv(
        map_name=map_name,
        n_envs=OWN_BATTLES,
        heuristic_ai=True,
        start_positions=start_positions,
        n_threads=os.cpu_count() or 1,
    )
    env.reset(lambda e, k: seed_key(0, e, k))
    action = np.zeros(env.avail_actions.shape[:2], np.int64)
    while not env.battles.ended.all():
        env.battles.step(action)
    return 100 * float(np.mean([row["win"] for row in env.battles.results(range(OWN_BATTLES))]))


def table(path: Path) -> str:
    """The recorded maps beside the engine and what is published."""
    about, maps = (json.loads(path.read_text(encoding="utf-8"))[key] for key in ("about", "maps"))
    name = " ".join(about.values())
    head = ["map", f"heuristic_ai, {name}", "battles", "engine, recorded starts"]
    rows = [[*head, "engine, own starts", "spread of starts", "published"]]
    for map_name, found in maps.items():
        wins = [battle["win"] for battle in found["battles"]]
        rows.append(
            [
                map_name,
                f"{100 * np.mean(wins):.0f}",
                str(len(wins)),
                f"{engine_win_rate(map_name, str(path)):.0f}",
                f"{engine_win_rate(map_name, None):.0f}",
                f"{spread(found['starts']):.2f}",
                "; ".join(published(map_name)),
            ]
        )
    return markdown(rows)


def main() -> None:
    """Record the maps that are asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_game", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("maps", nargs="*", choices=[*map_names(), []], default=list(MAPS))
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--battles", type=int, default=BATTLES, help="per map")
    parser.add_argument("--games", type=int, default=GAMES, help="that run side by side")
    parser.add_argument("--backend", choices=("sc2", "native"), default="sc2")
    parser.add_argument("--table", action="store_true", help="record nothing")
    given = parser.parse_args()
    known = json.loads(given.file.read_text(encoding="utf-8")) if given.file.exists() else {}
    for map_name in [] if given.table else given.maps:
        if map_name in known.get("maps", {}):
            continue
        try:
            env = SmacVectorEnv(
                map_name=map_name, n_envs=given.games, backend=given.backend, heuristic_ai=True
            )
        except ValueError as error:
            parser.exit(2, f"{error}\n")
        if known.setdefault("about", dict(env.about)) != dict(env.about):
            parser.exit(
                2, f"{given.file} was recorded with {known['about']}: give another --file\n"
            )
        found = record(env, find_map(map_name), given.battles, TRACKS)
        env.close()
        known.setdefault("maps", {})[map_name] = found
        given.file.parent.mkdir(parents=True, exist_ok=True)
        given.file.write_text(json.dumps(known, separators=(",", ":")), encoding="utf-8")
        print(f"{map_name}: {len(found['battles'])} battles in {given.file}", flush=True)
    if not known:
        parser.exit(2, f"{given.file} does not exist: record it first, without --table\n")
    print(table(given.file))


if __name__ == "__main__":
    main()
