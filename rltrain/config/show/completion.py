"""Tab completion of the last word of a command line.

A shell waits for the answer, so nothing here imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from rltrain.battles.data.maps import map_names
from rltrain.battles.data.scenarios import SCENARIOS
from rltrain.common.files import expanded
from rltrain.common.metrics import METRICS
from rltrain.config.catalog import Catalog
from rltrain.config.overrides import NAMES_OR_PATHS, PATH_KEYS
from rltrain.config.suggest.choices import ATARI_GAMES
from rltrain.config.yaml_files import Key

FLAGS = ("-m", "--help", "--version", "--cfg", "--config-dir", "--multirun", "--resolve")
PATHS = (*PATH_KEYS, *NAMES_OR_PATHS)
UNTYPABLE = re.compile(r"""[\s"'\\$`*?()\[\]{}<>|&;!#~]""")
"""Characters that mean something to a shell, which Hydra's completion does not escape."""
NEWEST = ("checkpoint", "resume")
"""Keys that take ``latest`` for the newest run."""


def complete(line: str, catalog: Catalog) -> list[str]:
    """List the completions of the last word of a command line, which begins with the program."""
    words = line.split()[1:]
    if words[:2] == ["-m", "rltrain"]:  # python -m rltrain
        words = words[2:]
    last = "" if line[-1:].isspace() or not words else words.pop()
    pairs = [word.partition("=") for word in words]
    typed = {key: name for key, _, name in pairs if name in catalog.options(key)}
    return sorted({word for word in _candidates(last, typed, catalog) if word.startswith(last)})


def _candidates(last: str, typed: Mapping[str, str], catalog: Catalog) -> Iterator[str]:
    if last.startswith("-"):
        yield from FLAGS
        return
    sign = "+" * (len(last) - len(last.lstrip("+")))
    key, equals, value = last.removeprefix(sign).partition("=")
    keys = catalog.keys(typed)
    if equals:
        before = value[: value.rfind(",") + 1]
        listed = values(key, keys, catalog.choices(typed), catalog)
        paths = _paths(value.removeprefix(before)) if key in PATHS else ()
        yield from (f"{sign}{key}={before}{v}" for v in (*listed, *paths))
        return
    yield from (f"{sign}{group}=" for group in catalog.groups)
    node = key.rpartition(".")[0]
    for path in keys:
        if path.startswith(f"{node}." if node else ""):
            rest = path.removeprefix(f"{node}." if node else "")
            name, dot, _ = rest.partition(".")
            yield f"{sign}{f'{node}.' if node else ''}{name}{'.' if dot else '='}"


def values(
    key: str, keys: Mapping[str, Key], chosen: Mapping[str, str], catalog: Catalog
) -> list[str]:
    """The values that a key can have, as far as they can be listed; no paths."""
    if key in catalog.groups:
        return catalog.options(key)
    if key in NEWEST:
        return ["latest"]
    if key == "env.map_name":
        return [*SCENARIOS] if chosen.get("env") == "smacv2" else map_names()
    if key == "env.game" and chosen.get("env") == "atari":
        return ATARI_GAMES.split()
    if key == "stop.metric":
        return [*METRICS]
    if key not in keys:
        return []
    if keys[key].value in ("true", "false") and not keys[key].values:
        return ["true", "false"]
    default = keys[key].value
    return keys[key].values or ([] if default in ("null", "{}", "[]", '""') else [default])


def _paths(begun: str) -> Iterator[str]:
    """Folders and files that a path may become, where their names can be typed as they are."""
    folder = begun[: begun.rfind("/") + 1]
    with suppress(OSError, ValueError):  # a folder that is not there, or no name at all
        for path in expanded(folder or ".").iterdir():
            if not path.name.startswith(".") and not UNTYPABLE.search(path.name):
                yield f"{folder}{path.name}{'/' if path.is_dir() else ''}"
