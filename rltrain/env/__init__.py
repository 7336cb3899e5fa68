"""Environments. Public names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltrain.common.imports import import_name

if TYPE_CHECKING:
    from rltrain.env.atari import AtariVectorEnv as AtariVectorEnv
    from rltrain.env.games.matrix import matrix_game as matrix_game
    from rltrain.env.games.matrix import two_step_game as two_step_game
    from rltrain.env.games.stag_hunt import StagHunt as StagHunt
    from rltrain.env.make_gymnasium import from_class as from_class
    from rltrain.env.make_gymnasium import gymnasium_env as gymnasium_env
    from rltrain.env.minatar import minatar_env as minatar_env
    from rltrain.env.team.benchmarks import lbf_env as lbf_env
    from rltrain.env.team.benchmarks import magent_env as magent_env
    from rltrain.env.team.benchmarks import mpe_env as mpe_env
    from rltrain.env.team.benchmarks import rware_env as rware_env
    from rltrain.env.team.make_pettingzoo import pettingzoo_env as pettingzoo_env
    from rltrain.env.trading import trading_env as trading_env

_EXPORTS = {
    "AtariVectorEnv": "atari",
    "StagHunt": "games.stag_hunt",
    "from_class": "make_gymnasium",
    "gymnasium_env": "make_gymnasium",
    "lbf_env": "team.benchmarks",
    "magent_env": "team.benchmarks",
    "matrix_game": "games.matrix",
    "minatar_env": "minatar",
    "mpe_env": "team.benchmarks",
    "pettingzoo_env": "team.make_pettingzoo",
    "rware_env": "team.benchmarks",
    "trading_env": "trading",
    "two_step_game": "games.matrix",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
