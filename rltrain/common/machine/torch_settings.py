"""PyTorch's settings of a process or thread, which code of environments may change for itself."""

from __future__ import annotations

from functools import partial
from threading import local
from typing import Any, ClassVar

import torch
from torch.utils import _device

from rltrain.errors import Containment

CHANGES = (
    torch.set_grad_enabled,
    torch.set_default_dtype,
    torch.set_default_device,
    partial(torch.set_autocast_enabled, "cpu"),
    partial(torch.set_autocast_enabled, "cuda"),
)
"""Functions that set what ``read_settings`` returns."""


def read_settings() -> tuple[Any, ...]:
    """The current settings; runs twice in every step of environments."""
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        getattr(_device, "CURRENT_DEVICE", None),  # None: unset
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
