"""Weights & Biases, offline by default."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any, cast

from rltrain.logger.loggers import Logger
from rltrain.types import Clock

log = logging.getLogger("rltrain")


class Wandb(Logger):
    """Weights & Biases. It starts in the background at the first row, and keeps rows until it has
    started. Without a network or a key the run is recorded offline; a start that fails is logged,
    and the rows are dropped.
    """

    TIMEOUT = 15

    def __init__(self, run_dir: Path, config: Mapping[str, Any], mode: str, **options: Any) -> None:
        self.mode = mode
        self.options = {
            "dir": str(run_dir),
            "config": dict(config),
            "name": run_dir.name,
            "id": run_dir.name,
            **options,
        }
        self.run: Any = None  # of wandb, once it has started
        self.waiting: list[dict[str, float]] = []
        self.starter = Thread(target=self._start, name="wandb", daemon=True)

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.waiting.append({**row, **asdict(clock), "seconds": seconds})
        if self.starter.ident is None:
            self.starter.start()
        if not self.starter.is_alive():
            self._log_waiting()

    def close(self) -> None:
        if self.starter.ident is None:
            return
        self.starter.join()
        self._log_waiting()
        if self.run is not None:
            self.run.finish()

    def _log_waiting(self) -> None:
        while self.waiting:
            row = self.waiting.pop(0)
            if self.run is not None:
                self.run.log(row)

    def _start(self) -> None:
        try:
            self.run = self._init()
        except Exception as error:
            text = "wandb could not start (%s); the run goes on without it"
            log.warning(text, error, exc_info=True)

    def _init(self) -> Any:
        import wandb

        mode = self.mode
        if mode == "online" and not (os.environ.get("WANDB_API_KEY") or self.has_login()):
            log.warning("wandb: no API key, so this run is recorded offline (wandb sync sends it)")
            mode = "offline"
        settings = wandb.Settings(init_timeout=self.TIMEOUT, console="off", silent=True)
        start: dict[str, Any] = {"settings": settings, **self.options}
        if mode == "online":
            try:
                return wandb.init(mode="online", **{"resume": "allow", **start})
            except wandb.errors.CommError:
                log.warning("wandb: the server does not answer, so this run is recorded offline")
                mode = "offline"
        return wandb.init(mode=cast(Any, mode), **{**start, "resume": None})

    @staticmethod
    def has_login() -> bool:
        netrc = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
        return netrc.is_file() and "api.wandb.ai" in netrc.read_text(encoding="utf-8")
