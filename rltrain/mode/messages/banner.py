"""The banner: what a run is, before it begins, and the resources that it will use, which the banner
shows and ``run.json`` keeps.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.filesize import decimal
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

import rltrain
from rltrain.assemble.env import n_threads
from rltrain.callback.training import Training
from rltrain.common.checkpoint.opponent_files import opponent_name
from rltrain.common.files import JsonObject, whole_number
from rltrain.common.machine.time_and_memory import available_memory
from rltrain.common.spec_record import channel_text
from rltrain.config.schema import Settings
from rltrain.logger.screen import plural, shown
from rltrain.trainer import Trainer
from rltrain.types import module_device


def resource_plan(settings: Settings, trainer: Training) -> JsonObject:
    """Devices, processes, threads, environments, networks and buffer in plain numbers. Bytes are
    those of all copies of the weights (targets, gradients, what the optimizer keeps) and of a full
    replay, which has as many as its capacity can take, or as it may use.
    """
    online, run = trainer.learner.online, settings.run
    n_envs = {
        "training": 0 if run.dataset.read else settings.hardware.n_envs,
        "tests": min(run.test.n_envs, run.test.episodes),
    }
    games = trainer.rollout.about.get("backend") == "sc2"  # each environment has its own process
    workers = 0 if settings.workers is None else settings.workers.n_workers
    testers = run.test.n_workers or 0
    learned = [t for part in trainer.learner.state_dict().values() for t in part.values()]
    plan = trainer.buffer.plan()
    most = plan.cap_bytes if plan.worst_case_bytes is None else plan.worst_case_bytes
    return {
        "device": str(module_device(online)),
        "processes": 1 + workers + testers + (sum(n_envs.values()) if games else 0),
        "workers": workers,
        "test_workers": testers,
        "threads": n_threads(settings),
        "kernels": "torch" if settings.hardware.kernels == "torch" else "compiled",
        "n_envs": n_envs,
        "parameters": {
            name: sum(p.numel() for p in part.parameters())
            for name, part in online.named_children()
        },
        "network_bytes": sum(int(t.nbytes) for t in learned if hasattr(t, "nbytes"))
        + sum(p.nbytes for p in online.parameters()),
        "replay": {
            "capacity": plan.capacity,
            "unit": "episodes" if plan.steps is None else "steps",
            "bytes_per_step": plan.bytes_per_step,
            "bytes": min(most, plan.cap_bytes),
            "max_bytes": plan.cap_bytes,
            "folder": None if plan.folder is None else str(plan.folder),
        },
        "available_memory_bytes": available_memory(),
    }


def banner(settings: Settings, trainer: Trainer, plan: JsonObject, origin: str | None) -> Panel:
    """Return the panel with a run's settings and resources."""
    choices, tuned = settings.choices, settings.choices.get("tuned", "none")
    parts = [f"{name} {n:,}" for name, n in plan["parameters"].items() if n]
    logs = [(path, node) for path, node in settings.nodes.items() if path.startswith("logger.")]
    named = [f"{p.partition('.')[2]} {node.kwargs.get('mode', '')}".rstrip() for p, node in logs]
    facts = {
        "run": f"{settings.title}: {schedule(settings)}",
        "algo": settings.env_chose_algo and f"{choices['algo']} (chosen for this environment)",
        "preset": choices.get("experiment"),
        "settings": tuned != "none" and f"recommended, tuned/{tuned} (off: tuned=none)",
        "networks": f"{', '.join(parts)} parameters; {decimal(plan['network_bytes'])} with their "
        "copies",
        "environment": environment(trainer, plan["n_envs"]),
        "opponents": opponents(settings),
        "replay": replay_text(plan["replay"], plan["available_memory_bytes"]),
        "device": device(plan),
        "loggers": ", ".join(["metrics.jsonl", *(w.replace(" disabled", " off") for w in named)]),
        "version": f"rltrain {rltrain.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "folder": shown(trainer.run_dir),
        "starts from": origin,
        "continues at": trainer.clock.env_steps and f"{trainer.clock.env_steps:,} env steps",
    }
    return facts_panel("rltrain", {name: fact for name, fact in facts.items() if fact})


def restart_note(trainer: Trainer, settings: Settings) -> str:
    """Name the parts that a run which starts from weights initializes again."""
    explores = trainer.actor.exploration.metrics(trainer.clock)
    amount = ", ".join(f"{name} {value:g}" for name, value in explores.items())
    start = "start" in settings.nodes["algo.exploration"].kwargs
    setting = f" ({amount}; less with algo.exploration.start)" if start else f" ({amount})"
    return (
        "networks and targets only, optimizer, replay, schedules and exploration"
        f"{setting if amount else ''} start from scratch"
    )


@dataclass(frozen=True)
class JobName:
    """One run of a sweep; its name is that of its folder and begins with its number from 0."""

    name: str
    n_jobs: int

    def __str__(self) -> str:
        number = whole_number(self.name.partition("_")[0])
        return self.name if number is None else f"job {number + 1} of {self.n_jobs}"


def job_line(settings: Settings, trainer: Trainer, job: JobName) -> str:
    """The banner of a sweep's job."""
    folder = shown(trainer.run_dir)
    return f"[{job.name}] {job}: {settings.title}: {schedule(settings)}, in {folder}"


def schedule(settings: Settings) -> str:
    """Length of a run and its tests: "500,000 env steps, 32 test episodes every 10,000"."""
    run, stop = settings.run, settings.run.stop
    words = [
        f"{run.total_env_steps:,} env steps",
        f"{plural(run.test.episodes, 'test episode')} every {run.test.interval:,}",
    ]
    if stop.metric is not None and stop.value is not None:
        words.append(f"until {stop.metric} is {stop.value:g}")
    if stop.hours is not None:
        words.append(f"at most {stop.hours:g} hours")
    return ", ".join(words)


def opponents(settings: Settings) -> str | None:
    """Who plays the other side, if it is not the environment's own opponent."""
    if not any(settings.is_two_sided(training=training) for training in (True, False)):
        return None
    weights = settings.opponent_weights(training=True)
    shares = [f"{opponent_name(one)} {n / sum(weights.values()):.0%}" for one, n in weights.items()]
    names = ", ".join(shares if len(shares) > 1 else map(opponent_name, weights))
    return f"{names}; in tests {opponent_name(settings.run.test.opponent)}"


def environment(trainer: Trainer, n_envs: Mapping[str, int]) -> str:
    """Sizes of an environment and how many there are."""
    spec = trainer.about["spec"]
    sizes = [
        plural(spec["n_agents"], "agent"),
        plural(spec["n_actions"], "action"),
        f"observation {'×'.join(map(str, spec['obs_shape']))}",
    ]
    sizes += [words] if (words := channel_text(spec)) else []
    sizes += [f"state {spec['state_dim']}"] if spec["state_dim"] else []
    sizes += [f"{name} {fact}" for name, fact in trainer.rollout.about.items()]
    training = n_envs["training"]  # 0: learns from a dataset
    counts = f"{plural(training, 'environment')}, " if training else ""
    return f"{', '.join(sizes)}; {counts}{n_envs['tests']} for tests"


def device(plan: JsonObject) -> str:
    """Device, threads, worker processes and, of the real StarCraft II, processes of games."""
    workers, testers = plan["workers"], plan["test_workers"]
    games = plan["processes"] - 1 - workers - testers
    words = f"{plan['device']}, {plural(plan['threads'], 'torch thread')}"
    words += f", {plan['kernels']} kernels"
    words += f", {plural(workers, 'worker process')}" if workers else ""
    words += f", {plural(testers, 'test process')}" if testers else ""
    return words + (f", {plural(games, 'game process')}" if games else "")


def replay_text(plan: JsonObject, available: int) -> str:
    """5,000 episodes of 1,234 bytes a step, up to 1.5 GB; with the folder on disk, or the free
    memory where it may be short.
    """
    if not plan["capacity"]:
        return f"the last collected steps, {plan['bytes_per_step']:,} bytes each"
    short = f" of {decimal(available)} of free memory" if 2 * plan["bytes"] > available else ""
    if plan["folder"] is not None:
        short = f" on disk, in {shown(Path(plan['folder']))}"
    most = (
        f"or as many as {decimal(plan['bytes'])}{short} hold (buffer.max_bytes)"
        if plan["unit"] == "episodes" and plan["bytes"] == plan["max_bytes"]
        else f"up to {decimal(plan['bytes'])}{short}"
    )
    return f"{plan['capacity']:,} {plan['unit']} of {plan['bytes_per_step']:,} bytes a step, {most}"


def facts_panel(title: str, facts: Mapping[str, str]) -> Panel:
    """One line per fact."""
    table = Table.grid(Column(style="dim"), Column(), padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name, value)
    return Panel(table, title=Text(title), border_style="cyan", expand=False)
