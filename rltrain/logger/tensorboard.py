"""TensorBoard events, with the names of ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.common.machine.install import require_extra
from rltrain.logger.loggers import VIDEO, Logger
from rltrain.types import Clock, StateDict


class TensorBoard(Logger):
    """Event files in ``tensorboard/`` of the run folder, over env steps. A resumed run begins a new
    one that replaces what was written after its checkpoint.

    Raises:
        ValueError: tensorboardX is not installed.
    """

    def __init__(self, *, run_dir: Path, config: Mapping[str, object]) -> None:
        require_extra("tensorboard", "tensorboardX", "logger=[tensorboard]")
        self.folder, self.config = run_dir / "tensorboard", config
        self.writer: Any = None
        self.last: int | None = None  # env steps of the last event

    def state_dict(self) -> StateDict:
        return {"last": self.last}

    def load_state_dict(self, state: StateDict) -> None:
        self.close()
        self.writer, self.last = None, state["last"]

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        writer = self._writer(clock)
        times = {"updates": clock.updates, "episodes": clock.episodes, "seconds": seconds}
        for name, value in {**row, **times}.items():
            if math.isfinite(value):
                writer.add_scalar(name, value, clock.env_steps)

    def video(self, clock: Clock, path: Path) -> None:
        """As an animated image."""
        from tensorboardX.proto.summary_pb2 import Summary

        gif = path.read_bytes()
        width, height = struct.unpack("<HH", gif[6:10])
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._writer(clock).file_writer.add_summary(
            Summary(value=[Summary.Value(tag=VIDEO, image=image)]), clock.env_steps
        )

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def _writer(self, clock: Clock) -> Any:
        """The writer, which begins with the configuration as text."""
        if self.writer is None:
            from tensorboardX import SummaryWriter

            purge = clock.env_steps if self.last is None else self.last + 1
            self.writer = SummaryWriter(
                str(self.folder),
                purge_step=purge if self.folder.is_dir() else None,
                filename_suffix=f".{clock.env_steps}",  # two runs in one second have two files
                max_queue=1000,
            )
            text = json.dumps(self.config, indent=1).replace("\n", "\n    ")
            self.writer.add_text("config", f"    {text}")
        self.last = max(self.last or 0, clock.env_steps)
        return self.writer
