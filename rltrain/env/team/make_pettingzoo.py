"""PettingZoo environments by the name of a package, or of a custom class or function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from rltrain.common.imports import beside_user
from rltrain.common.keywords import flat_keywords
from rltrain.common.machine.install import NotInstalled, install_command, require_extra
from rltrain.env.env_options import Names, TeamOptions
from rltrain.env.make_gymnasium import from_class
from rltrain.env.team.team_names import Teams
from rltrain.errors import reason
from rltrain.interfaces import VectorEnv

EXTRA = ("mpe2", "lbforaging", "rware", "magent2")
"""Packages of the extra ``marl``."""
INSTALLED = ("pettingzoo", *EXTRA)
"""Packages that are never taken from the current folder: their environments need no trust."""
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
    team: Names | None = None,
    opponent_team: Names | None = None,
    two_sided: bool = False,
    options: TeamOptions,
) -> VectorEnv:
    """``n_envs`` environments of PettingZoo's, parallel or AEC.

    Args:
        id: a module with ``parallel_env`` or ``env`` (mpe2.simple_spread_v3), or ``module:Name`` of
            a class or function.
        team: how the names of the agents that learn begin, or a list of them; None = all learn.
        opponent_team: the same of the others; None = all others.
        two_sided: whether opponents play the others.

    Raises:
        ValueError: there is none by that name, spaces that do not fit, or no such teams.
    """
    if team is None and (two_sided or opponent_team is not None):
        raise ValueError(
            "env.opponent and env.opponent_team need env.team, the agents that learn: all agents "
            "are one side otherwise. Type env.team=NAME, how the names of these agents begin."
        )
    if team is not None and not two_sided:
        raise ValueError(needs_opponent(training, f"env.team={team}"))
    teams = None if team is None else Teams(team, opponent_team)
    given = {"training": training, "record": record, "kwargs": kwargs, **vars(options)}
    return from_class(find_maker(id), n_envs=n_envs, teams=teams, **given)


def needs_opponent(training: bool, why: str) -> str:
    """The message where the environment has no opponent of its own."""
    key = "env" if training else "test"
    return (
        f"{why}: the other agents have no policy of their own (builtin). Type {key}.opponent=random"
        f"{', self' if training else ''} or a checkpoint."
    )


def find_maker(id: str) -> Callable[..., object]:
    """Return the function that makes the environments of an id.

    Raises:
        ValueError: what to type instead.
    """
    module, _, name = id.partition(":")
    package = module.partition(".")[0]
    try:
        with nullcontext() if package in INSTALLED else beside_user(module):
            imported = importlib.import_module(module)
    except Exception as error:
        if package in EXTRA:
            require_extra("marl", package, f"env.id={id}")
        missing = str(getattr(error, "name", None) or package).partition(".")[0]
        if package in INSTALLED and missing != package:  # a library of this environment
            command = install_command(missing)
            raise NotInstalled(
                f"env.id={id} needs {missing}, which is not installed: {command}"
            ) from error
        what = str(error) if isinstance(error, ImportError) else reason(error)
        raise ValueError(
            f"env.id={id} cannot be created: {what.rstrip('. ')}. Expected an installed module "
            "such as mpe2.simple_spread_v3, or module:Name of one in this folder."
        ) from error
    for candidate in [name] if name else MAKERS:
        maker = getattr(imported, candidate, None)
        if callable(maker):
            return maker
    expected = f"class or function {name}" if name else "parallel_env or env"
    raise ValueError(
        f"env.id={id} cannot be created: the module {module} has no {expected}. Expected a module "
        "of PettingZoo's such as mpe2.simple_spread_v3, or module:Name of a custom class or "
        "function."
    )
