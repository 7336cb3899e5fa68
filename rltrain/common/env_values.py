"""Values that environments return: numbers, flags, results of episodes, arrays of E of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from rltrain.errors import EnvError
from rltrain.interfaces import VectorEnv
from rltrain.types import Info

log = logging.getLogger("rltrain")
LARGEST = float(np.finfo(np.float32).max)
EXACT = 2**24
"""From 0 to this all whole numbers are different ones in float32."""
ROUNDED = (
    f"observations have whole numbers beyond ± 2^24 = {EXACT:,}, which float32 rounds, so that "
    "neighbors are the same to the networks. Make them smaller in a wrapper "
    "(gymnasium.wrappers.TransformObservation), such as by their digits or their change, and type "
    "env.id=module:function of a function that makes the wrapped environment."
)
Where = Callable[[], str]
"""The environment, and step and episode if they are known, for messages."""


@cache
def warn_of_rounding() -> None:
    """Warn, once, that whole numbers are too large for float32 to distinguish."""
    log.warning("%s", ROUNDED)


@cache
def warn_of_nan(name: str) -> None:
    """Warn, once for each name, that a mean is not finite."""
    log.warning(
        f"info['metrics'][{name!r}] is not finite, so that its mean is null in metrics.jsonl. "
        "Leave the name out of the metrics of episodes that have no such number."
    )


def one_number(given: object) -> float | None:
    """A number, also in an array of one; None for anything else, such as a masked one."""
    try:
        array = np.asarray(float(given) if isinstance(given, int) else given)
    except (ArithmeticError, TypeError, ValueError, RuntimeError):  # too large, or no array
        return None
    fits = array.size == 1 and array.dtype.kind in "biuf" and not isinstance(given, list | tuple)
    return float(array.item()) if fits and not np.ma.is_masked(given) else None


def flag(given: object, name: str, where: Where) -> bool:
    """A truth value; EnvError, which names it, for anything but one or a number 0 or 1."""
    value = given if isinstance(given, bool) else one_number(given)
    if value not in (0, 1):
        raise EnvError(f"{where()} returned {name}={given!r}: expected True or False.")
    return bool(value)


def finite_reward(reward: object, where: Where) -> float:
    """A reward as a number; EnvError unless it is a finite one."""
    value = reward if isinstance(reward, float) else one_number(reward)
    if value is not None and abs(value) <= LARGEST:
        return value
    expected = f"a finite number, at most {LARGEST:.1g}"
    if value is None:
        got = "text" if isinstance(reward, str) else type(reward).__name__
        expected = f"one number, such as float(reward), got {got}"
    raise EnvError(f"{where()} returned the reward {reward!r}: expected {expected}.")


def read_outcome(info: object, where: Where) -> Info:
    """``win`` and ``metrics`` of a final info.

    Raises:
        EnvError: something other than a truth value and a dictionary of numbers by readable names.
    """
    if not isinstance(info, Mapping):
        raise EnvError(f"{where()} returned the info {info!r}: expected a dictionary.")
    outcome: Info = {}
    if "win" in info:
        outcome["win"] = flag(info["win"], "info['win']", where)
    if "metrics" in info:
        metrics, expected = info["metrics"], "a dictionary of numbers by name"
        if not isinstance(metrics, Mapping):
            raise EnvError(f"{where()} returned info['metrics']={metrics!r}: expected {expected}.")
        outcome["metrics"] = {str(name): one_number(x) for name, x in metrics.items()}
        for name, x in metrics.items():
            if not str(name).strip() or not str(name).isprintable():
                raise EnvError(
                    f"{where()} returned info['metrics'] with the name {name!r}: expected one that "
                    "can be read."
                )
            if outcome["metrics"][str(name)] is None:
                raise EnvError(
                    f"{where()} returned info['metrics'][{name!r}]={x!r}: expected a number."
                )
            if not math.isfinite(outcome["metrics"][str(name)]):
                warn_of_nan(str(name))
    return outcome


def array_forms(env: VectorEnv, reward: np.ndarray, terminated: np.ndarray) -> object:
    """Shapes and types of a step's arrays; None if one is no array."""
    obs, mask, state, last = env.obs, env.avail_actions, env.state, env.last
    try:
        shapes = obs.shape, mask.shape, state.shape, last.shape, reward.shape, terminated.shape
        types = obs.dtype, mask.dtype, state.dtype, last.dtype, reward.dtype, terminated.dtype
    except AttributeError:
        return None
    return shapes, types


def require_fields(
    env: VectorEnv, steps: np.ndarray | None = None, first: int = 0, **returned: object
) -> None:
    """Check the arrays of a ``VectorEnv``.

    Args:
        steps: [E], of the running episodes; None after a reset, which begins them.
        first: number of the first environment, for messages.
        returned: ``reward`` and ``terminated`` of a step.

    Raises:
        EnvError: one has a different shape or type than its spec says or numbers that are not
            finite, an agent has no action, or an episode begins with its end.
    """
    at = [0] * env.n_envs if steps is None else steps.tolist()
    spec, n_envs = env.spec, env.n_envs
    agents = n_envs, spec.n_agents
    expected = {
        "obs": ("[E, N, *O]", (*agents, *spec.obs_shape), (spec.obs_dtype,)),
        "avail_actions": ("[E, N, A]", (*agents, spec.n_actions), ("uint8", "bool")),
        "state": ("[E, S]", (n_envs, spec.state_dim), ("float32",)),
        "last": ("[E]", (n_envs,), ("bool",)),
        "reward": ("[E, R]", (n_envs, spec.n_rewards), ("float32", "float64")),
        "terminated": ("[E]", (n_envs,), ("bool",)),
    }
    held = {name: getattr(env, name) for name in ("last", "obs", "avail_actions", "state")}
    for name, array in {**held, **returned}.items():
        axes, shape, types = expected[name]
        is_array = isinstance(array, np.ndarray)
        if is_array and array.shape == shape and array.dtype.name in types:
            for e, *rest in np.argwhere(~np.isfinite(array))[:1].tolist():
                where = "the final step" if env.last[e] else f"step {at[e]}"
                raise EnvError(
                    f"The environments ({type(env).__name__}) gave {array[e][tuple(rest)]} as "
                    f"{name} at {where} of environment {first + e}: expected finite numbers."
                )
            continue
        got = f"{array.dtype} of the shape {array.shape}" if is_array else type(array).__name__
        raise EnvError(
            f"The environments ({type(env).__name__}) gave at step {at[0]} of environment {first} "
            f"{name} {axes} as {got}: expected {' or '.join(types)} of the shape {shape}."
        )
    if not isinstance(env.infos, Sequence) or len(env.infos) != n_envs:
        raise EnvError(
            f"The environments ({type(env).__name__}) have infos {env.infos!r}: expected a list of "
            f"{n_envs} dictionaries."
        )
    for e, agent in np.argwhere(~env.avail_actions.any(-1) & ~env.last[:, None])[:1].tolist():
        raise EnvError(
            f"The environments ({type(env).__name__}) gave agent {agent} of environment "
            f"{first + e} no available action: expected at least one. An agent that can do nothing "
            "needs an action for that."
        )
    if steps is None:
        require_ended(env, np.zeros_like(env.last), np.ones_like(env.last), first)


def require_ended(
    env: VectorEnv, terminated: np.ndarray, before: np.ndarray, first: int = 0
) -> None:
    """Check that episodes which a step has terminated are over, and those that it began are not.

    Args:
        terminated: [E], of the step.
        before: [E], ``last`` before it, where it began new episodes.
        first: number of the first environment, for messages.

    Raises:
        EnvError: one is not.
    """
    if terminated.any() and (alone := terminated & ~(env.last | before)).any():
        raise EnvError(
            f"The environments ({type(env).__name__}) gave terminated of environment "
            f"{first + int(alone.argmax())} without last: expected both where an episode "
            "terminates, and last alone where it is truncated."
        )
    if before.any() and (ended := before & env.last).any():
        raise EnvError(
            f"The environments ({type(env).__name__}) gave last of environment "
            f"{first + int(ended.argmax())} where an episode begins: expected that reset() and "
            "the step after last show the first observation of a new episode, without last."
        )
