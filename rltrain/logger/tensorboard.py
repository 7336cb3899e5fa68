"""TensorBoard events, with the names of ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
import platform
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rltrain.common.files import sync
from rltrain.common.machine.install import require_extra
from rltrain.logger.loggers import VIDEO, Logger, append
from rltrain.types import Clock, StateDict


class TensorBoard(Logger):
    """Event files in ``tensorboard/`` of the run folder, over env steps. A resumed run begins a new
    one that replaces what was written after its checkpoint. The files are written here: a writer of
    tensorboardX waits forever on a full disk, and keeps rows in memory that a killed run loses.

    Raises:
        ValueError: tensorboardX, which defines events, is not installed.
    """

    def __init__(self, *, run_dir: Path, config: Mapping[str, object]) -> None:
        require_extra("tensorboard", "tensorboardX", "logger=[tensorboard]")
        self.folder, self.config = run_dir / "tensorboard", config
        self.path: Path | None = None  # of the event file, once it has begun
        self.last: int | None = None  # env steps of the last event

    def state_dict(self) -> StateDict:
        return {"last": self.last}

    def load_state_dict(self, state: StateDict) -> None:
        self.path, self.last = None, state["last"]

    def sync(self) -> None:
        if self.path is not None:
            sync(self.path)
            sync(self.folder)

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        values = {**row, "updates": clock.updates, "episodes": clock.episodes, "seconds": seconds}
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self._add(clock, [{"tag": name, "simple_value": x} for name, x in finite.items()])

    def video(self, clock: Clock, path: Path) -> None:
        """As an animated image."""
        gif = path.read_bytes()
        width, height = struct.unpack("<HH", gif[6:10])
        image = {"height": height, "width": width, "colorspace": 3, "encoded_image_string": gif}
        self._add(clock, [{"tag": VIDEO, "image": image}])

    def _add(self, clock: Clock, values: Sequence[Mapping[str, object]]) -> None:
        """Append an event with these values; a file begins with the configuration as text."""
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.summary import text

        now, step, path = time.time(), clock.env_steps, self.path
        events = [Event(wall_time=now, step=step, summary={"value": values})]
        if path is None:
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"events.out.tfevents.{now:.0f}.{platform.node()}.{step}"
            lost = step if self.last is None else self.last + 1  # from here on
            config = json.dumps(self.config, indent=1).replace("\n", "\n    ")
            events = [
                Event(wall_time=now, file_version="brain.Event:2"),
                Event(wall_time=now, step=lost, session_log={"status": SessionLog.START}),
                Event(wall_time=now, summary=text("config", f"    {config}")),
                *events,
            ]
        append(path, b"".join(record(event.SerializeToString()) for event in events))
        self.path, self.last = path, max(self.last or 0, step)


def record(content: bytes) -> bytes:
    """A record of an event file: the length and the content, each with its check sum."""
    from tensorboardX.record_writer import masked_crc32c

    parts = struct.pack("<Q", len(content)), content
    return b"".join(part + struct.pack("<I", masked_crc32c(part)) for part in parts)
