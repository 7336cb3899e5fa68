"""PettingZoo environments by the name of a package, or of a class or function of one's own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.common.imports import beside_user
from rltrain.common.install import install_extra
from rltrain.common.keywords import flat_keywords
from rltrain.env.env_options import TeamOptions
from rltrain.env.make_gymnasium import from_class
from rltrain.errors import reason
from rltrain.interfaces import VectorEnv

EXTRA = ("mpe2", "lbforaging", "rware", "magent2")
"""Packages of the extra ``marl``."""
MAKERS = ("parallel_env", "env")
"""The name in PettingZoo's modules of the function that makes the environment."""


@flat_keywords
def pettingzoo_env(
    *,
    id: str,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    options: TeamOptions,
) -> VectorEnv:
    """``n_envs`` environments of PettingZoo's, parallel or AEC.

    Args:
        id: a module with ``parallel_env`` or ``env`` (mpe2.simple_spread_v3), or ``module:Name`` of
            a class or function.

    Raises:
        ValueError: there is none by that name, or spaces that do not fit.
    """
    given = {"training": training, "record": record, "kwargs": kwargs, **vars(options)}
    return from_class(find_maker(id), n_envs=n_envs, **given)


def find_maker(id: str) -> Callable[..., Any]:
    """Return the function that makes the environments of an id.

    Raises:
        ValueError: what to type instead.
    """
    module, _, name = id.partition(":")
    try:
        with beside_user():
            imported = importlib.import_module(module)
    except Exception as error:
        raise ValueError(f"env.id={id} cannot be made: {missing(module, error)}") from error
    for candidate in [name] if name else MAKERS:
        maker = getattr(imported, candidate, None)
        if callable(maker):
            return maker
    expected = f"class or function {name}" if name else "parallel_env or env"
    raise ValueError(
        f"env.id={id} cannot be made: the module {module} has no {expected}. Expected a module of "
        "PettingZoo's such as mpe2.simple_spread_v3, or module:Name of a class or function of "
        "your own."
    )


def missing(module: str, error: Exception) -> str:
    """Why a module cannot be imported, and what to type."""
    package = module.partition(".")[0]
    if package in EXTRA and importlib.util.find_spec(package) is None:
        return (
            f"it needs {package}, which is not installed. Type {install_extra('marl')} (the extra "
            "marl of rltrain)."
        )
    what = str(error) if isinstance(error, ImportError) else reason(error)
    return (
        f"{what.rstrip('. ')}. Expected an installed module such as mpe2.simple_spread_v3, "
        "or module:Name of one in this folder."
    )
