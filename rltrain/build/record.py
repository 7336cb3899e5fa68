"""A run's records: its title, its configuration and its sizes as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rltrain.config.schema import Settings
from rltrain.trainer_state import CONFIG, SPEC
from rltrain.types import EnvSpec


def title(settings: Settings) -> str:
    """``qmix on smac 3m, seed 0``, ``scripted closest on smac 3m, seed 0``."""
    env, scripted = settings.nodes["env"].kwargs, settings.nodes.get("algo")
    preset = settings.choices["env"] not in ("gymnasium", "pettingzoo", "lbf", "rware", "own")
    keys = ("map_name", "game") if preset else ("maker", "id")
    scenario = str(next((env[key] for key in keys if env.get(key)), ""))
    name = " ".join(filter(None, [settings.choices["env"], scenario]))
    algo = settings.choices["algo"] + (f" {scripted.kwargs['policy']}" if scripted else "")
    return f"{algo} on {name}, seed {settings.run.seed}"


def config_record(settings: Settings) -> dict[str, Any]:
    """``config.json``: what the run resolved to, and which option of each group was chosen."""
    return {"choices": dict(settings.choices), **settings.plain}


def about(settings: Settings, spec: EnvSpec) -> dict[str, Any]:
    """What is saved beside weights: enough to build a network for them."""
    return {CONFIG: config_record(settings), SPEC: spec_record(spec)}


def spec_record(spec: EnvSpec) -> dict[str, Any]:
    """An EnvSpec as JSON holds it."""
    record = asdict(spec)
    record["obs_shape"] = list(spec.obs_shape)
    record["obs_bytes"] = [list(columns) for columns in spec.obs_bytes]
    return record
