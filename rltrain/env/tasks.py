"""Tasks of a custom environment: an argument of its ``set_task``, or some of its attributes
by name, such as ``{"gravity": 12.0}``. Plain values only, since checkpoints save them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def require_task(inner: object, task: object, name: str) -> None:
    """ValueError unless the environment can play the task: it has neither a method ``set_task`` nor
    attributes of these names.
    """
    named = isinstance(task, Mapping) and all(hasattr(inner, str(key)) for key in task)
    if not hasattr(inner, "set_task") and not named:
        raise ValueError(
            f"{name} cannot play the task {task}: it has no method set_task, so the task must name "
            "attributes that it has, such as {gravity: 12.0}."
        )


def begin_task(inner: object, task: Any) -> None:
    """Set the task of the coming episode; None leaves the one the environment was made with."""
    if task is None:
        return
    if hasattr(inner, "set_task"):
        inner.set_task(task)
        return
    for name, value in task.items():
        setattr(inner, name, value)
