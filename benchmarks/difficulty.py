"""Evaluate scripted policies on every SMAC map and write docs/difficulty.md.

    python -m benchmarks.difficulty                  500 battles per map and policy
    python -m benchmarks.difficulty 20 3m corridor   fewer battles, on these maps

Results are kept in outputs/difficulty/, so that an interrupted run can be continued; after a change
of the environment code everything is evaluated again. The page shows all maps with results.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

from rltrain.api import settings_from
from rltrain.assemble.evaluation import build_evaluation
from rltrain.battles.data.maps import find_map, map_names
from rltrain.battles.engine.battles import Battles
from rltrain.battles.native import LATER_RULES_VERSION, RULES_VERSION
from rltrain.battles.options import Options
from rltrain.env import smac
from rltrain.mode.evaluate import summary
from rltrain.types import Clock

EPISODES = 500
POLICIES = ("random", "stop", "closest", "focus", "heuristic")
TACTICS = {
    "3s_vs_3z": "kite", "3s_vs_4z": "kite", "3s_vs_5z": "kite", "2c_vs_64zg": "kite",
    "so_many_baneling": "spread", "2s_vs_1sc": "alternate",
}  # fmt: skip
"""The tactic for a map, where there is one."""
CELLS, PAGE, PICTURES = Path("outputs/difficulty"), Path("docs/difficulty.md"), Path("docs/maps")

ABOUT = {
    "3m": "Three marines against three in the open. Focused fire decides.",
    "8m": "Eight marines per side. The side that shares targets usually wins.",
    "25m": "Twenty-five marines per side. Space to shoot is as scarce as targets.",
    "5m_vs_6m": "Five marines against six. An even exchange of fire loses.",
    "8m_vs_9m": "Eight marines against nine. One wasted volley can decide the battle.",
    "10m_vs_11m": "Ten marines against eleven. The units block each other.",
    "27m_vs_30m": "Twenty-seven marines against thirty. Positions matter more than target choice.",
    "MMM": "Marines, marauders and a medivac per side. Using and protecting the healer pays.",
    "MMM2": "The units of MMM, against one more marauder and one more marine.",
    "2s3z": "Two stalkers (ranged) and three zealots (melee) per side.",
    "3s5z": "Three stalkers and five zealots per side.",
    "3s5z_vs_3s6z": "The units of 3s5z, against one more zealot. A direct attack loses.",
    "3s_vs_3z": "Three stalkers against three zealots, which are slower but win at close range.",
    "3s_vs_4z": "Three stalkers against four zealots, with enough space to retreat in circles.",
    "3s_vs_5z": "Three stalkers against five zealots. Long kiting with hardly any mistakes wins.",
    "1c3s5z": "A colossus, three stalkers and five zealots per side. Keeping the colossus alive "
    "wins.",
    "2m_vs_1z": "Two marines against a zealot that beats both in a direct fight. They have to take "
    "turns being chased.",
    "corridor": "Six zealots against twenty-four zerglings. In the open the zealots are "
    "surrounded; in a choke point they are not.",
    "6h_vs_8z": "Six hydralisks against eight zealots in a small arena. The zealots have to die "
    "before they arrive.",
    "2s_vs_1sc": "Two stalkers against a spine crawler with a longer range. They have to take "
    "turns being its target.",
    "so_many_baneling": "Seven zealots against thirty-two banelings in a narrow lane. Standing "
    "apart limits the damage of each explosion.",
    "bane_vs_bane": "Twenty zerglings and four banelings per side. The side whose banelings "
    "explode among more enemies wins.",
    "2c_vs_64zg": "Two colossi on a plateau against sixty-four zerglings that run up both ramps. "
    "The colossi can climb cliffs.",
}
"""One line per map: the units and what it takes to win."""

INTRODUCTION = """# Difficulty of the maps

Scripted policies on every map of `env=smac` under `rules: sc2`, as a baseline for trained agents.
They see the whole battle and choose among the same available actions.

| policy | what it does |
| --- | --- |
| `random` | any available action |
| `stop` | stands still (SMAC's agents never attack by themselves) |
| `closest` | attacks the nearest enemy in range, otherwise moves to the nearest one |
| `focus` | attacks the weakest enemy in range, otherwise moves to the nearest one |
| `heuristic` | SMAC's own, with `heuristic_rest`: attacks the nearest enemy until it is dead |
| `kite` | attacks when the weapon is ready, otherwise retreats from enemies that are near |
| `spread` | stands so far from allies that no explosion hits two units |
| `alternate` | the unit that the enemy targets holds its fire while an ally draws the next shot |

The last three are tactics for the maps where they are listed. They show that these maps can be won,
and how.

`env.heuristic_ai=true` is a different policy: it gives orders that are not among the available
actions.

How near the battles are to the game's is measured by its own recordings, not by scripted
policies: [calibration.md](calibration.md). The tables below
were made under version RULES_VERSION of the rules (`rules_version` in `run.json`), those of MMM
and MMM2 under version LATER.

Healers heal the ally in range that lacks the largest share of its health; under `heuristic` they
heal the nearest injured ally until it is healthy. Numbers in parentheses are half a 95% confidence
interval (normal), ranges are 95% confidence intervals (Wilson). The return of a win is about 20;
the return of a defeat measures how much damage was done.
"""


def policies_of(map_name: str) -> list[str]:
    """The policies evaluated on a map: the common five and the tactic for it."""
    return [*POLICIES, *([TACTICS[map_name]] if map_name in TACTICS else [])]


def version() -> str:
    """12 hex digits of a hash over all environment code."""
    digest = hashlib.sha256()
    for path in sorted(Path(smac.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def words(map_name: str, policy: str, episodes: int) -> list[str]:
    """The overrides of the command behind a row."""
    return [
        "mode=evaluate", "algo=scripted", f"algo.policy={policy}", "env=smac",
        f"env.map_name={map_name}", f"test.episodes={episodes}",
    ]  # fmt: skip


def play(map_name: str, policy: str, episodes: int) -> dict[str, float]:
    """Metrics of that many battles, as computed by ``mode=evaluate``."""
    settings = settings_from(words(map_name, policy, episodes))
    rollout = build_evaluation(settings, None)
    played = rollout.run_episodes(episodes, settings.run.seed, Clock())
    rollout.close()
    return summary(played)


def play_missing(maps: list[str], episodes: int, path: Path) -> None:
    """Evaluate every combination that ``path`` does not contain yet and append it."""
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
    """Metrics by map and policy."""
    if not path.exists():
        return {}
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["map"], row["policy"]): row["metrics"] for row in found}


def first_frame(map_name: str) -> str:
    """Draw the first frame of a map; returns its Markdown line, or nothing without a renderer."""
    path = PICTURES / f"{map_name}.png"
    try:
        from PIL import Image

        from rltrain.battles.render.painter import Painter
    except ImportError:
        return ""
    battles = Battles(map_name=map_name, n_envs=1, options=Options())
    battles.reset({0: 0})
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(Painter(battles, 0).frame()).save(path, optimize=True)
    return f"![{map_name}]({path.relative_to(PAGE.parent)})\n\n"


def table(map_name: str, played: dict[tuple[str, str], dict[str, float]]) -> str:
    """Win rate, return and length of every policy on a map."""
    lines = ["| policy | win rate | | return | length |", "| --- | --- | --- | --- | --- |"]
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
    """The section of one map."""
    *first, map_word, last = words(map_name, "closest", episodes)
    command = f"rltrain {' '.join(first)} \\\n    {map_word} {last}"
    return (
        f"## {map_name}\n\n{ABOUT[map_name]}\nTime limit: {find_map(map_name).limit} steps.\n\n"
        f"{first_frame(map_name)}{table(map_name, played)}\n\n```bash\n{command}\n```\n"
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
        INTRODUCTION.replace("RULES_VERSION", RULES_VERSION).replace("LATER", LATER_RULES_VERSION),
        f"Win rates over {episodes} battles each, seed 0 (`tactic` is the policy for that map):\n",
        "\n".join(f"| {' | '.join(row)} |" for row in overview) + "\n",
        *(section(name, episodes, played) for name in maps),
        "`python -m benchmarks.difficulty` repeats all evaluations and writes this page.\n",
    ]
    return "\n".join(parts)


def main() -> None:
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    maps = [find_map(word).name for word in sys.argv[1:] if word not in numbers] or map_names()
    episodes = int(numbers[0]) if numbers else EPISODES
    path = CELLS / f"{version()}-{episodes}.jsonl"
    play_missing(maps, episodes, path)
    PAGE.write_text(page(episodes, cells(path)), encoding="utf-8")
    print(f"{PAGE} shows {episodes} battles per map and policy")


if __name__ == "__main__":
    main()
