"""ThirdPartyEnv: common base of the adapters for Gymnasium and PettingZoo."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from rltrain.common.env_values import LARGEST
from rltrain.common.number_types import is_finite
from rltrain.env.vector import Env
from rltrain.errors import EnvError, reason
from rltrain.types import Drawing

NO_STATE = np.zeros(0, np.float32)
FINITE = f"finite numbers, at most {LARGEST:.1g}"
RESET = "reset must return (observation, info)"
STEP = "step must return (observation, reward, terminated, truncated, info)"
FRAMES_PER_SECOND = 30.0  # of videos, unless the environment defines it


class ThirdPartyEnv(Env):
    """Wraps a third-party environment, ``env``, in the episode of ``seed`` at step ``t``.

    A task is an argument of its ``set_task``, or attributes by name, such as ``{"gravity": 12.0}``;
    plain values only, since checkpoints save them.
    """

    seed_bits = 32

    def __init__(self, env: Any, name: str) -> None:
        self.env, self.name, self.inner = env, name, getattr(env, "unwrapped", env)
        self.seed, self.t = 0, 0
        if getattr(env, "render_mode", None) == "rgb_array" and may_draw(env):
            fps = metadata(env).get("render_fps") or FRAMES_PER_SECOND
            if not isinstance(fps, int | float | np.number) or not 0 < fps < math.inf:
                raise ValueError(
                    f"{name} has the render_fps {fps!r} in its metadata: expected images per "
                    "second, such as 30."
                )
            self.frames_per_second = float(fps)
        below = getattr(env, "env", None), getattr(env, "aec_env", None)
        layers: tuple[Any, ...] = (env, *below, self.inner)
        own = (layer.drawing for layer in layers if callable(getattr(layer, "drawing", None)))
        self._drawing: Callable[[], Drawing] | None = next(own, None)
        self.has_drawing = self._drawing is not None

    def render(self) -> Any:
        """The environment's image, if it was made with ``render_mode: rgb_array``."""
        return self.env.render()

    def drawing(self) -> Drawing:
        """Units and positions, of the environment's own method."""
        assert self._drawing is not None, "this environment has no drawing"
        return self._drawing()

    def call(self, method: str, *args: object) -> Any:
        """Call a method of the unwrapped environment; ``set_task`` is the one below."""
        return getattr(self if method == "set_task" else self.inner, method)(*args)

    def set_task(self, task: object) -> None:
        """Change the task from the next episode on; attributes that it leaves out stay.

        Raises:
            ValueError: the environment has neither a method ``set_task`` nor attributes of these
                names.
        """
        if hasattr(self.inner, "set_task"):
            self.task = task
        elif isinstance(task, Mapping) and all(hasattr(self.inner, str(key)) for key in task):
            self.task = {**(self.task or {}), **task}
        else:
            raise ValueError(
                f"{self.name} cannot play the task {task}: it has no method set_task, so the task "
                "must name attributes that it has, such as {gravity: 12.0}."
            )

    def begin_task(self) -> None:
        """Set the task of the next episode; None keeps the original one."""
        task = copy.deepcopy(self.task)  # which the environment may change
        if task is not None and hasattr(self.inner, "set_task"):
            self.inner.set_task(task)
        elif task is not None:
            for name, value in task.items():
                setattr(self.inner, name, value)

    def converted(
        self, convert: Callable[[object], np.ndarray], obs: object, agent: object = None
    ) -> np.ndarray:
        """Convert an agent's observation to an array; EnvError if it is not in its space or not
        finite.
        """
        said = "returned" if agent is None else f"gave {agent}"
        try:
            row = convert(obs)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise EnvError(
                f"{self.where()} {said} the observation {obs}, which is not in its space "
                f"({reason(error)})."
            ) from error
        if row.dtype != np.uint8 and not is_finite(row):
            raise EnvError(f"{self.where()} {said} the observation {obs}: expected {FINITE}.")
        return row

    def where(self) -> str:
        """The environment, step and episode, for messages."""
        return f"{self.name} at step {self.t} of the episode with seed {self.seed}"

    def close(self) -> None:
        if callable(close := getattr(self.env, "close", None)):  # PettingZoo's may have none
            close()


def returns(returned: object, n: int) -> bool:
    """Whether an environment returned ``n`` values, the last one an info dict."""
    return isinstance(returned, tuple) and len(returned) == n and isinstance(returned[-1], dict)


def unpacked(returned: Any, must: str, where: Callable[[], str]) -> Any:
    """The values that ``must`` lists, as an environment returned them; EnvError for others."""
    if not returns(returned, must.count(",") + 1):
        raise EnvError(f"{where()}: {must}, got {returned!r}.")
    return returned


def reset_reason(error: BaseException) -> str:
    """Why a reset failed; if it takes no seed, with the signature."""
    if not isinstance(error, TypeError) or "argument 'seed'" not in str(error):
        return reason(error)
    return (
        f"{reason(error)}. Expected reset(self, *, seed=None, options=None), as Gymnasium "
        "and PettingZoo have it"
    )


def metadata(env: object) -> Mapping[str, Any]:
    """The metadata of an environment or class; empty if they are no dictionary."""
    given = getattr(env, "metadata", None)
    return given if isinstance(given, Mapping) else {}


def render_modes(env: object) -> Collection[str]:
    """The render modes that the metadata list."""
    modes = metadata(env).get("render_modes")
    return modes if isinstance(modes, Collection) else ()


def may_draw(env: object) -> bool:
    """Whether the render modes, if any are listed, include images."""
    return not render_modes(env) or "rgb_array" in render_modes(env)


def shown_name(env: object) -> str:
    """The name of an environment, for messages."""
    return str(metadata(env).get("name") or type(getattr(env, "unwrapped", env)).__name__)
