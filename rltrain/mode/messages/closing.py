"""The closing lines of a run: its result, what is kept, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.common import checkpoint
from rltrain.common.files import put_text
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.trust import packages
from rltrain.errors import NotTypedError, RltrainError
from rltrain.logger.screen import duration, shown
from rltrain.mode.messages.banner import JobName
from rltrain.mode.messages.card import card
from rltrain.trainer import Trainer


def closing_text(facts: Mapping[str, Any], trainer: Trainer, trust: str | None) -> str:
    """The result, and what to type next, with the package that a loaded run must ``trust``."""
    commands = (f"  {command}" for command in next_commands(facts, trainer, trust))
    return "\n".join([*result(facts, trainer), "", *commands])


def result(facts: Mapping[str, Any], trainer: Trainer) -> list[str]:
    """How a run with these ``facts`` of ``run.json`` ended, and its last and best test."""
    env_steps, status = trainer.clock.env_steps, facts["status"]
    verb = {"finished": "Finished", "interrupted": "Stopped", "failed": "Failed"}[status]
    reason = f": {trainer.stopping}" if trainer.stopping and status == "finished" else ""
    lines = [f"{verb} at {env_steps:,} env steps after {duration(trainer.seconds)}{reason}."]
    if status != "finished":
        lines[0] += f" {kept_text(trainer.run_dir / 'checkpoints', env_steps)}"
    last, best = facts["final_test"], facts["best_test"]
    lines += [f"Last test: {test_text(last)}"] if last else []
    lines += [f"Best test: {test_text(best)}"] if best and best != last else []
    if "error" in facts:
        lines += [facts["error"], f"The traceback is in {shown(trainer.run_dir)}/train.log."]
    return lines


def one_line(lines: Sequence[str]) -> str:
    """The result of a job of a sweep: sentences side by side."""
    return " ".join(line if line.endswith(".") else f"{line}." for line in lines)


def test_text(test: Mapping[str, Any]) -> str:
    """return 12.34, win rate 50% (at 10,000 env steps)."""
    mean, wins = test.get("test/return_mean"), test.get("test/win_rate")
    words = [] if mean is None else [f"return {mean:.2f}"]
    words += [] if wins is None else [f"win rate {wins:.0%}"]
    return f"{', '.join(words)} (at {test['env_steps']:,} env steps)".lstrip()


def kept_text(checkpoints: Path, env_steps: int) -> str:
    """Return a sentence about the checkpoints of a run that did not finish."""
    latest, best = checkpoint.newest_full(checkpoints), checkpoint.pointed(checkpoints, "best")
    if latest == env_steps:
        return "Everything is saved."
    if latest is not None:
        return f"Kept: the last checkpoint (env step {latest:,})."
    if best is not None:
        return f"Kept: only the weights of the best test (env step {best:,})."
    return "Nothing is kept: there was no checkpoint yet."


TORCHRUN = "torchrun --nproc-per-node=2 -m rltrain"


def next_commands(facts: Mapping[str, Any], trainer: Trainer, trust: str | None) -> list[str]:
    """List the commands that can be typed next, and files to look at."""
    run_dir, path = trainer.run_dir, shown(trainer.run_dir)
    checkpoints, folder = run_dir / "checkpoints", shlex.quote(path)
    latest, best = checkpoint.newest_full(checkpoints), checkpoint.pointed(checkpoints, "best")
    more = 2 * trainer.total_env_steps if facts["status"] == "finished" else None
    commands = []
    if best is not None and best != latest:
        commands.append(evaluate_command(f"{path}/checkpoints/best", trust))
    if latest is not None:
        commands.append(evaluate_command(path, trust))
        ranks = "rank_timeout" in trainer.about["config"]["hardware"]
        resume = " ".join([resume_command(path, trust, more), *keys_to_type(run_dir, trust)])
        commands.append(resume.replace("rltrain", TORCHRUN, 1) if ranks else resume)
    if any((run_dir / "wandb").glob("offline-run-*")):
        commands.append(f"wandb sync {folder}/wandb/offline-run-*")
    if (run_dir / "learning_curve.png").exists():
        commands.append(f"{folder}/learning_curve.png")
    return commands


def keys_to_type(run_dir: Path, trust: str | None) -> list[str]:
    """The overrides that a resume asks for, since they are not taken from the run's files."""
    try:
        trusted = [f"trust=[{trust}]"] if trust else []
        load_config(run_dir / "config.json", trusted, learns=True, resumes=True)
    except NotTypedError as error:
        return [shlex.quote(override) for override in error.overrides]
    except RltrainError:
        return []  # the run could not write its configuration, and has said so
    return []


def evaluate_command(path: str, trust: str | None) -> str:
    """Return the command for an evaluation; a class of ``__main__`` only Python can name again."""
    if trust == "__main__":
        return f"rltrain.evaluate({path!r}, env=YOUR_CLASS)"
    trusted = f" trust=[{trust}]" if trust else ""
    return f"rltrain mode=evaluate checkpoint={shlex.quote(path)}{trusted}"


def resume_command(path: str, trust: str | None, total_env_steps: int | None) -> str:
    """Return the command that resumes a run, to so many env steps or to where it was to end."""
    more = f"total_env_steps={total_env_steps}" if total_env_steps else ""
    if trust == "__main__":
        arguments = ", ".join(filter(None, [repr(path), more, "env=YOUR_CLASS"]))
        return f"rltrain.resume({arguments})"
    trusted = f"trust=[{trust}]" if trust else ""
    return " ".join(filter(None, [f"rltrain resume={shlex.quote(path)}", more, trusted]))


def conclusion(
    settings: Settings, trainer: Trainer, facts: Mapping[str, Any], job: JobName | None
) -> str:
    """The last text about a run; a finished one gets its ``README.md``."""
    run_dir, trust = trainer.run_dir, to_trust(settings)
    if facts["status"] == "finished":
        text = card(run_dir, settings, facts, next_commands(facts, trainer, trust))
        trainer.disk.attempt("README.md", lambda: put_text(run_dir / "README.md", text))
    if job is None:
        return closing_text(facts, trainer, trust)
    return f"[{job.name}] " + one_line(result(facts, trainer))


def to_trust(settings: Settings) -> str | None:
    """The packages, separated by commas, that a command which loads the run must trust;
    ``__main__`` if only Python can name them again, None without any.
    """
    named = packages(settings.plain)
    return "__main__" if "__main__" in named else ",".join(named) or None
