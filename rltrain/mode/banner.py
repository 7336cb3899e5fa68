"""What a person reads before and after a run: the banner, the result and what to type next."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import rltrain
from rltrain.build import title
from rltrain.common import checkpoint
from rltrain.config.schema import Settings
from rltrain.logger.screen import duration
from rltrain.mode.resources import resource_plan
from rltrain.trainer import Trainer


def banner(settings: Settings, trainer: Trainer, origin: str | None) -> Any:
    """What runs here, on one screen."""
    spec = trainer.about["spec"]
    plan = resource_plan(settings, trainer)
    games = plan["processes"] - 1
    copies = plan["env_copies"]
    facts = {
        "version": f"rltrain {rltrain.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "device": f"{plan['device']}, {plan['threads']} torch threads, 1 process"
        + (f" and {games} games" if games else ""),
        "algorithm": f"{settings.choices['algo']}: "
        + ", ".join(f"{name} {n:,} parameters" for name, n in plan["parameters"].items())
        + f", {size(plan['network_bytes'])} with targets and optimiser",
        "environment": f"{title(settings).partition(' on ')[2].partition(',')[0]}: "
        f"{spec['n_agents']} agents, {spec['n_actions']} actions, observation "
        f"{'×'.join(map(str, spec['obs_shape']))}, state {spec['state_dim']}, "
        f"{copies['training']} copies and {copies['tests']} for tests"
        + "".join(f", {name} {fact}" for name, fact in trainer.rollout.about.items()),
        "replay": replay_words(plan["replay"])
        + f"; {size(plan['available_memory_bytes'])} of memory are free",
        **recommended(settings.choices["tuned"]),
        "seed": str(settings.run.seed),
        "run folder": shown(trainer.run_dir),
    }
    if origin:
        facts["starts from"] = origin
    if trainer.clock.env_steps:
        facts["continues at"] = f"{trainer.clock.env_steps:,} env steps"
    return facts_panel("rltrain", facts)


def recommended(tuned: str) -> dict[str, str]:
    """Which recommended settings apply, and what switches them off."""
    return {} if tuned == "none" else {"settings": f"recommended, tuned/{tuned} (off: tuned=none)"}


def replay_words(plan: Mapping[str, Any]) -> str:
    """5,000 episodes of 1,234 bytes a step, up to 1.5 GB."""
    if not plan["capacity"]:
        return f"the last collect, {plan['bytes_per_step']:,} bytes a step"
    return (
        f"{plan['capacity']:,} {plan['unit']} of {plan['bytes_per_step']:,} bytes a step, "
        f"up to {size(plan['bytes'])}"
    )


def closing_words(
    facts: Mapping[str, Any], run_dir: Path, trainer: Trainer, status: str, trust: str | None
) -> str:
    """The result, and what to type next, with the package that a loaded run must ``trust``."""
    checkpoints, env_steps = run_dir / "checkpoints", trainer.clock.env_steps
    latest = checkpoint.newest_full(checkpoints)
    verb = {"finished": "Finished", "interrupted": "Stopped", "failed": "Failed"}[status]
    reason = f": {trainer.stopping}" if trainer.stopping and status == "finished" else ""
    lines = [f"{verb} at {env_steps:,} env steps after {duration(trainer.seconds)}{reason}."]
    if status != "finished":
        lines[0] += f" {kept_words(checkpoints, env_steps)}"
    for name, test in (("Last test", facts["final_test"]), ("Best test", facts["best_test"])):
        if test:
            win = f", win rate {test['test/win_rate']:.0%}" if "test/win_rate" in test else ""
            mean = test.get("test/return_mean")
            gained = f"return {mean:.2f}{win} (" if mean is not None else "("
            lines.append(f"{name}: {gained}at {test['env_steps']:,} env steps)")
    folder = shlex.quote(shown(run_dir))
    if "error" in facts:
        lines.append(f"{facts['error']}\nThe traceback is in {folder}/train.log.")
    more = 2 * trainer.total_env_steps if status == "finished" else None
    vouched = f" trust=[{trust}]" if trust else ""
    lines.append("")
    if latest is not None:
        lines.append(f"  rltrain mode=evaluate checkpoint={folder}{vouched}")
        further = f" total_env_steps={more}" if more else ""
        lines.append(f"  rltrain resume={folder}{further}{vouched}")
    if (run_dir / "learning_curve.png").exists():
        lines.append(f"  {folder}/learning_curve.png")
    return "\n".join(lines)


def kept_words(checkpoints: Path, env_steps: int) -> str:
    """What remains of a run that did not finish."""
    latest = checkpoint.newest_full(checkpoints)
    if latest == env_steps:
        return "Everything is saved."
    if latest is not None:
        return f"Kept: the last checkpoint (env step {latest:,})."
    best = checkpoint.pointed(checkpoints, "best")
    return (
        "Nothing is kept: there was no checkpoint yet."
        if best is None
        else f"Kept: only the weights of the best test (env step {best:,})."
    )


def shown(path: Path) -> str:
    """A path as a person would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def size(n_bytes: int) -> str:
    """1.5 GB."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, "TB" if unit == "GB" else unit
    return f"{value:.3g} {unit}"


def facts_panel(title: str, facts: Mapping[str, str]) -> Panel:
    """One line per fact."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    return Panel(table, title=title, border_style="cyan", expand=False)
