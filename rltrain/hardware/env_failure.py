"""Errors of environments."""

from __future__ import annotations

from typing import Any

from rltrain.errors import STOPS, EnvError, reason


class EnvFailure:
    """Context in which any error of the environment's ``method`` becomes an ``EnvError``."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, (EnvError, *STOPS)):
            raise EnvError(f"The environment failed in {self.method}(): {reason(error)}") from error


FAILING_STEP = EnvFailure("step")
