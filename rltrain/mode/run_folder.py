"""The run folder: where it is, what its config.json and run.json keep, and who holds it."""

from __future__ import annotations

import gc
import json
import logging
import os
import secrets
import shlex
import shutil
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import rltrain
from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import keep_file
from rltrain.common.files import (
    TRIALS,
    JsonObject,
    absolute_path,
    dated,
    digest,
    drop_temporary,
    expanded,
    json_object,
    locked,
    put_text,
    require_empty,
)
from rltrain.common.json_text import json_text
from rltrain.common.machine.places import require_possible, require_writable
from rltrain.common.metrics import beats, by_opponent, read_test, test_score
from rltrain.config.overrides import pick
from rltrain.config.saved_config import config_text
from rltrain.config.schema import Settings
from rltrain.config.trust import FILES
from rltrain.errors import CheckpointError, FolderError, UsageError, failure
from rltrain.hardware.device import machine
from rltrain.logger.screen import shown
from rltrain.mode.find_opponents import keep_opponents
from rltrain.mode.messages.banner import resource_plan
from rltrain.types import StateDict

log = logging.getLogger("rltrain")
NEW_FOLDER = (
    "Type hydra.run.dir=FOLDER with a new or an empty folder, or leave it out for one below "
    "outputs."
)
OF_SWEEP = "Move it away, or type hydra.sweep.dir=FOLDER for another folder."
COPY = "Free space on its disk, or copy the run to your own folder and resume the copy."


def new_run_dir(settings: Settings) -> Path:
    """``outputs/<algo>-<env>/<date>_<time>[-<name>]-s<seed>-<4 hex>``."""
    group = f"{settings.choices['algo']}-{settings.choices['env']}"
    folder = dated(group, settings.run.name)
    run_dir = folder.with_name(f"{folder.name}-s{settings.run.seed}-{secrets.token_hex(2)}")
    require_possible(run_dir, "name")
    return run_dir


def holds_run(folder: Path) -> bool:
    """Whether a run was started here. A ``run.json`` alone belongs to one that could not start."""
    begun = (folder / "run.json").exists() and (folder / "config.json").exists()
    return begun or (folder / "checkpoints").exists()


def require_new(run_dir: Path, advice: str = NEW_FOLDER) -> None:
    """UsageError with ``advice`` for a folder that already holds a run or something else, or that
    cannot be created. One in which a run was about to begin is taken.
    """
    if holds_run(run_dir):
        raise UsageError(
            f"{run_dir} already holds a run. Type resume={shlex.quote(str(run_dir))} to continue "
            "it, or choose another folder."
        )
    require_own(run_dir, advice)
    require_writable(run_dir)


def require_own(run_dir: Path, advice: str = "") -> None:
    """UsageError with ``advice`` for a folder that holds something else than a run."""
    record = json_object(run_dir / "run.json")  # of new_run or record_failure
    if "status" not in record or not {"process", "exit_code"} & set(record):
        require_empty(run_dir, "a run", advice, (".hydra", ".run.json.*"))


def clear_folder(run_dir: Path, settings: Settings) -> None:
    """Remove what a run without a checkpoint to resume from has written.

    Raises:
        UsageError: there is a dataset where it would write one.
    """
    dataset = settings.run.dataset.write
    if dataset is not None and next(expanded(dataset).glob("*"), None) is not None:
        raise UsageError(
            f"{run_dir} has no checkpoint yet and starts again at env step 0, but "
            f"dataset.write={dataset} already exists. Delete it if this run began it, or move it "
            "to another folder, then resume again."
        )
    (run_dir / "metrics.jsonl").unlink(missing_ok=True)
    cleared = run_dir / ".cleared"  # a folder half removed would look like damaged checkpoints
    shutil.rmtree(cleared, ignore_errors=True)
    if (run_dir / "checkpoints").exists():
        os.replace(run_dir / "checkpoints", cleared)
        shutil.rmtree(cleared, ignore_errors=True)


def run_lock(run_dir: Path) -> AbstractContextManager[int | None]:
    """Hold a run folder; FolderError if another process holds it."""

    def refuse(_: str) -> None:
        process = json_object(run_dir / "run.json").get("process", "another")
        raise FolderError(
            f"The run in {shown(run_dir)} is already running (process {process}). Wait until "
            "it has ended, stop it with Ctrl-C or close its trainer. Then resume it."
        )

    return locked(run_dir, refuse)


@contextmanager
def new_run(run_dir: Path, files: Mapping[str, str]) -> Iterator[None]:
    """Create the folder of a new run and hold it, with ``files`` (texts by name) in its
    ``.hydra/``. Its first file marks it as a run, however soon the process may be killed.

    Raises:
        UsageError: another process holds it, or has made a run in it meanwhile.
        OSError: it cannot be written.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with run_lock(run_dir):
        require_new(run_dir)
        put_text(run_dir / "run.json", json_text({"status": "running", "process": os.getpid()}))
        for name, text in files.items():
            (run_dir / ".hydra").mkdir(exist_ok=True)
            put_text(run_dir / ".hydra" / name, text)
        yield


def link_latest(run_dir: Path) -> None:
    """Let ``outputs/latest`` lead to this run, if it is below ``outputs`` and is not a trial of a
    search; where links cannot be created there is none.
    """
    if run_dir.parent.name == TRIALS:
        return
    outputs = Path.cwd() / "outputs"
    link, temporary = outputs / "latest", outputs / f".latest-{secrets.token_hex(4)}"
    if outputs not in run_dir.absolute().parents or (link.exists() and not link.is_symlink()):
        return
    try:
        temporary.symlink_to(os.path.relpath(run_dir, outputs), target_is_directory=True)
        os.replace(temporary, link)
    except OSError as error:
        log.info("outputs/latest could not be linked: %s", error)
        temporary.unlink(missing_ok=True)


class Record(Callback):
    """Keeps ``config.json`` and ``run.json``: status, versions, machine, resumes, final and best
    test results.
    """

    def __init__(self, run_dir: Path, settings: Settings) -> None:
        self.path, self.settings = run_dir / "run.json", settings
        typed = {key: pick(settings.plain, key) for key in FILES}
        self.sources = {key: absolute_path(path) for key, path in typed.items() if path}
        self.facts: JsonObject = {}
        self.error: BaseException | None = None  # that ended the run
        self.sums: dict[str, str] = {}  # SHA-256 of the files of the environment, by key
        self.named: dict[str, str] = {}  # their paths as they were typed
        self.best: JsonObject = {"test": None, "untrained": True}

    def initialize(self, about: Mapping[str, object]) -> None:
        """Record what is known before the first step; ``about`` describes the environments, which
        may differ after a resume.
        """
        self.facts |= {
            "status": "running",
            "process": os.getpid(),
            "started": now(),
            "version": rltrain.__version__,
            **git_state(),
            "machine": machine(),
            "resumes": [],
            "final_test": None,
            "best_test": None,
        }
        before = json_object(self.path)
        if holds_run(self.path.parent) and before:
            kept = {"started": str, "environment": dict, "imported": str}
            self.facts |= {k: before[k] for k, of in kept.items() if isinstance(before.get(k), of)}
            if checkpoint.resumable(self.path.with_name("checkpoints")):
                self.facts |= {k: read_test(before.get(k)) for k in ("final_test", "best_test")}
            resumes = before.get("resumes")
            self.facts["resumes"] = [*(resumes if isinstance(resumes, list) else []), now()]
        played = self.facts.get("environment", about)
        if played != about:
            log.warning(
                "this run was played with %s so far and continues with %s", played, dict(about)
            )
        self.facts["environment"] = dict(about)

    def begin(self, trainer: Training) -> None:
        """Write both files."""
        link_latest(self.path.parent)
        for key, source in self.sources.items():
            keep_file(self.path.parent, key, source)
        self.sums = {key: digest(source) for key, source in self.sources.items()}
        self.named = self.names() if self.sources else {}
        keep_opponents(self.settings, self.path.parent)
        drop_temporary(self.path.parent, "config.json", "run.json", "README.md")
        self.write(trainer, plan=resource_plan(self.settings, trainer))
        put_text(self.path.with_name("config.json"), config_text(self.settings, self.path.parent))

    def state_dict(self) -> StateDict:
        return {**self.sums, "named": self.named, "best": self.best}

    def names(self) -> dict[str, str]:
        """The files of the environment as they were typed, by key."""
        config = json.loads(config_text(self.settings, self.path.parent))
        return {key: pick(config, key) for key in self.sources}

    def load_state_dict(self, state: StateDict) -> None:
        """Compare the files of the environment, before a run continues.

        Raises:
            CheckpointError: one that is not as it was.
        """
        best = state["best"]
        self.best = {"test": read_test(best["test"]), "untrained": bool(best["untrained"])}
        sources = {} if self.sums else self.sources
        named = self.names() if sources else {}
        for key, source in sources.items():
            other_name = state["named"].get(key) != named[key]
            replaced = key.startswith("test.") and other_name  # a resume may choose others
            if state.get(key, found := digest(source)) != found and not replaced:
                raise CheckpointError(
                    f"{source} is damaged, or another {key} than the run was played with: its "
                    "checksum is not the checkpoint's. Put it back, or start a new run."
                )

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        if not trainer.tests.counts:
            return value
        env_steps = trainer.tests.clock.env_steps
        result = {"env_steps": env_steps, **value}
        before = self.best["test"]
        score, untrained = [] if before is None else test_score(before), trainer.untrained
        if beats(result, score, untrained=untrained, best_untrained=self.best["untrained"]):
            self.best = {"test": result, "untrained": untrained}
        self.facts |= {"final_test": result, "best_test": self.best["test"]}
        self.write(trainer)
        return value

    def write(self, trainer: Training, **facts: object) -> None:
        """Write ``run.json``, unless it cannot be written now."""
        used = {name: round(value, 1) for name, value in trainer.usage.state_dict().items()}
        self.facts |= {**asdict(trainer.clock), **used, "degraded": trainer.disk.degraded, **facts}
        if against := by_opponent(trainer.latest):
            self.facts["opponents"] = against
        text = json_text(self.facts)
        with trainer.disk.attempt("run.json"):
            put_text(self.path, text)


class Journal(Record):
    """The record of a run that is driven by hand, started with its first step."""

    holds = begun = False
    starts_first = True  # nothing is written into a folder that another process holds

    def hold(self, trainer: Training) -> None:
        """Hold the folder until the trainer is closed; one that nothing refers to holds nothing."""
        if not self.holds:
            try:
                trainer.held.enter_context(run_lock(self.path.parent))
            except UsageError:
                gc.collect()
                trainer.held.enter_context(run_lock(self.path.parent))
            self.holds = True

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.hold(trainer)
        if not self.facts:
            self.initialize(trainer.rollout.about)
            weakref.finalize(trainer, leave, self.path, os.getpid())
        if not self.begun:  # or an exception came between
            self.begin(trainer)
            self.begun = True

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        self.on_train_start(trainer)  # the first test comes before
        return super().on_test_end(trainer, value)

    def on_save(self, trainer: Training, value: StateDict) -> StateDict:
        self.hold(trainer)
        if self.facts:
            self.write(trainer)
        return value

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        if self.facts and self.facts["status"] != "running":  # it went on after its end
            self.facts = {k: v for k, v in self.facts.items() if k not in ("finished", "error")}
            self.write(trainer, status="running")

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        status = "interrupted" if trainer.interrupted else "finished"
        self.facts.pop("error", None)  # of its last test, which was made again
        self.write(trainer, status=status, finished=now())

    def on_exception(self, trainer: Training, value: BaseException) -> BaseException:
        status = "failed" if isinstance(value, Exception) else "interrupted"
        if self.facts:
            self.write(trainer, status=status, finished=now(), error=failure(value))
        return value


def leave(path: Path, process: int, **ended: object) -> None:
    """Record that a process left its run before the end, with what else ``ended`` says of it."""
    record = json_object(path)
    if record.get("status") == "running" and record.get("process") == process == os.getpid():
        with suppress(OSError):
            ended = {"status": "interrupted", "finished": now(), **ended}
            put_text(path, json_text(record | ended))


def now() -> str:
    """The local time with its offset, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def git_state() -> dict[str, str | bool | None]:
    """The commit of the working copy that rltrain runs from, and whether tracked files differ from
    it; None where there is no git.
    """
    command = ["git", "-C", str(Path(__file__).parent), "describe"]
    command += ["--always", "--exclude=*", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return {"git_commit": None, "git_dirty": None}
    commit, _, dirty = done.stdout.strip().partition("-")
    return {"git_commit": commit, "git_dirty": bool(dirty)}
