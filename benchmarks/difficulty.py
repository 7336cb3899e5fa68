"""How hard the maps are for players written by hand: writes docs/difficulty.md.

    python -m benchmarks.difficulty                  500 battles of every map and player
    python -m benchmarks.difficulty 20 3m corridor   fewer, of these maps, for a look

What was played is kept in outputs/difficulty/, so that an interrupted run goes on where it was;
after a change of the battles everything is played again. The page shows all maps that were played.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from rltrain.api import settings_from
from rltrain.build import build_scripted_player
from rltrain.env import smac
from rltrain.env.smac.data.maps import find_map, map_names
from rltrain.env.smac.engine.battles import Battles
from rltrain.env.smac.options import Options
from rltrain.mode.evaluate import summary
from rltrain.types import Clock

EPISODES = 500
POLICIES = ("random", "stop", "closest", "focus", "heuristic")
TACTICS = {
    "3s_vs_3z": "kite", "3s_vs_4z": "kite", "3s_vs_5z": "kite", "2c_vs_64zg": "kite",
    "so_many_baneling": "spread", "2s_vs_1sc": "alternate",
}  # fmt: skip
"""The player that was written for a map, where there is one."""
CELLS, PAGE, PICTURES = Path("outputs/difficulty"), Path("docs/difficulty.md"), Path("docs/maps")

ABOUT = {
    "3m": "Three marines against three on an open field: who shoots together first wins.",
    "8m": "Eight marines a side: whoever shares targets mostly wins.",
    "25m": "Twenty-five marines a side: room to shoot is as scarce as targets.",
    "5m_vs_6m": "Five marines against six: an even trade of fire loses.",
    "8m_vs_9m": "Eight marines against nine; one wasted volley decides.",
    "10m_vs_11m": "Ten marines against eleven, and a crowd that gets in its own way.",
    "27m_vs_30m": "Twenty-seven marines against thirty: position counts for more than aim.",
    "MMM": "Marines, marauders and a medivac on both sides; the healer is to be used and guarded.",
    "MMM2": "The same mix against one more marine and one more marauder.",
    "2s3z": "Stalkers that shoot and zealots that close in, two and three on each side.",
    "3s5z": "Three stalkers behind five zealots, against the same.",
    "3s5z_vs_3s6z": "The same against one zealot more, which a plain attack cannot bear.",
    "3s_vs_3z": "Three stalkers run and shoot: the zealots are slower, and deadly once they touch.",
    "3s_vs_4z": "The same against four zealots, on a field that is big enough to circle on.",
    "3s_vs_5z": "The same against five: long and patient running, hardly a mistake allowed.",
    "1c3s5z": "A colossus's beam behind stalkers and zealots; it must outlive the other one.",
    "2m_vs_1z": "Two marines take turns in being chased by a zealot that outfights both.",
    "corridor": "Six zealots and twenty-four zerglings: whom all of them reach at once falls; in a "
    "choke they cannot.",
    "6h_vs_8z": "Six hydralisks in a small arena must fell eight zealots before these arrive.",
    "2s_vs_1sc": "Two stalkers and a spine crawler that outranges them: they take turns in being "
    "its target.",
    "so_many_baneling": "Seven zealots on a narrow lane, thirty-two banelings: stand apart, or one "
    "blast hits all.",
    "bane_vs_bane": "Twenty zerglings and four banelings a side: whose banelings burst among more "
    "foes?",
    "2c_vs_64zg": "Two colossi on a plateau, sixty-four zerglings that run up both its ramps; the "
    "colossi may step off the cliff.",
}
"""One line per map: what it asks of a team."""

INTRODUCTION = """# How hard the maps are

Every map of `env=smac` under `rules: sc2`, played by teams that nobody trained: what a trained one
should be compared with. They see the whole battle and choose among the same available actions.

| player | what it does |
| --- | --- |
| `random` | any available action |
| `stop` | stands still (SMAC's agents never fight on their own) |
| `closest` | attacks the nearest enemy in reach, else walks to the nearest one |
| `focus` | attacks the weakest enemy in reach, else walks to the nearest one |
| `heuristic` | SMAC's own with `heuristic_rest`: on the nearest enemy until it is dead |
| `kite` | shoots whenever the weapon is ready, runs from what is near while it is not |
| `spread` | stands so far from friends that no blast hits two |
| `alternate` | whom the enemy aims at holds its fire; a friend shoots on and draws the next shot |

The last three are tactics for the maps where they are listed: they show that these can be won, and
how.

`env.heuristic_ai=true` is another player: it gives orders that are not among the available actions.

Healers mend whom of those in reach lacks the greatest share of its health, under `heuristic` the
nearest hurt one until it is well. A number in brackets is half of a 95 % interval (normal), a range
a 95 % interval (Wilson). A win returns about 20; the return of a loss says how much of the enemy
fell.
"""


def policies_of(map_name: str) -> list[str]:
    """Who plays a map: everybody's five players, and its own."""
    return [*POLICIES, *([TACTICS[map_name]] if map_name in TACTICS else [])]


def version() -> str:
    """12 hex digits over everything that decides how a battle goes."""
    digest = hashlib.sha256()
    for path in sorted(Path(smac.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def words(map_name: str, policy: str, episodes: int) -> list[str]:
    """The command whose numbers a row shows."""
    return [
        "mode=evaluate", "algo=scripted", f"algo.policy={policy}", "env=smac",
        f"env.map_name={map_name}", f"test.episodes={episodes}",
    ]  # fmt: skip


def play(map_name: str, policy: str, episodes: int) -> dict[str, float]:
    """Metrics of that many battles, those of ``mode=evaluate``."""
    settings = settings_from(words(map_name, policy, episodes))
    player = build_scripted_player(settings)
    played = player.run_episodes(episodes, settings.run.seed, Clock())
    player.close()
    return summary(played)


def play_missing(maps: list[str], episodes: int, path: Path) -> None:
    """Every cell that ``path`` does not hold yet, appended to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = cells(path)
    with path.open("a", encoding="utf-8") as file:
        for map_name in maps:
            for policy in policies_of(map_name):
                if (map_name, policy) in known:
                    continue
                began = time.monotonic()
                metrics = play(map_name, policy, episodes)
                seconds = round(time.monotonic() - began, 2)
                row = {"map": map_name, "policy": policy, "seconds": seconds, "metrics": metrics}
                file.write(json.dumps(row) + "\n")
                file.flush()
                win = metrics["test/win_rate"]
                print(f"{map_name:18}{policy:10}{win:7.1%}{seconds:8.1f} s", flush=True)


def cells(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Metrics by map and policy, of what was played."""
    if not path.exists():
        return {}
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["map"], row["policy"]): row["metrics"] for row in found}


def still(map_name: str) -> str:
    """The line that shows how the map's battles begin; empty where no picture can be drawn."""
    path = PICTURES / f"{map_name}.png"
    try:
        picture: Any = importlib.import_module("rltrain.env.smac.render.painter").picture
        from PIL import Image
    except ImportError:
        return ""
    battles = Battles(map_name=map_name, n_envs=1, options=Options())
    battles.reset({0: 0})
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(battles)).save(path, optimize=True)
    return f"![{map_name}]({path.relative_to(PAGE.parent)})\n\n"


def table(map_name: str, played: dict[tuple[str, str], dict[str, float]]) -> str:
    """Win rate, return and length of every player on a map."""
    lines = ["| player | win rate | | return | length |", "| --- | --- | --- | --- | --- |"]
    for policy in policies_of(map_name):
        m = played[map_name, policy]
        half = m.get("test/return_high", m["test/return_mean"]) - m["test/return_mean"]
        lines.append(
            f"| `{policy}` | {m['test/win_rate']:.1%} | "
            f"{m['test/win_rate_low']:.1%} … {m['test/win_rate_high']:.1%} | "
            f"{m['test/return_mean']:.2f} ({half:.2f}) | {m['test/episode_length_mean']:.1f} |"
        )
    return "\n".join(lines)


def section(map_name: str, episodes: int, played: dict[tuple[str, str], dict[str, float]]) -> str:
    """All about one map."""
    command = " ".join(["rltrain", *words(map_name, "closest", episodes)])
    return (
        f"## {map_name}\n\n{ABOUT[map_name]} At most {find_map(map_name).limit} steps.\n\n"
        f"{still(map_name)}{table(map_name, played)}\n\n```bash\n{command}\n```\n"
    )


def page(episodes: int, played: dict[tuple[str, str], dict[str, float]]) -> str:
    """The whole document: win rates side by side, then map by map."""
    maps = [name for name in map_names() if all((name, p) in played for p in policies_of(name))]
    head = ["map", *(f"`{policy}`" for policy in POLICIES), "tactic"]
    overview = [head, ["---"] * len(head)]
    for name in maps:
        rates = [f"{played[name, policy]['test/win_rate']:.0%}" for policy in policies_of(name)]
        own = f"`{TACTICS[name]}` {rates.pop()}" if name in TACTICS else ""
        overview.append([f"[{name}](#{name.lower()})", *rates, own])
    parts = [
        INTRODUCTION,
        f"Win rates over {episodes} battles each, seed 0:\n",
        "\n".join(f"| {' | '.join(row)} |" for row in overview) + "\n",
        *(section(name, episodes, played) for name in maps),
        "`python -m benchmarks.difficulty` plays all of this again and writes this page.\n",
    ]
    return "\n".join(parts)


def main() -> None:
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    maps = [find_map(word).name for word in sys.argv[1:] if word not in numbers] or map_names()
    episodes = int(numbers[0]) if numbers else EPISODES
    path = CELLS / f"{version()}-{episodes}.jsonl"
    play_missing(maps, episodes, path)
    PAGE.write_text(page(episodes, cells(path)), encoding="utf-8")
    print(f"{PAGE} shows {episodes} battles per map and player")


if __name__ == "__main__":
    main()
