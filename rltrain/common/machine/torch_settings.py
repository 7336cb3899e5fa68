"""PyTorch's settings of a process or thread, which code of environments may change for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import local
from typing import Any, ClassVar

import torch

from rltrain.errors import Containment

CHANGES = (
    torch.set_grad_enabled,
    torch.set_default_dtype,
    torch.set_default_device,
    partial(torch.set_autocast_enabled, "cpu"),
    partial(torch.set_autocast_enabled, "cuda"),
)
"""Functions that set what ``read_settings`` returns."""
PLAIN: tuple[Any, ...] = (True, torch.float32, None, False, False)
"""PyTorch's own settings."""


def read_settings() -> tuple[Any, ...]:
    """The current settings; runs twice in every step of environments."""
    device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        None if device is None else device.device,
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    )


class EnvSettings(local):
    """Settings in a thread."""

    def __init__(self) -> None:
        self.outside: list[tuple[Any, ...]] = []  # before each context that is open
        self.inside: dict[int, Any] = {}  # what environments changed, by number


class EnvContext(Containment):
    """Containment in which the settings are those of environments; outside, those of the caller."""

    settings: ClassVar = EnvSettings()

    def __enter__(self) -> None:
        self.settings.outside.append(read_settings())
        for i, value in self.settings.inside.items():
            CHANGES[i](value)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        before, now = self.settings.outside.pop(), read_settings()
        self.settings.inside = {}
        if now != before:
            self.settings.inside = {i: x for i, x in enumerate(now) if x != before[i]}
            for i in self.settings.inside:
                CHANGES[i](before[i])
        super().__exit__(kind, error, trace)


@contextmanager
def plain_settings() -> Iterator[None]:
    """Context in which the settings are PyTorch's own, so that a run does not depend on those of
    the program that makes it. Its environments have the program's.
    """
    settings = EnvContext.settings
    program = {i: x for i, x in enumerate(read_settings()) if x != PLAIN[i]}
    settings.inside = {**program, **settings.inside}
    for i in program:
        CHANGES[i](PLAIN[i])
    try:
        yield
    finally:
        settings.inside = dict(settings.inside.items() - program.items())
        for i, value in program.items():
            CHANGES[i](value)
