"""Why a Gymnasium or ALE environment cannot be created, and what to type instead."""

from __future__ import annotations

import re
import sys

import gymnasium

from rltrain.common.machine.install import (
    install_command,
    install_extra,
    require_extra,
    requirements,
)
from rltrain.errors import closest, held

ATARI = re.compile(r"NoFrameskip|Deterministic|^ALE/|-ram\b")
"""Parts of the ids of Atari games."""


def require_registered(id: str) -> None:
    """Refuse an id that is not in Gymnasium's registry.

    Raises:
        ValueError: states what to type instead.
    """
    if id not in gymnasium.registry and id not in registered_ids():
        error = gymnasium.error.UnregisteredEnv()
        raise ValueError(f"env.id={id:.200} cannot be created: {advice(id, error)}")


def registered_ids() -> set[str]:
    """The ids in Gymnasium's registry, with and without versions."""
    return {
        name
        for spec in gymnasium.registry.values()
        for name in (spec.id, spec.id.rpartition("-v")[0])
    }


def require_game(game: str) -> None:
    """Refuse a game that ALE does not have.

    Raises:
        ValueError: the package is missing, or it has no such game.
    """
    require_extra("atari", "ale_py", "env=atari")
    import ale_py

    games = ale_py.roms.get_all_rom_ids()
    if game not in games:
        near = closest(game, sorted(games), n=1) or held(game, games)
        meant = f" Did you mean '{near[0]}'?" if near else ""
        raise ValueError(
            f"env.game={game:.80}: expected one of ALE's {len(games)} games in its spelling, such "
            f"as pong or space_invaders.{meant}"
        )


def advice(id: str, error: Exception) -> str:
    """Why an id cannot be created, and what to type instead."""
    if needed := missing_packages(error):
        return f"it needs packages that are not installed. {needed}"
    name, _, version = id.rpartition("-v")
    if ATARI.search(id):
        game = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", ATARI.sub("", name)).lower()
        return f"Atari games are an environment of their own. Type env=atari env.game={game}."
    if isinstance(error, ModuleNotFoundError) and ":" in id:
        what = str(error).partition(". Environment registration")[0].rstrip(".")
        return f"{what}. Expected an installed module, or one in this folder, before the colon."
    if not isinstance(error, (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv)):
        return f"{str(error).rstrip('. ')}."
    module, _, wanted = id.partition(":")
    if wanted and module in sys.modules and not wanted.rpartition("-v")[0]:
        classes = [n for n, value in vars(sys.modules[module]).items() if isinstance(value, type)]
        meant = closest(wanted, classes, n=1)
        hint = f" Did you mean env.id={module}:{meant[0]}?" if meant else ""
        return f"the module {module} has no {wanted}.{hint}"
    newest: dict[str, int] = {}
    for known in gymnasium.registry:
        base, _, number = known.rpartition("-v")
        newest[base] = max(int(number or 0), newest.get(base, 0))
    if name in newest:
        return f"there is no version {version} of it. Type env.id={name}-v{newest[name]}."
    if re.match(r"(MiniGrid|BabyAI)-", id):
        command = install_command("minigrid")
        return f"it belongs to the package minigrid. Type {command}, then env.id=minigrid:{id}."
    near = [f"{base}-v{newest[base]}" for base in closest(name or id, newest, n=1)]
    if near:
        return f"there is no such id. Did you mean env.id={near[0]}?"
    return "there is no such id. Expected one of gymnasium.registry, or module:Class for your own."


def missing_packages(error: Exception) -> str:
    """The command that installs an environment's missing packages, or an empty string.

    Gymnasium names its extra in the message: ``pip install "gymnasium[box2d]"``.
    """
    extra = re.search(r"gymnasium\[([\w-]+)\]", str(error))
    if not isinstance(error, gymnasium.error.DependencyNotInstalled) or extra is None:
        return ""
    ours = {at for _, at in requirements()}
    return f"Type {install_extra(extra[1]) if extra[1] in ours else install_command(extra[0])}"
