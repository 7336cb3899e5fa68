"""Write rltrain/report/published.json, the published values for reports.

python -m benchmarks.published
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rltrain
from benchmarks.anchors import ANCHORS, PAPER, PYMARL2, SOURCES
from benchmarks.game_curves import of_game
from benchmarks.task_kinds import NUMBER
from benchmarks.tasks import TASKS

FILE = Path(rltrain.__file__).parent / "report/published.json"
ENVS = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountaincar": "MountainCar-v0",
    "lunarlander": "LunarLander-v3",
}
GAME_SOURCE = "oxwhirl/smacv2 577ab5a2, smac2_training_results.pkl: QMIX in StarCraft II"
ZOO_SOURCE = "README of the DQN agents of rl-baselines3-zoo: one agent, mean over episodes"
CLEANRL_SOURCE = "CleanRL's documentation: returns while training, mean of three seeds"
EPYMARL_SOURCE = "Papoudakis et al. 2021: best of 41 tests, mean of five seeds"
MINATAR_SOURCE = "Young and Tian 2019: DQN, read from the figures"
PAPER_STEPS, PYMARL2_STEPS, CLEANRL_STEPS = 2_000_000, 10_000_000, 500_000
MINATAR_STEPS = 5_000_000


def smac() -> Iterator[dict[str, Any]]:
    """Win rates of learning methods on SMAC's maps."""
    for anchor in ANCHORS:
        if anchor.player != "heuristic" and anchor.source in (PAPER, PYMARL2):
            steps = PAPER_STEPS if anchor.source == PAPER else PYMARL2_STEPS
            yield entry(
                anchor.player.lower(), anchor.source, f"smac {anchor.map_name}", "test/win_rate",
                [steps], [anchor.win / 100], SOURCES[anchor.source],
            )  # fmt: skip


def smacv2() -> Iterator[dict[str, Any]]:
    """Curves of QMIX in the game, one per seed."""
    for scenario, curves in of_game().items():
        for x, y in curves:
            steps = [int(step) for step in x]
            values = np.round(y, 4).tolist()
            env = f"smacv2 {scenario}"
            yield entry("qmix", "StarCraft II", env, "test/win_rate", steps, values, GAME_SOURCE)


def zoo() -> Iterator[dict[str, Any]]:
    """Returns of rl-baselines3-zoo's DQN."""
    for name, env in ENVS.items():
        level = float(NUMBER.findall(TASKS["control"][name].published)[0])
        steps = {"cartpole": 50_000, "mountaincar": 120_000}.get(name, 100_000)
        yield entry("dqn", "rl-zoo3", env, "test/return_mean", [steps], [level], ZOO_SOURCE)


def cleanrl() -> Iterator[dict[str, Any]]:
    """Returns of CleanRL's agents."""
    for name, task in TASKS["cleanrl"].items():
        _, algo, env = name.split("-")
        level = float(NUMBER.findall(task.published)[0])
        yield entry(
            algo, "CleanRL", ENVS[env], "train/return_mean",
            [CLEANRL_STEPS], [level], CLEANRL_SOURCE,
        )  # fmt: skip


def epymarl() -> Iterator[dict[str, Any]]:
    """Returns of EPyMARL's learners in matrix games and Level-Based Foraging."""
    foraging = "Foraging-8x8-2p-2f-coop-v3"
    for group, tasks in (("matrix", TASKS["matrix"]), ("lbf", TASKS["teams"])):
        for name, task in tasks.items():
            game, _, algo = name.rpartition("-")
            if task.published and not game.startswith("long"):
                env = foraging if group == "lbf" else f"{group} {game}"
                yield entry(
                    algo, "EPyMARL", env, "test/return_mean",
                    [PAPER_STEPS], [float(task.published)], EPYMARL_SOURCE,
                )  # fmt: skip


def minatar() -> Iterator[dict[str, Any]]:
    """Returns of DQN on MinAtar's games."""
    for name, task in TASKS["minatar"].items():
        if task.published and name.startswith("pqn-"):
            env, level = name.removeprefix("pqn-"), float(NUMBER.findall(task.published)[0])
            yield entry(
                "dqn", "MinAtar", f"minatar {env}", "test/return_mean",
                [MINATAR_STEPS], [level], MINATAR_SOURCE,
            )  # fmt: skip


def entry(
    algo: str,
    library: str,
    env: str,
    metric: str,
    steps: list[int],
    values: list[float],
    source: str,
) -> dict[str, Any]:
    """One published curve or value."""
    about = {"algo": algo, "library": library, "env": env, "source": source}
    return {**about, "metric": metric, "env_steps": steps, "values": values}


PUBLISHED = smac, smacv2, zoo, cleanrl, epymarl, minatar


def main() -> None:
    tables = {each.__name__: list(each()) for each in PUBLISHED}
    lines = (
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]"
        for name, rows in tables.items()
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
