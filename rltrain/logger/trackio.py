"""Trackio: runs in a local database, shown by a dashboard on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.common.json_text import without_nan
from rltrain.common.machine.install import require_extra
from rltrain.logger.background import InBackground
from rltrain.logger.loggers import VIDEO
from rltrain.types import Clock


class Trackio(InBackground):
    """One run of a Trackio project, over env steps; a resumed run continues it.

    Raises:
        ValueError: trackio is not installed.
    """

    NAME = "trackio"

    def __init__(
        self,
        *,
        run_dir: Path,
        config: Mapping[str, object],
        project: str,
        group: str | None,
        **options: object,
    ) -> None:
        super().__init__(run_dir)
        require_extra("trackio", "trackio", "logger=[trackio]")
        self.options = {
            "project": project,
            "group": group or self.folder,
            "config": dict(config),
            "resume": "allow",
            "embed": False,
            **options,
        }

    def send(self, env_steps: int, row: dict[str, float]) -> None:
        values = {name: value for name, value in without_nan(row).items() if value is not None}
        self.run.log(values, step=env_steps)

    def send_video(self, clock: Clock, path: Path) -> None:
        import trackio

        self.run.log({VIDEO: trackio.Video(path)}, step=clock.env_steps)

    def begin(self) -> object:
        import trackio

        for name, module in [*sys.modules.items()]:
            if name.partition(".")[0] == "trackio":  # the standard output is that of all threads
                vars(module)["print"] = lambda *texts, **options: None
        options: dict[str, Any] = {"name": self.own_id, **self.options}
        return trackio.init(**options)
