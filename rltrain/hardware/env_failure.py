"""Errors of environments."""

from __future__ import annotations

from typing import Any

from rltrain.errors import EnvError


class EnvFailure:
    """Context in which any error of the environment's ``method`` becomes an ``EnvError``."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, EnvError):
            raise EnvError(
                f"The environment failed in {self.method}(): {type(error).__name__}: {error}"
            ) from error


FAILING_STEP = EnvFailure("step")
