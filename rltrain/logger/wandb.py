"""Weights & Biases, offline by default."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from rltrain.common.files import expanded
from rltrain.common.json_text import flat
from rltrain.common.machine.child_processes import kill_children
from rltrain.common.machine.places import user_cache
from rltrain.logger.background import InBackground
from rltrain.logger.loggers import VIDEO
from rltrain.types import Clock

log = logging.getLogger("rltrain")
STARTING = Lock()
"""Two threads that start a run at once would see no run of the other one."""
LOCK = Lock()
"""Of ``OPEN``; never held while wandb may not answer."""
OPEN: dict[int, bool] = {}
"""The runs of this process, by the ``id`` of their logger, and whether they were abandoned."""


class Wandb(InBackground):
    """One run of wandb; a resumed run continues it.

    Without a network or a key the run is recorded offline.

    Args:
        mode: ``disabled`` logs nothing.
        group: of runs in wandb; None for the folder that holds the run folder.
        tags: None for the algorithm and the environment.
        options: other arguments of ``wandb.init``.
    """

    NAME, TIMEOUT = "wandb", 15

    def __init__(
        self,
        *,
        run_dir: Path,
        config: Mapping[str, Any],
        mode: Literal["online", "offline", "disabled"],
        project: str,
        group: str | None,
        tags: Sequence[str] | None,
        **options: object,
    ) -> None:
        super().__init__(run_dir)
        self.mode = mode
        chosen = config.get("choices", {})
        self.options = {
            "dir": str(run_dir),
            "config": dict(config),
            "name": run_dir.name,
            "project": project,
            "group": group or self.folder,
            "tags": [chosen[g] for g in ("algo", "env") if g in chosen] if tags is None else tags,
            **options,
        }

    def send_summary(self, summary: Mapping[str, object]) -> None:
        """The status, and the final and best tests as ``final/…`` and ``best/…``."""
        self.run.summary.update(flat(summary, "/"))

    def finish(self) -> None:
        super().finish()
        with LOCK:
            OPEN.pop(id(self), None)
        self._end_service()

    def abandon(self) -> None:
        """End the service of wandb, for which this process would wait when it ends, when no other
        run needs it; its files stay, and ``wandb sync`` sends them.
        """
        with LOCK:
            OPEN[id(self)] = True
        self._end_service()

    def _end_service(self) -> None:
        with LOCK:
            if not OPEN or not all(OPEN.values()):
                return
            OPEN.clear()
        import wandb

        kill_children("wandb")
        with suppress(Exception):  # its service has ended already
            wandb.teardown()

    def send(self, env_steps: int, row: dict[str, float]) -> None:
        self.run.log(row)

    def send_video(self, clock: Clock, path: Path) -> None:
        import wandb

        self.run.log({VIDEO: wandb.Video(str(path), format="gif"), **asdict(clock)})

    def begin(self) -> object:
        with LOCK:
            OPEN[id(self)] = False
        try:
            run = self._initialize()
            run.define_metric("env_steps")
            run.define_metric("*", step_metric="env_steps")  # the charts' x axis; default: the row
            return run
        except BaseException:
            with LOCK:
                OPEN.pop(id(self), None)
            raise

    def _initialize(self) -> Any:
        # its default, which it only finds where HOME is set; its service logs to stderr without
        os.environ.setdefault("WANDB_CACHE_DIR", str(user_cache().with_name("wandb")))
        import wandb

        mode = self.mode
        if mode == "online" and not has_key(os.environ):
            log.warning("wandb: no API key, so this run is recorded offline (wandb sync sends it)")
            mode = "offline"
        settings = wandb.Settings(init_timeout=self.TIMEOUT, console="off", silent=True)
        start: dict[str, Any] = {"settings": settings, "id": self.own_id, **self.options}
        with STARTING:
            if wandb.run is not None:  # of another trainer of this process: it would be returned
                start = {"reinit": "create_new", **start}
            try:
                if mode == "online":
                    return wandb.init(mode="online", **{"resume": "allow", **start})
            except wandb.errors.CommError:
                log.warning("wandb: the server does not answer, so this run is recorded offline")
                mode = "offline"
            return wandb.init(mode=mode, **{**start, "resume": None})


def has_key(environment: Mapping[str, str]) -> bool:
    """Whether there is a key with which wandb can log in: in a variable, or in ``.netrc``."""
    if environment.get("WANDB_API_KEY"):
        return True
    try:
        file = expanded(environment.get("NETRC", "~/.netrc"))
        return "api.wandb.ai" in file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
