"""Configurations read from a file are untrusted data: they may name only classes that rltrain ships
or the user trusts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from rltrain.common.files import get_json
from rltrain.config.tree import put
from rltrain.config.tree import targets as targets_by_path
from rltrain.errors import CheckpointError

NOWHERE = "rltrain.config.trust.nowhere"
"""In the place of the class of a part that is not to be built."""
ACTING = ("env", "algo.distribution", "algo.network")
"""The parts that acting needs; all others only learn."""
HANDED_OVER = "rltrain.env.from_class"
"""What builds an environment that was handed over from Python."""
PETTINGZOO = "rltrain.env.pettingzoo_env"
"""What builds environments whose ``id`` names a module."""
PETTINGZOO_PACKAGES = ("pettingzoo", "mpe2", "magent2")
"""Packages of published environments, which need no trust."""
HANDED_OVER_CALLBACK = "rltrain.config.python_objects.own_callback"
"""What stands for a callback object that was handed over from Python."""


CONFIG_BYTES = 1 << 24
"""A larger ``config.json`` is not read."""


def shipped_targets(folder: Path) -> set[str]:
    """The classes that the configuration in ``folder`` names, and what stands for others in
    records.
    """
    pattern = re.compile(r"^_target_:\s*(\S+)|^\s+_target_:\s*(\S+)", re.MULTILINE)
    found = {HANDED_OVER, HANDED_OVER_CALLBACK, NOWHERE}
    for file in folder.rglob("*.yaml"):
        found |= {a or b for a, b in pattern.findall(file.read_text(encoding="utf-8"))}
    return found


def read_config(path: Path) -> dict[str, Any]:
    """A run's ``config.json``: untrusted data that is neither composed nor resolved.

    Raises:
        CheckpointError: unreadable, no JSON object, or an interpolation in it.
    """
    try:
        tree = get_json(path, CONFIG_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CheckpointError(
            f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected the config.json "
            "of a run, such as outputs/<algo>-<env>/<run>/config.json."
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(tree).__name__}.")
    if any("${" in text for text in texts(tree)):
        raise CheckpointError(f"{path} holds an interpolation (${{…}}), which is never resolved.")
    return tree


def texts(tree: Any) -> Iterator[str]:
    """Every string in a tree, keys included."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from texts(value)


def refuse_foreign_targets(tree: Any, trust: Sequence[str], path: Path, shipped: Set[str]) -> None:
    """Refuse classes and environment modules in a loaded configuration that rltrain does not ship
    and are not trusted.

    Args:
        path: the file it was read from.
        shipped: classes that may be built in any case.

    Raises:
        CheckpointError: names the class or module and what to type to trust it.
    """
    for target in sorted({*targets(tree), *test_functions(tree)} - shipped):
        package = target.partition(".")[0]
        if package not in trust:
            raise CheckpointError(
                f"{path} names the class {target}, which rltrain does not ship, so it is not "
                f"built. If you trust it, type trust=[{package}]."
            )
    module = module_of_env(tree)
    if module is not None and module.partition(".")[0] not in trust:
        raise CheckpointError(
            f"{path} names an environment for which the module {module} would be imported. If you "
            f"trust it, type trust=[{module.partition('.')[0]}]."
        )


def packages(tree: Mapping[str, Any], shipped: Set[str]) -> list[str]:
    """The packages that a configuration names beside what rltrain ships."""
    named = {*targets(tree), *test_functions(tree)} - shipped
    module = module_of_env(tree)
    return sorted({name.partition(".")[0] for name in (*named, *([module] if module else []))})


def module_of_env(tree: Mapping[str, Any]) -> str | None:
    """The module, other than the class of a ``_target_``, that building the environment imports:
    that of ``env.id=module:Id``, of a class that was handed over, or of PettingZoo's, unless it is
    one of its own packages.
    """
    env = tree.get("env")
    if not isinstance(env, dict) or env.get("_target_") == NOWHERE:
        return None
    name = str(env.get("maker") or env.get("id") or "")
    if env.get("_target_") == PETTINGZOO:
        module = name.partition(":")[0]
        return None if module.partition(".")[0] in PETTINGZOO_PACKAGES else module
    module, colon, _ = name.rpartition(":")
    return module if colon else None


def nowhere(**options: Any) -> None:
    """In the place of a part that is not to be built; its options are kept for titles."""
    raise ValueError(f"this configuration was loaded to act, without the part that had {options}.")


def leave_out(tree: dict[str, Any], *, learns: bool, env: bool) -> None:
    """Put ``nowhere`` in the place of the classes that are not to be built, so that they need no
    trust.

    Args:
        learns: the parts that only learn are built.
        env: the environment is built.
    """
    for path, _ in list(targets_by_path(tree)):
        if (not env and path == "env") or (not learns and path not in ACTING):
            put(tree, f"{path}._target_", NOWHERE)


def test_functions(tree: Mapping[str, Any]) -> Iterator[str]:
    """What ``test.function`` names, if it is a name alone."""
    tests = tree.get("test")
    function = tests.get("function") if isinstance(tests, dict) else None
    if isinstance(function, str):
        yield function


def targets(tree: Any) -> Iterator[str]:
    """Every ``_target_`` in a configuration."""
    if isinstance(tree, dict):
        if "_target_" in tree:
            yield str(tree["_target_"])
        for value in tree.values():
            yield from targets(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from targets(value)
