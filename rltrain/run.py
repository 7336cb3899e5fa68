"""mode=train: one run in one folder, from the banner to the closing words; also a resumed one."""

from __future__ import annotations

import json
import logging
import platform
import secrets
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console as RichConsole

import rltrain
from rltrain import checkpoint
from rltrain.build import build_trainer, config_record, n_threads, title
from rltrain.callback import Callback
from rltrain.errors import RltrainError, UsageError
from rltrain.hardware.device import machine, set_allocator_policy
from rltrain.logger import Console, JsonLines, Logger, TrainLog, Wandb, duration, facts_panel
from rltrain.settings import Settings
from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
SIGNAL_CODES = {"SIGINT": 130, "SIGTERM": 143}
KEPT_ON_RESUME = ("seed", "env.", "algo.", "buffer.", "hardware.n_envs", "checkpoint", "load_step")
"""What a resumed run cannot change: it would no longer be the same run."""


@dataclass(frozen=True)
class Result:
    """What a run left behind. ``metrics`` are the last values by name."""

    run_dir: Path
    metrics: Mapping[str, float] = field(default_factory=dict)
    exit_code: int = 0


def new_run_dir(settings: Settings, root: Path | None = None) -> Path:
    """``outputs/<algo>-<env>/<date>_<time>-s<seed>-<4 hex>``."""
    now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    group = f"{settings.choices['algo']}-{settings.choices['env']}"
    name = f"{now}-s{settings.run.seed}-{secrets.token_hex(2)}"
    return (root or Path.cwd() / "outputs") / group / name


def preflight(settings: Settings, run_dir: Path) -> None:
    """Build everything once and look at the folder, so that what cannot work is refused before a
    file exists.

    Raises:
        UsageError: parts that do not fit, or a folder that cannot be written.
        CheckpointError: weights to start from that cannot be read.
    """
    trainer = built(settings, run_dir, [])
    start_from(trainer, settings)
    trainer.close()
    require_writable(run_dir)


def built(settings: Settings, run_dir: Path, loggers: list[Logger]) -> Trainer:
    """A trainer, with what its parts refuse put as a usage error."""
    set_allocator_policy()
    try:
        return build_trainer(settings, run_dir, loggers)
    except ValueError as error:
        raise UsageError(str(error)) from error


def start_from(trainer: Trainer, settings: Settings) -> str | None:
    """Load the weights that ``checkpoint=`` names; says which were taken."""
    if settings.run.checkpoint is None:
        return None
    found = checkpoint.find(Path(settings.run.checkpoint).expanduser(), settings.run.load_step)
    trainer.load_weights(found.folder)
    return "\n".join([f"{found.folder} (step {found.step:,})", *found.remarks])


def require_writable(run_dir: Path) -> None:
    """Refuse a run folder that cannot be made, without leaving anything behind."""
    existing = run_dir
    while not existing.exists():
        existing = existing.parent
    probe = existing / f".rltrain-{secrets.token_hex(4)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise UsageError(
            f"The run folder {run_dir} cannot be written: {error.strerror}. Start rltrain from a "
            "folder of yours, or type hydra.run.dir=FOLDER."
        ) from error


class Record(Callback):
    """Keeps ``run.json``: status, versions, machine, resumes, final and best test results."""

    def __init__(self, run_dir: Path, console: RichConsole | None = None) -> None:
        self.path = run_dir / "run.json"
        self.facts: dict[str, Any] = {
            "status": "running",
            "started": now(),
            "version": rltrain.__version__,
            "git_commit": git_commit(),
            "machine": machine(),
            "resumes": [],
            "final_test": None,
            "best_test": None,
        }
        if self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))
            kept = ("started", "final_test", "best_test")
            self.facts |= {k: before[k] for k in kept if k in before}
            self.facts["resumes"] = [*before.get("resumes", []), now()]

    def on_test_end(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        result = {"env_steps": trainer.clock.env_steps, **value}
        self.facts["final_test"] = result
        best = checkpoint.pointed(trainer.run_dir / "checkpoints", "best")
        if best == trainer.clock.env_steps:
            self.facts["best_test"] = result
        self.write(trainer)
        return value

    def write(self, trainer: Trainer, **facts: Any) -> None:
        self.facts |= {**asdict(trainer.clock), "seconds": round(trainer.seconds, 1), **facts}
        checkpoint.put_text(self.path, json.dumps(self.facts, indent=1))


def run_training(
    settings: Settings, run_dir: Path, *, resume: bool = False, loud: bool = True
) -> Result:
    """One whole run in ``run_dir``. Failures of the run are recorded there and become an exit code.

    Raises:
        UsageError: what is wrong was known before anything was written.
    """
    loud = loud and settings.logger.console
    screen = RichConsole(highlight=False, quiet=not loud)
    run_dir.mkdir(parents=True, exist_ok=True)
    with train_log(run_dir):
        loggers: list[Logger] = [JsonLines(run_dir / "metrics.jsonl"), TrainLog()]
        if loud:
            loggers.append(Console(settings.run.total_env_steps, screen))
        trainer = built(settings, run_dir, loggers)
        fan_out = trainer_loggers(trainer)
        record = Record(run_dir)
        trainer.callbacks = type(trainer.callbacks)([*trainer.callbacks.callbacks, record])
        origin = start_from(trainer, settings) if not resume else None
        if resume:
            trainer.restore(run_dir)
        config = config_record(settings)
        checkpoint.put_text(run_dir / "config.json", json.dumps(config, indent=1))
        record.write(trainer)
        screen.print(banner(settings, trainer, origin))
        fan_out.loggers += wandb_logger(settings, run_dir, config)
        try:
            with stop_on_signals(trainer) as caught:
                trainer.train()
            code = SIGNAL_CODES[caught[0]] if caught else 0
            status = "interrupted" if caught else "finished"
        except KeyboardInterrupt:
            code, status = 130, "interrupted"
        except Exception as error:
            code = error.exit_code if isinstance(error, RltrainError) else 1
            status = "failed"
            log.error("%s", traceback.format_exc())
            record.facts["error"] = f"{type(error).__name__}: {error}"
        finally:
            fan_out.close()
            trainer.close()
        record.write(trainer, status=status, exit_code=code, finished=now())
        screen.print(closing_words(record.facts, run_dir, trainer, status), soft_wrap=True)
    return Result(run_dir, dict(trainer.latest), code)


def trainer_loggers(trainer: Trainer) -> Any:
    """The fan-out that the trainer's Test and Log callbacks share."""
    return next(c.loggers for c in trainer.callbacks.callbacks if hasattr(c, "loggers"))


def wandb_logger(settings: Settings, run_dir: Path, config: Mapping[str, Any]) -> list[Logger]:
    """wandb, unless it is switched off or cannot start: training goes on without it."""
    options = dict(settings.logger.wandb)
    mode = options.pop("mode")
    if mode == "disabled":
        return []
    try:
        return [Wandb(run_dir, config, mode, **options)]
    except Exception as error:
        log.warning("wandb could not start (%s); the run goes on without it", error, exc_info=True)
        return []


@contextmanager
def stop_on_signals(trainer: Trainer) -> Iterator[list[str]]:
    """The first Ctrl-C or SIGTERM ends the run after the present iteration, the second at once."""
    caught: list[str] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(signal.Signals(number).name)
        trainer.stop(caught[0])

    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


@contextmanager
def train_log(run_dir: Path) -> Iterator[None]:
    """``train.log`` takes every message; warnings also reach the screen."""
    handler = logging.FileHandler(run_dir / "train.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    screen = logging.StreamHandler()
    screen.setLevel(logging.WARNING)
    screen.addFilter(lambda record: record.levelno < logging.ERROR)
    screen.setFormatter(ShortFormatter("%(levelname)s: %(message)s"))
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    log.addHandler(screen)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.removeHandler(screen)
        handler.close()
        log.setLevel(level)
        log.propagate = propagate


class ShortFormatter(logging.Formatter):
    """Messages without their traceback, which ``train.log`` keeps."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


def banner(settings: Settings, trainer: Trainer, origin: str | None) -> Any:
    """What runs here, on one screen."""
    spec = trainer.about["spec"]
    online = trainer.learner.online  # type: ignore[attr-defined]
    parameters = {
        name: sum(p.numel() for p in part.parameters()) for name, part in online.named_children()
    }
    plan = trainer.buffer.plan()  # type: ignore[attr-defined]
    worst = "" if plan.worst_case_bytes is None else f", {size(plan.worst_case_bytes)} at worst"
    device = next(online.parameters()).device
    facts = {
        "version": f"rltrain {rltrain.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "device": f"{device}, {n_threads(settings)} torch threads",
        "algorithm": f"{settings.choices['algo']}: "
        + ", ".join(f"{name} {n:,} parameters" for name, n in parameters.items()),
        "environment": f"{title(settings).partition(' on ')[2].partition(',')[0]}: "
        f"{spec['n_agents']} agents, {spec['n_actions']} actions, observation "
        f"{'×'.join(map(str, spec['obs_shape']))}, state {spec['state_dim']}, "
        f"{settings.hardware.n_envs} copies",
        "replay": f"{plan.capacity:,} episodes, {plan.bytes_per_step:,} bytes a step{worst}, "
        f"never more than {size(plan.cap_bytes)}",
        "seed": str(settings.run.seed),
        "run folder": shown(trainer.run_dir),
    }
    if origin:
        facts["starts from"] = origin
    if trainer.clock.env_steps:
        facts["continues at"] = f"{trainer.clock.env_steps:,} env steps"
    return facts_panel("rltrain", facts)


def closing_words(facts: Mapping[str, Any], run_dir: Path, trainer: Trainer, status: str) -> str:
    """The result, and what to type next."""
    words = {
        "finished": f"Finished at {trainer.clock.env_steps:,} env steps",
        "interrupted": f"Stopped at {trainer.clock.env_steps:,} env steps, everything saved",
        "failed": f"Failed at {trainer.clock.env_steps:,} env steps",
    }
    lines = [f"[bold]{words[status]}[/] after {duration(trainer.seconds)}."]
    if trainer.stopping and status == "finished":
        lines[0] = lines[0][:-1] + f": {trainer.stopping}."
    for name, test in (("Last test", facts["final_test"]), ("Best test", facts["best_test"])):
        if test:
            win = f", win rate {test['test/win_rate']:.0%}" if "test/win_rate" in test else ""
            lines.append(
                f"{name}: return {test['test/return_mean']:.2f}{win} "
                f"(at {test['env_steps']:,} env steps)"
            )
    if "error" in facts:
        lines.append(f"[red]{facts['error']}[/]\nThe traceback is in {shown(run_dir)}/train.log.")
    folder = shown(run_dir)
    more = 2 * trainer.total_env_steps if status == "finished" else None
    lines += [
        "",
        f"  rltrain mode=evaluate checkpoint={folder}",
        f"  rltrain resume={folder}" + (f" total_env_steps={more}" if more else ""),
    ]
    if (run_dir / "learning_curve.png").exists():
        lines.append(f"  {folder}/learning_curve.png")
    return "\n".join(lines)


def latest_run(root: Path) -> Path:
    """The run folder under ``root`` that was written last.

    Raises:
        UsageError: there is none.
    """
    records = [*root.glob("*/*/run.json"), *root.glob("multirun/*/*/run.json")]
    if not records:
        raise UsageError(f"resume=latest: there is no run under {root}. Type resume=RUN_FOLDER.")
    return max(records, key=lambda p: p.stat().st_mtime).parent


def refuse_changes(changed: list[str]) -> None:
    """A resumed run stays the run it was.

    Raises:
        UsageError: names the keys, and what to do instead.
    """
    bad = [k for k in changed if k.startswith(KEPT_ON_RESUME)]
    if bad:
        raise UsageError(
            f"A resumed run keeps its {', '.join(bad)}. To train on with other settings, start a "
            "new run from these weights: rltrain checkpoint=RUN_FOLDER algo=… env=… key=value."
        )


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


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


def git_commit() -> str | None:
    """The commit of the working copy that rltrain runs from, or None."""
    try:
        return subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
