"""Policies trained in the game, evaluated in the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file

from benchmarks.game.data import Folder
from benchmarks.game.play import open_battles
from rltrain.battles.engine.world import Outcome


class Rate(NamedTuple):
    """A policy's win rate in the engine, and its range over runs in the game, None if unknown."""

    file: str
    map: str
    algorithm: str
    engine: float
    low: float | None
    high: float | None
    game: float | None


class Policy:
    """The recurrent network of a file, for teams in many battles: [observation; previous action;
    agent number] to values of actions."""

    def __init__(self, path: Path, battles: int, agents: int, sample_seed: int | None) -> None:
        w = load_file(str(path))
        self.encode = torch.nn.Linear(*reversed(w["fc1.weight"].shape))
        self.cell = torch.nn.GRUCell(w["rnn.weight_hh"].shape[1], w["rnn.weight_hh"].shape[1])
        self.head = torch.nn.Linear(*reversed(w["fc2.weight"].shape))
        for module, name in ((self.encode, "fc1."), (self.cell, "rnn."), (self.head, "fc2.")):
            own = {k.removeprefix(name): v for k, v in w.items() if k.startswith(name)}
            module.load_state_dict(own)
        self.n_actions = self.head.out_features
        self.hidden = torch.zeros(battles * agents, self.cell.hidden_size)
        self.last = np.zeros((battles, agents, self.n_actions), np.float32)
        self.ids = np.broadcast_to(np.eye(agents, dtype=np.float32), (battles, agents, agents))
        self.rng = None if sample_seed is None else np.random.default_rng(sample_seed)

    @torch.no_grad()
    def act(self, obs: np.ndarray, available: np.ndarray) -> np.ndarray:
        """Actions [E, A]: the best, or with a seed drawn from the softmax over the available."""
        x = np.concatenate([obs, self.last, self.ids], 2)
        flat = torch.from_numpy(x.reshape(-1, x.shape[2]))
        self.hidden = self.cell(torch.relu(self.encode(flat)), self.hidden)
        q = self.head(self.hidden).numpy().reshape(*obs.shape[:2], -1)
        if self.rng is not None:
            q = q + self.rng.gumbel(size=q.shape)
        action = np.where(available > 0, q, -np.inf).argmax(2)
        self.last = np.eye(self.n_actions, dtype=np.float32)[action]
        return action


def win_rate(
    path: Path, map_name: str, data: Folder, episodes: int, seed: int, sample: bool
) -> float:
    """Share of battles won, on the measured start positions where they are known."""
    battles = open_battles(map_name, episodes, data.starts.get(map_name, ()), seed)
    policy = Policy(path, episodes, battles.map_data.n_agents, seed if sample else None)
    while not battles.ended.all():
        battles.step(policy.act(battles.obs, battles.avail))
    return float((battles.world.outcome == Outcome.WIN).mean())


def play(data: Folder, episodes: int, seed: int, only: str, known: bool = True) -> list[Rate]:
    """All policies whose file name contains ``only``; with ``known`` those with a rate in the
    game."""
    torch.set_num_threads(1)
    found = []
    for row in data.policies:
        if only not in row["file"] or (known and not row["win_rate_game"]):
            continue
        path = data.path / "policies" / row["file"]
        rate = win_rate(path, row["map"], data, episodes, seed, row["act"] == "sample")
        game = [
            float(row[key]) if row[key] else None
            for key in ("win_rate_low", "win_rate_high", "win_rate_game")
        ]
        found.append(Rate(row["file"], row["map"], row["algorithm"], rate, *game))
    return found


def mean_rates(rates: list[Rate]) -> Mapping[str, tuple[float, float, float, float]]:
    """Per map and algorithm: mean rate in the engine; lowest, highest and mean in the game."""
    groups = defaultdict(list)
    for rate in rates:
        if rate.game is not None:
            groups[f"{rate.map} {rate.algorithm}"].append(rate)
    return {
        name: (
            float(np.mean([r.engine for r in group])),
            min(r.low for r in group if r.low is not None),
            max(r.high for r in group if r.high is not None),
            float(np.mean([r.game for r in group if r.game is not None])),
        )
        for name, group in groups.items()
    }
