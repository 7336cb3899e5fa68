"""The closing lines of a run: its result, what is kept, and what to type next."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from rltrain.common import checkpoint
from rltrain.common.files import JsonObject, put_text
from rltrain.common.metrics import student, wilson
from rltrain.config.catalog import Tree
from rltrain.config.command_line import shell_word
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.trust import packages
from rltrain.env.third_party import render_modes
from rltrain.errors import NotTypedError, RltrainError
from rltrain.logger.screen import duration, shown
from rltrain.mode.messages.banner import JobName
from rltrain.mode.messages.card import card
from rltrain.trainer import Trainer


def closing_text(facts: JsonObject, trainer: Trainer, commands: Sequence[str]) -> str:
    """The result, where the curve is, and the next commands."""
    curve = trainer.run_dir / "learning_curve.png"
    next_lines = [*([shown(curve)] if curve.exists() else []), *commands]
    return "\n".join([*result(facts, trainer), *(f"  {line}" for line in next_lines)])


def result(facts: JsonObject, trainer: Trainer) -> list[str]:
    """How a run with these ``facts`` of ``run.json`` ended, with its last and best test."""
    env_steps, status = trainer.clock.env_steps, facts["status"]
    verb = {"finished": "Finished", "interrupted": "Stopped", "failed": "Failed"}[status]
    reason = f": {trainer.stopping}" if trainer.stopping and status == "finished" else ""
    lines = [f"{verb} at {env_steps:,} env steps after {duration(trainer.seconds)}{reason}."]
    last, best = facts["final_test"], facts["best_test"]
    if last and (text := score_text(last, trainer.about["config"]["test"]["episodes"])):
        lines[0] += f" Last test: {text}" + (", the best" if last == best else "") + "."
    if best and best != last and (text := score_text(best)):
        loads = checkpoint.pointed(trainer.run_dir / "checkpoints", "best") == best["env_steps"]
        hint = " (load_step=best)" if loads else ""
        lines[0] += f" Best test, at {best['env_steps']:,}{hint}: {text}."
    if status != "finished":
        lines[0] += f" {kept_text(trainer.run_dir / 'checkpoints', env_steps)}"
    if "error" in facts:
        log = trainer.run_dir / "train.log"
        lines += [facts["error"], *([f"The traceback is in {shown(log)}."] if log.exists() else [])]
    return lines


def one_line(lines: Sequence[str]) -> str:
    """The result of a job of a sweep: sentences side by side."""
    return " ".join(line if line.endswith(".") else f"{line}." for line in lines)


def score_text(test: JsonObject, n_episodes: int = 0) -> str:
    """win rate 50% [25%, 75%], return 12.34; with the 95% interval of the first if ``n_episodes``
    are known.
    """
    mean, wins, words = test.get("test/return_mean"), test.get("test/win_rate"), []
    if wins is not None:
        low, high = wilson(wins * n_episodes, n_episodes) if n_episodes else (wins, wins)
        words.append(f"win rate {wins:.0%}" + (f" [{low:.0%}, {high:.0%}]" if n_episodes else ""))
    if mean is not None:
        words.append(f"return {mean:.2f}")
        spread, known = test.get("test/return_std"), wins is None and n_episodes > 1
        if known and spread is not None:
            half = student(spread, n_episodes)[1]
            low, high = mean - half, mean + half
            equal = math.isclose(low, high)
            words[0] += " in every episode" if equal else f" [{low:.2f}, {high:.2f}]"
    return ", ".join(words)


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


def next_commands(facts: JsonObject, trainer: Trainer, trust: str | None) -> list[str]:
    """List the commands that can be typed next: to watch, to evaluate, to continue. Each has the
    package that a loaded run must ``trust``.
    """
    run_dir, path = trainer.run_dir, shown(trainer.run_dir)
    checkpoints = run_dir / "checkpoints"
    latest, best = checkpoint.newest_full(checkpoints), checkpoint.pointed(checkpoints, "best")
    total, steps = trainer.total_env_steps, trainer.clock.env_steps
    finished = facts["status"] == "finished"
    more = 2 * (total if 2 * total > steps else steps) if finished and steps >= total else None
    if latest is None and best is None:
        return []
    evaluate = evaluate_command(path if latest is not None else f"{path}/checkpoints/best", trust)
    watchable = trust != "__main__" and can_be_drawn(trainer)
    commands = [evaluate.replace("mode=evaluate", "mode=watch")] if watchable else []
    commands.append(evaluate)
    if latest is not None:
        ranks = "rank_timeout" in trainer.about["config"]["hardware"]
        metric = trainer.about["config"]["stop"]["metric"]
        reached = finished and (trainer.stopping or "").startswith(f"{metric} reached")
        others = ["stop.metric=null", "stop.value=null"] if reached else []
        others += keys_to_type(run_dir, trust)
        resume = resume_command(path, trust, more, others)
        torchrun = f"torchrun --nproc-per-node={os.environ.get('LOCAL_WORLD_SIZE', 2)} -m rltrain "
        by_rank = ranks and resume.startswith("rltrain ")
        commands.append(resume.replace("rltrain ", torchrun, 1) if by_rank else resume)
    return commands


def can_be_drawn(trainer: Trainer) -> bool:
    """Whether mode=watch can show the environments of tests."""
    env = getattr(trainer.test_rollout, "env", None)
    first = getattr(next(iter(getattr(env, "envs", ())), None), "env", None)
    drawn = getattr(env, "frames_per_second", None) is not None
    return drawn or "rgb_array" in render_modes(first)


def keys_to_type(run_dir: Path, trust: str | None) -> list[str]:
    """The overrides that a resume asks for, since they are not taken from the run's files."""
    try:
        trusted = [f"trust=[{trust}]"] if trust else []
        load_config(run_dir / "config.json", trusted, learns=True, resumes=True)
    except NotTypedError as error:
        return [*error.overrides]
    except RltrainError:
        return []  # the run could not write its configuration, and has said so
    return []


def evaluate_command(path: str, trust: str | None) -> str:
    """Return the command for an evaluation; a class of ``__main__`` only Python can name again."""
    if trust == "__main__":
        return f"rltrain.evaluate({path!r}, env=YOUR_CLASS)"
    trusted = f" trust=[{trust}]" if trust else ""
    return f"rltrain mode=evaluate {shell_word(f'checkpoint={path}')}{trusted}"


def resume_command(
    path: str, trust: str | None, total_env_steps: int | None, others: Sequence[str] = ()
) -> str:
    """Return the command that resumes a run, to this many env steps or to where it was to end, with
    other overrides.
    """
    more = f"total_env_steps={total_env_steps}" if total_env_steps else ""
    if trust == "__main__":
        typed = f"overrides={[*others]}" if others else ""
        arguments = ", ".join(filter(None, [repr(path), more, typed, "env=YOUR_CLASS"]))
        return f"rltrain.resume({arguments})"
    trusted = f"trust=[{trust}]" if trust else ""
    words = ["rltrain", shell_word(f"resume={path}"), more, trusted, *map(shell_word, others)]
    return " ".join(filter(None, words))


def conclusion(settings: Settings, trainer: Trainer, facts: JsonObject, job: JobName | None) -> str:
    """The last text about a run; a finished one gets its ``README.md``."""
    run_dir, trust = trainer.run_dir, to_trust(settings.plain)
    commands = next_commands(facts, trainer, trust)
    if facts["status"] == "finished":
        text = card(run_dir, settings, facts, commands, trust)
        with trainer.disk.attempt("README.md"):
            put_text(run_dir / "README.md", text)
    if job is None:
        return closing_text(facts, trainer, commands)
    return f"[{job.name}] " + one_line(result(facts, trainer))


def to_trust(config: Tree) -> str | None:
    """The packages, separated by commas, that a command which loads a run must trust;
    ``__main__`` if only Python can name them again, None without any.
    """
    named = [name for name in packages(config) if name.isidentifier()]
    return "__main__" if "__main__" in named else ",".join(named) or None
