"""Gymnasium environments by id, or made by a class or factory.

To bring one of your own: register it, or name it ``env.id=module:Id``, or hand its class to
``make_trainer``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import gymnasium

from rltrain.common.number_types import Count, Positive
from rltrain.common.user_modules import beside_user
from rltrain.env.gymnasium import GymnasiumEnv, reason
from rltrain.env.gymnasium_advice import advice, missing_packages
from rltrain.env.vector import SyncVectorEnv


def gymnasium_env(
    *,
    id: str,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    time_limit: Literal["bootstrap", "terminal"],
    max_episode_steps: Count | None,
    frame_stack: Count,
    reward_clip: Positive | None,
) -> SyncVectorEnv:
    """``n_envs`` environments of a registered id, made for rendering if ``record``; rewards are
    clipped in training only.

    Raises:
        ValueError: an unknown id, a missing package, or spaces that do not fit.
    """
    made_with = dict(kwargs)

    def make() -> GymnasiumEnv:
        try:
            own_module = beside_user() if ":" in id else nullcontext()
            with own_module, warnings.catch_warnings():  # our own message if it cannot be made
                warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
                env = gymnasium.make(
                    id, max_episode_steps=max_episode_steps, disable_env_checker=True, **made_with
                )
        except (gymnasium.error.Error, ImportError, TypeError, AttributeError) as error:
            raise ValueError(f"env.id={id} cannot be made: {advice(id, error)}") from error
        except Exception as error:
            raise ValueError(f"env.id={id} cannot be made: {reason(error)}") from error
        return GymnasiumEnv(env, frame_stack, reward_clip if training else None)

    if record and "rgb_array" in make().env.metadata.get("render_modes", ()):
        made_with.setdefault("render_mode", "rgb_array")
        draw_without_display()
        try_to_draw(make(), id)
    return SyncVectorEnv(make=make, n_envs=n_envs, time_limit=time_limit)


def draw_without_display() -> None:
    """Let pygame render to memory and silently; it reads this when it is imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def try_to_draw(env: GymnasiumEnv, id: str) -> None:
    """Render a first image.

    Raises:
        ValueError: a package that rendering needs is missing.
    """
    try:
        env.reset(0)
        env.render()
    except (gymnasium.error.Error, ImportError) as error:
        needed = missing_packages(error)
        problem = f"it needs packages that are not installed. {needed}" if needed else str(error)
        raise ValueError(f"record=true: env.id={id} cannot be rendered: {problem}") from error
    finally:
        env.close()


def from_class(
    maker: str | Callable[..., gymnasium.Env],
    *,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    time_limit: Literal["bootstrap", "terminal"],
    max_episode_steps: Count | None,
    frame_stack: Count,
    reward_clip: Positive | None,
) -> SyncVectorEnv:
    """``n_envs`` environments of a Gymnasium class or factory, made with ``kwargs``. A keyword
    ``training`` is set to whether they are for training or for tests, a keyword ``render_mode`` if
    they are recorded. A saved run names its maker, ``module:Name``.

    Raises:
        ValueError: what it makes is no Gymnasium environment, or has spaces that do not fit.
    """
    maker = named(maker) if isinstance(maker, str) else maker
    known = inspect.signature(maker).parameters
    purpose = {"training": training} if "training" in known else {}
    drawn = {"render_mode": "rgb_array"} if record and "render_mode" in known else {}
    arguments = {**drawn, **purpose, **kwargs}
    try:
        inspect.signature(maker).bind(**arguments)
    except TypeError as error:
        raise ValueError(
            f"{maker!r} cannot make an environment: {error}. Give it with env=gymnasium "
            "env.kwargs={name: value}, or hand over a function that knows it."
        ) from error

    def make() -> GymnasiumEnv:
        try:
            env: Any = maker(**arguments)
        except Exception as error:
            raise ValueError(f"{maker!r} cannot make an environment: {reason(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise ValueError(
                f"{maker!r} made {type(env).__name__}: expected a gymnasium.Env, or a class or "
                "factory of one."
            )
        if max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
        clip = reward_clip if training else None
        return GymnasiumEnv(env, frame_stack, clip, max_episode_steps)

    return SyncVectorEnv(make=make, n_envs=n_envs, time_limit=time_limit)


def named(maker: str) -> Callable[..., gymnasium.Env]:
    """The class or factory ``module:Name``.

    Raises:
        ValueError: there is none by that name (a lambda, or a class inside a function).
    """
    module, _, name = maker.partition(":")
    try:
        with beside_user():
            found: Callable[..., gymnasium.Env] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The environment {maker} was handed over from Python and cannot be found by that name "
            f"({error}). Hand it over again: rltrain.evaluate(RUN_FOLDER, env=YOUR_CLASS)."
        ) from error
    return found
