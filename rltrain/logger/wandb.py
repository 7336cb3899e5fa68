"""Weights & Biases, offline by default."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from rltrain.types import Clock

log = logging.getLogger("rltrain")


class Wandb:
    """Weights & Biases. Without a network or a key the run is recorded offline; training never
    waits for it.
    """

    TIMEOUT = 15

    def __init__(self, run_dir: Path, config: Mapping[str, Any], mode: str, **options: Any) -> None:
        import wandb

        if mode == "online" and not (os.environ.get("WANDB_API_KEY") or self.has_login()):
            log.warning("wandb: no API key, so this run is recorded offline (wandb sync sends it)")
            mode = "offline"
        settings = wandb.Settings(init_timeout=self.TIMEOUT, console="off", silent=True)
        start = {
            "dir": str(run_dir),
            "config": dict(config),
            "name": run_dir.name,
            "id": run_dir.name,
            "resume": "allow" if mode == "online" else None,
            "settings": settings,
            **options,
        }
        try:
            self.run = wandb.init(mode=cast(Any, mode), **start)
        except wandb.errors.CommError:
            log.warning("wandb: the server does not answer, so this run is recorded offline")
            self.run = wandb.init(mode="offline", **{**start, "resume": None})

    @staticmethod
    def has_login() -> bool:
        netrc = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
        return netrc.is_file() and "api.wandb.ai" in netrc.read_text(encoding="utf-8")

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.run.log({**row, **asdict(clock), "seconds": seconds})

    def close(self) -> None:
        self.run.finish()
