"""A task of docs/results.md, and how those of one table are alike."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = re.compile(r"-?\d+\.?\d*")
TESTS = "test.episodes=20 test.n_envs=20"


@dataclass(frozen=True)
class Task:
    """One row of a table, several seeds.

    Args:
        overrides: what follows ``rltrain``, without the seed.
        metric: what is measured, in tests where its name begins like that.
        last: a run's score is the mean of so many last values.
        seeds: 1 to this number belong to the table.
        published: the source's result: medians at 2 M steps of the SMAC paper (MMM: PyMARL's in
            DI-engine's README), PyMARL2's README (maps after about 10 M, predator-prey),
            rl-baselines3-zoo (one agent, mean and deviation over episodes), CleanRL's documentation
            (returns of training, mean and deviation over three seeds), SMACv2's curves of QMIX in
            the game within 100,000 env steps of 1 M, DQN after 5 M frames in the figures of
            MinAtar's paper, best points within 2 M steps of EPyMARL's paper, and for ``long_prey``
            a reader's runs of WQMIX's code with this exploration (its issue 3; mean and deviation
            of three, OW-QMIX of one).
        published_env_steps: after so many env steps, if not after those of ``overrides``.
    """

    overrides: str
    metric: str = "test/return_mean"
    last: int = 1
    published: str = ""
    seeds: int = 1
    published_env_steps: int | None = None

    @property
    def published_range(self) -> tuple[float, float] | None:
        """From the published result minus its deviation to it plus that, in units of ``metric``."""
        unit = 0.01 if self.published.endswith("%") else 1.0
        numbers = [float(number) * unit for number in NUMBER.findall(self.published)]
        if not numbers:
            return None
        level, deviation = numbers if len(numbers) > 1 else (numbers[0], 0.0)
        return level - deviation, level + deviation


def smac(algo: str, map_name: str, published: str, seeds: int, env_steps: int) -> Task:
    """A team on a SMAC map with the default settings; the cache only saves time."""
    overrides = (
        f"algo={algo} env=smac env.map_name={map_name} total_env_steps={env_steps:_} "
        "hardware.target_cache=2e9"
    )
    return Task(overrides, "test/win_rate", 10, published, seeds, 2_000_000)


def control(
    overrides: str, published: str = "", seeds: int = 8, published_env_steps: int | None = None
) -> Task:
    """A single agent, scored by its last test of 20 episodes."""
    overrides += f" {TESTS}"
    return Task(overrides, "test/return_mean", 1, published, seeds, published_env_steps)


def cleanrl(name: str, published: str) -> Task:
    """A single agent, scored while it explores, as CleanRL does: by the mean return of the training
    episodes of the last 20,000 env steps.
    """
    overrides = f"experiment=cleanrl/{name} {TESTS}"
    return Task(overrides, "train/return_mean", 10, published, seeds=5)


def team(name: str, published: str, env_steps: int = 1_000_000, seeds: int = 3) -> Task:
    """EPyMARL's settings for one environment and algorithm."""
    overrides = f"experiment=epymarl/{name} total_env_steps={env_steps:_} save.interval=100_000"
    return Task(overrides, last=5, published=published, seeds=seeds, published_env_steps=2_000_000)
