"""Gymnasium environments by id, and environments made by a class or factory, one at a time or
batched.

To use your own: register it, name its class with ``env.id=module:Class``, or pass the class to
``make_trainer``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium

from rltrain.common.failures import close_all, closed_on_error
from rltrain.common.imports import beside_user
from rltrain.common.keywords import flat_keywords
from rltrain.common.machine.streams import warnings_once
from rltrain.env.env_options import USUAL, EnvOptions
from rltrain.env.games.classic_control import NAMES, RULES, ClassicControl, find_rules
from rltrain.env.gymnasium import adapted, refuse_vector
from rltrain.env.gymnasium_advice import advice, missing_packages
from rltrain.env.team.team_names import Teams
from rltrain.env.third_party import may_draw, render_modes
from rltrain.env.vector import Env, SyncVectorEnv, require_separate
from rltrain.errors import RltrainError, reason
from rltrain.interfaces import VectorEnv


@flat_keywords
def gymnasium_env(
    *,
    id: str,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    options: EnvOptions,
) -> VectorEnv:
    """``n_envs`` environments of a registered id, or of a class or function ``module:Name``, made
    for rendering if ``record``; rewards are clipped in training only.

    Raises:
        ValueError: an unknown id, a missing package, or unsupported spaces.
    """
    if ":" in id and (maker := own_maker(id)) is not None:
        given = {"training": training, "record": record, "kwargs": kwargs, **vars(options)}
        return from_class(maker, n_envs=n_envs, **given)
    made_with = {"max_episode_steps": options.max_episode_steps, **kwargs}

    def make() -> gymnasium.Env:
        try:
            module, colon, _ = id.partition(":")
            own_module = beside_user(module) if colon else nullcontext()
            with own_module, warnings.catch_warnings():  # our own message if it cannot be made
                warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
                return gymnasium.make(id, disable_env_checker=True, **deepcopy(made_with))
        except (gymnasium.error.Error, ImportError, TypeError, AttributeError) as error:
            raise ValueError(f"env.id={id} cannot be created: {advice(id, error)}") from error
        except Exception as error:
            raise ValueError(f"env.id={id} cannot be created: {reason(error)}") from error

    if record:
        env = make()
        close_all("an environment", [env])
        if "rgb_array" in render_modes(env):
            made_with.setdefault("render_mode", "rgb_array")
            draw_without_display()
            try_to_draw(make(), id)
    options = options if training else replace(options, reward_clip=None)
    return in_lockstep(make, n_envs, options, classic=id.partition("-")[0] in NAMES)


def in_lockstep(
    make: Callable[[], Any],
    n_envs: int,
    options: EnvOptions,
    classic: bool = False,
    teams: Teams | None = None,
) -> SyncVectorEnv:
    """``n_envs`` environments made by ``make``.

    Args:
        classic: whether compiled ``classic_control`` environments may be used.
        teams: the teams, if opponents play one of two.

    Raises:
        ValueError: unsupported spaces, or ``make`` returns the same object twice.
    """
    clip = options.reward_clip
    rules = None
    if classic and options.compiled and clip is None:
        with warnings_once():
            rules = find_rules(one := make())
        close_all("an environment", [one])
    vector: Callable[..., SyncVectorEnv] = partial(SyncVectorEnv, reward_clip=clip)
    if rules is not None:
        vector = partial(ClassicControl, rules)
    if teams is not None:
        from rltrain.env.team.two_teams import TwoTeamVectorEnv

        vector = TwoTeamVectorEnv

    def made() -> Env:
        env = make()
        name = type(env).__name__
        with closed_on_error("an environment", [env] if hasattr(env, "close") else []):
            try:
                if getattr(env, "unwrapped", env) is None:
                    raise ValueError(f"{name}.unwrapped is None: expected the environment itself.")
                return adapted(env, options, teams)
            except (ValueError, MemoryError, RltrainError):
                raise
            except Exception as error:  # of a property
                raise ValueError(f"{name} cannot be used: {reason(error)}") from error

    env = vector(make=made, n_envs=n_envs, time_limit=options.time_limit)
    require_separate([env])
    return env


def own_maker(id: str) -> Callable[..., object] | None:
    """The class or function ``module:Name``; None for the registered id of a module."""
    if id.rpartition(":")[2] in gymnasium.registry:
        return None
    try:
        maker = named(id)
    except Exception:
        return None  # gymnasium.make fails too, with the reason
    return maker if callable(maker) else None


def draw_without_display() -> None:
    """Make pygame render to memory, without sound; it reads this when imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def try_to_draw(env: gymnasium.Env, id: str) -> None:
    """Render a first image.

    Raises:
        ValueError: a package required for rendering is missing.
    """
    try:
        env.reset(seed=0)
        env.render()
    except (gymnasium.error.Error, ImportError) as error:
        needed = missing_packages(error)
        problem = f"it needs packages that are not installed. {needed}" if needed else str(error)
        raise ValueError(f"env.id={id} cannot be rendered: {problem}") from error
    finally:
        close_all("an environment", [env])


@flat_keywords
def from_class(
    maker: str | Callable[..., object],
    *,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    options: EnvOptions,
    teams: Teams | None = None,
) -> VectorEnv:
    """``n_envs`` environments of a Gymnasium or PettingZoo class or factory, made with ``kwargs``.
    If it has a keyword ``training``, that is true for training and false for tests; ``render_mode``
    is set for recording. A saved run names its maker, ``module:Name``. A maker with the keyword
    ``n_envs`` makes one batched environment (``VectorEnv``).

    Raises:
        ValueError: it does not make an environment, or the spaces are unsupported.
    """
    maker = named(maker) if isinstance(maker, str) else maker
    refuse_vector(maker)
    known = inspect.signature(maker).parameters
    single = isinstance(maker, type) and issubclass(maker, gymnasium.Env)
    batched = {"n_envs": n_envs} if "n_envs" in known and not single else {}
    purpose = {"training": training} if "training" in known else {}
    given = {**batched, **purpose, **kwargs}
    drawn = {"render_mode": "rgb_array"} if record and draws(maker, given) else {}
    arguments = {**drawn, **given}
    try:
        inspect.signature(maker).bind(**arguments)
    except TypeError as error:
        others = [name for name in known if name not in (*batched, *drawn, *purpose)]
        takes = f"takes {', '.join(others)}" if others else "takes no keywords"
        raise ValueError(
            f"{maker!r} cannot create an environment: {error}. It {takes}; keywords are typed as "
            "'env.kwargs={name: value}' (env=gymnasium), or pass a function that knows them."
        ) from error

    def made() -> Any:
        try:
            return maker(**deepcopy(arguments))  # one environment may change its own
        except Exception as error:
            raise ValueError(f"{maker!r} cannot create an environment: {reason(error)}") from error

    if batched:
        changed = {n: x for n, x in vars(options).items() if x != vars(USUAL)[n]}
        changed |= {} if teams is None else {"team": teams.team}
        typed = [
            f"env.{name}={f'{value:g}' if isinstance(value, float) else str(value).lower()}"
            for name, value in changed.items()
        ]
        if typed:
            raise ValueError(
                f"{', '.join(typed)}: {maker!r} makes a batched environment, which does these "
                "things itself. Leave them out."
            )
        batch: VectorEnv = made()
        refuse_vector(batch)
        if isinstance(batch, gymnasium.Env):
            raise ValueError(
                f"{maker!r} has an argument n_envs, as batched environments have, but makes a "
                f"single {type(batch).__name__}: give the argument another name."
            )
        return batch

    def make() -> object:
        env = made()
        if isinstance(env, gymnasium.Env) and options.max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, options.max_episode_steps)
        return env

    limits = options if training else replace(options, reward_clip=None)
    return in_lockstep(make, n_envs, limits, classic=single and maker in RULES, teams=teams)


def draws(maker: Callable[..., object], given: Mapping[str, object]) -> bool:
    """Whether a class or factory ``given`` these keywords takes a ``render_mode``, directly or by
    passing keywords on.
    """
    known = inspect.signature(maker).parameters
    if not may_draw(maker):
        return False
    if all(p.kind is not p.VAR_KEYWORD for p in known.values()):
        return "render_mode" in known
    draw_without_display()
    try:
        env = maker(**{"render_mode": "rgb_array", **given})
    except Exception:
        return False
    close_all("an environment", [env])
    return True


def named(maker: str) -> Callable[..., object]:
    """The class or factory ``module:Name``.

    Raises:
        ValueError: not found (a lambda, or a class inside a function).
    """
    module, _, name = maker.partition(":")
    try:
        with beside_user(module):
            imported: Callable[..., object] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The environment {maker} was passed from Python and cannot be found by that name "
            f"({error}). Pass it again: rltrain.evaluate(RUN_FOLDER, env=YOUR_CLASS)."
        ) from error
    return imported
