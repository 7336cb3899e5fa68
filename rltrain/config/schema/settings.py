"""A checked configuration as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.config.schema.groups import (
    AlgoSettings,
    ClusterSettings,
    HardwareSettings,
    LoggerSettings,
    RankSettings,
    SupervisionSettings,
    WorkerSettings,
)
from rltrain.config.schema.node import Node
from rltrain.config.schema.run import RunSettings

OF_COMMANDS = ("sweep", "report", "hub")
"""Nodes that concern a command and no run: a run's own record does not have them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A checked configuration. ``plain`` is its JSON form, with the converted values; ``typed`` are
    the dotted keys whose values differ from those of the chosen groups.
    """

    run: RunSettings
    algo: AlgoSettings | None  # None: a scripted policy, built from the node "algo"
    hardware: HardwareSettings
    workers: WorkerSettings | None  # None: the environments run in this process
    cluster: ClusterSettings | None  # None: workers are processes of this machine
    ranks: RankSettings | None  # None: one process learns
    env: SupervisionSettings | None
    logger: LoggerSettings
    nodes: Mapping[str, Node]
    callbacks: tuple[Node, ...]
    choices: Mapping[str, str]
    plain: Mapping[str, Any]
    remarks: tuple[str, ...] = ()  # what a person should know about the choices
    algo_of_env: bool = False  # no algorithm was typed: it is the one of the environment's file
    typed: frozenset[str] = frozenset()
    agent_order: tuple[str, ...] = ()  # of a team's agents, if it is known; see build.agent_order

    @property
    def title(self) -> str:
        """``qmix on smac 3m, seed 0``, ``scripted closest on smac 3m, seed 0``."""
        env, scripted = self.nodes["env"].kwargs, self.nodes.get("algo")
        preset = self.choices["env"] not in ("gymnasium", "pettingzoo", "lbf", "rware", "own")
        keys = ("map_name", "game") if preset else ("maker", "id")
        scenario = str(next((env[key] for key in keys if env.get(key)), ""))
        name = " ".join(filter(None, [self.choices["env"], scenario]))
        algo = self.choices["algo"] + (f" {scripted.kwargs['policy']}" if scripted else "")
        return f"{algo} on {name}, seed {self.run.seed}"

    @property
    def record(self) -> dict[str, Any]:
        """``config.json``: what the run resolved to, and the chosen option of each group."""
        run = {key: value for key, value in self.plain.items() if key not in OF_COMMANDS}
        return {"choices": dict(self.choices), **run}
