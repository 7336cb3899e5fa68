"""PyTorch's settings of a process or thread, which code of environments may change for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
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


def random_state() -> dict[str, torch.Tensor]:
    """The states of torch's own generators: of the CPU and, where a GPU is in use, of the GPU."""
    states = {"torch_rng": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states["cuda_rng"] = torch.cuda.get_rng_state()
    return states


def set_random_state(states: Mapping[str, torch.Tensor]) -> None:
    """Continue from ``random_state``; without a GPU now, or then, only that of the CPU."""
    torch.set_rng_state(states["torch_rng"])
    if "cuda_rng" in states and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(states["cuda_rng"])


class EnvSettings(local):
    """Settings in a thread."""

    def __init__(self) -> None:
        self.outside: list[tuple[Any, ...]] = []  # before each context that is open
        self.inside: dict[int, Any] = {}  # what environments changed, by number
        self.seeded: dict[str, torch.Tensor] = {}  # states of the generators, if they seeded them


class EnvContext(Containment):
    """Containment in which the settings are those of environments; outside, those of the caller.
    So are the states of PyTorch's generators once environments have seeded them.
    """

    settings: ClassVar = EnvSettings()

    def __enter__(self) -> None:
        self.settings.outside.append((read_settings(), torch.initial_seed(), random_state()))
        for i, value in self.settings.inside.items():
            CHANGES[i](value)
        if self.settings.seeded:
            set_random_state(self.settings.seeded)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        (before, seed, states), now = self.settings.outside.pop(), read_settings()
        if self.settings.seeded or torch.initial_seed() != seed:
            self.settings.seeded = random_state()
            set_random_state(states)
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
    is_cpu = torch.get_default_device().type == "cpu"  # otherwise within ``with torch.device(…)``
    try:
        with nullcontext() if is_cpu else torch.device("cpu"):
            yield
    finally:
        settings.inside = dict(settings.inside.items() - program.items())
        for i, value in program.items():
            CHANGES[i](value)
