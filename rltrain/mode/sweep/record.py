"""``run.json`` of a run that did not live to write it."""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from pathlib import Path

from rltrain.common.files import json_object, put_text
from rltrain.common.json_text import json_text
from rltrain.errors import UsageError
from rltrain.mode.run_folder import holds_run, now, require_own, run_lock

log = logging.getLogger("rltrain")


def record_failure(
    run_dir: Path, error: str, exit_code: int, process: int, status: str = "failed"
) -> None:
    """Record in ``run.json``, if it can be written, that a run ended before or apart from its own
    records. The record of a run that ended before ``process`` began or continued it, or that
    another process holds, stays as it is, and so does a folder of other files.
    """
    facts = {"status": status, "exit_code": exit_code, "error": error, "finished": now()}
    path = run_dir / "run.json"
    before = json_object(path)
    at_work = before.get("process")
    if before.get("status") != "running" and (at_work is not None or holds_run(run_dir)):
        return
    try:
        with suppress(UsageError):
            require_own(run_dir)
            run_dir.mkdir(parents=True, exist_ok=True)
            with nullcontext() if at_work == process else run_lock(run_dir):
                put_text(path, json_text(before | facts))
    except OSError as failure:
        log.warning("%s could not be written (%s)", path, failure)
