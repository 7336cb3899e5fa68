"""Typed overrides: their grammar, the jobs of a sweep, and the trees that they change."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from glob import glob
from itertools import islice
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser, create_functions
from hydra.core.override_parser.types import Override, Quote, QuotedString, Sweep, Transformer
from hydra.errors import HydraException
from omegaconf import OmegaConf

from rltrain.common.files import expanded
from rltrain.common.json_text import copied
from rltrain.common.machine.places import require_possible
from rltrain.config.catalog import FREE_FORM, SHIPPED, MutableTree, Tree
from rltrain.config.command_line import MOST_JOBS, NO_TEXT, STRANGE, intended, literal, shell_word
from rltrain.config.yaml_files import is_file
from rltrain.errors import NamesError, UsageError

Leaves = dict[tuple[str, ...], Any]
"""Values by the names that lead to them."""
PATH_KEYS = (
    *("checkpoint", "resume", "config", "runs", "checkpoints", "dataset.write", "dataset.read"),
    *("buffer.folder", "init.folder", "hydra.run.dir", "hydra.sweep.dir", "report.dir", "tune.dir"),
)
"""Keys whose values are paths: ``=``, ``,`` and spaces in them need no quotes."""
NAMES_OR_PATHS = (
    *("env.opponent", "test.opponent"),
    *("env.map_file", "env.start_positions", "env.prices", "env.replay_dir"),
)
"""Keys whose values are paths too, if they are there or have ``=``."""
SWEPT_PATHS = (
    *("checkpoint", "dataset.read", "dataset.write", "buffer.folder", "init.folder"),
    *NAMES_OR_PATHS,
)
"""Those of both that a sweep can have several values of."""
TYPED_ONCE = ("mode", "load_step", *PATH_KEYS)
"""Keys that choose a command and its files. Of other keys the last value counts."""
ENTRY = re.compile(r"""\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^,]*))\s*(?:,|$)""")
"""An entry of a list of paths: in quotes, which are doubled inside of it, or without."""
PARSERS = {shuffles: OverridesParser(create_functions()) for shuffles in (False, True)}
del PARSERS[False].functions.definitions["shuffle"]  # its order would be new at every reading
LONGEST_SHOWN = 80
"""Characters of an override in a message that it cannot be read."""


def quoted(text: str) -> str:
    """A text as Hydra takes it, a path or an option that is a number there quoted."""
    key, equals, value = text.partition("=")
    is_path = key in PATH_KEYS or (key in SHIPPED.groups and NO_TEXT.fullmatch(value) is not None)
    if key in NAMES_OR_PATHS:
        is_path = (value[:1] not in "[{(" and "=" in value) or os.path.exists(expanded(value))
    if key == "experiment" and is_file(value):
        several = "," in value and not os.path.exists(expanded(value))
        is_path = not several and "\\" not in value  # escaped already
    if not equals or not is_path or value[:1] in ("'", '"') or value in ("", "null"):
        return text
    return f"{key}={literal(value)}"


def swept_paths(text: str) -> str:
    """An override of a sweep with each of several paths quoted by itself, not all as one."""
    key, _, value = text.partition("=")
    choice = re.fullmatch(r"choice\((.*)\)", value)
    several = "," in value and value[:1] not in ("'", '"') and not os.path.exists(expanded(value))
    if key not in SWEPT_PATHS or not (choice or several):
        return text
    paths = (QuotedString(p, Quote.single) for p in typed_list(choice[1] if choice else value))
    return f"{key}={','.join(path.with_quotes() for path in paths)}"


def typed_list(typed: str) -> list[str]:
    """The paths and names of ``runs=PATH``, ``runs=PATH,PATH`` or ``runs=[PATH, PATH]``; in quotes
    they may have commas, and a path or pattern with commas that is there stays whole.
    """
    if os.path.exists(expanded(typed)) or (typed[:1] != "[" and glob(str(expanded(typed)))):
        return [typed]
    inner = typed[1:-1] if typed.startswith("[") and typed.endswith("]") else typed
    entries = (
        single.replace("''", "'") or double.replace('""', '"') or bare.strip()
        for single, double, bare in ENTRY.findall(inner)
    )
    return [entry for entry in entries if entry]


def parse(overrides: Sequence[str]) -> list[Override]:
    """Hydra's grammar, with every text that does not follow it named.

    Raises:
        UsageError: overrides that are not ``key=value``.
    """
    parsed = [parse_one(text) for text in overrides]
    unreadable = [text for text, o in zip(overrides, parsed, strict=True) if o is None]
    if unreadable:
        raise UsageError("\n".join(map(unreadable_problem, unreadable)))
    return [o for o in parsed if o is not None]


@lru_cache(maxsize=1024)
def parse_one(text: str, *, shuffles: bool = False) -> Override | None:
    """One override in Hydra's grammar; None for a text that does not follow it."""
    try:
        return PARSERS[shuffles].parse_override(quoted(text))
    except (HydraException, ValueError, RecursionError):  # thousands of digits or brackets
        return None


def is_strange(text: str) -> bool:
    """Whether a command with this argument is answered with the whole command that was meant."""
    if STRANGE.match(text) or parse_one(text) is not None:
        return STRANGE.match(text) is not None
    return all(STRANGE.match(word) or parse_one(word) for word in intended(text))


def unreadable_problem(text: str) -> str:
    """The message for a text that does not follow the grammar."""
    if "shuffle(" in text and parse_one(text, shuffles=True):
        return f"{text:.80}: shuffle is not available. Type the values in the order that you want."
    if len(text) > LONGEST_SHOWN:
        return f"'{text[:LONGEST_SHOWN]}…' cannot be read: expected key=value."
    if all("=" in word and parse_one(word) for word in intended(text)):
        typed = " ".join(map(shell_word, intended(text)))
        return f"'{text}' cannot be read: expected key=value. Type {typed}."
    from rltrain.config.suggest.value_forms import power

    key, _, value = text.partition("=")
    if number := power(value):
        return f"'{text}' cannot be read: expected a number. Type {key}={number}."
    return (
        f"'{text}' cannot be read: expected key=value. Text with spaces, commas, brackets or = "
        "needs both kinds of quotes: \"key='a b'\"."
    )


def sets_hydra(o: Override) -> bool:
    """Whether an override is for Hydra itself: ``hydra.sweep.dir``, ``hydra/launcher``."""
    return o.key_or_group.replace("/", ".").partition(".")[0] == "hydra"


def jobs(overrides: Sequence[Override]) -> list[list[str]]:
    """The product of all sweeps: one list of overrides per job, in argument order.

    Raises:
        UsageError: values that cannot be listed, or too many.
    """
    out: list[list[str]] = [[]]
    for override in overrides:
        if override.is_sweep_override():
            texts = sweep_values(override, MOST_JOBS // len(out))
        else:
            texts = [str(override.input_line)]
        out = [[*job, text] for job in out for text in texts]
    return out


def sweep_values(override: Override, most: int) -> list[str]:
    """An override for each value of a sweep.

    Raises:
        UsageError: its values cannot be listed, there are none, or more than ``most``.
    """
    key, line = override.get_key_element(), str(override.input_line)
    try:
        values = list(islice(override.sweep_iterator(in_grammar), most + 1))
    except (HydraException, ValueError, TypeError) as error:
        raise UsageError(
            f"{line}: a sweep needs values that can be listed: type {key}=A,B or "
            f"{key}='range(FIRST,END,STEP)'; rltrain mode=tune searches in intervals."
        ) from error
    if not values:
        raise UsageError(f"{line}: expected one value or more, got none. Type {key}=A,B.")
    if len(values) > most:
        raise UsageError(f"{line}: a sweep has at most {MOST_JOBS:,} runs. Type fewer values.")
    return [f"{key}={value}" for value in values]


def in_grammar(value: Any) -> Any:
    """A value of a sweep as it would be typed alone."""
    return literal(value.text) if isinstance(value, QuotedString) else Transformer.encode(value)


def require_one_value(overrides: Sequence[str]) -> None:
    """Refuse several values for a key, which only a sweep takes.

    Raises:
        NamesError: the overrides, and what to type.
    """
    swept = [str(o.input_line) for o in parse(overrides) if o.is_sweep_override()]
    if swept:
        from rltrain.config.suggest.value_forms import numbers

        one = "".join(numbers(text) for text in swept)
        one = one if one.endswith(" list.") else one.replace(" Type", " For one number type")
        modes = [o for o in overrides if re.match("resume=|mode=(?!train$)", o)]
        one_only = f"{modes[0]} takes one: type one of them" if modes else ""
        if modes[:1] == ["mode=tune"] and re.search(r"=(range|interval)\(", swept[0]):
            entry = f"{{key: {swept[0].partition('=')[0].lstrip('+')}, low: FIRST, high: LAST}}"
            one_only = f"mode=tune searches what is listed: type 'tune.space=[{entry}]'"
        how = one_only or "Type rltrain -m … to run them all"
        raise NamesError(
            f"{', '.join(swept)}: several values for one key are a sweep. {how}, or quote the "
            f"value if the comma belongs to it.{one}"
        )


def require_once(overrides: Sequence[str]) -> None:
    """UsageError for two values of what a command does, or of a file it reads or writes; for paths
    that no file system accepts, and empty ones.
    """
    for key in TYPED_ONCE:
        typed = [o for o in overrides if o.lstrip("+").partition("=")[0] == key]
        if len(typed) > 1:
            raise UsageError(f"{key} is typed twice ({', '.join(typed)}). Keep one of them.")
    for key, _, value in (override.lstrip("+").partition("=") for override in overrides):
        if key in PATH_KEYS and not value.startswith("["):
            require_possible(value[1:-1] if value[:1] in ("'", '"') else value, key)


def typed_value(overrides: Sequence[str], key: str) -> Any:
    """The value that was typed for a key, as in Hydra the last one; None for none or several."""
    typed = (o for o in parse(overrides) if o.key_or_group == key and not o.is_delete())
    values = [o.value() for o in typed]
    return None if not values or isinstance(values[-1], (Sweep, list, dict)) else values[-1]


def typed_targets(overrides: Sequence[Override]) -> dict[str, str]:
    """The parts whose ``_target_`` was typed, by dotted path, and what it names."""
    named = {}
    for o in overrides:
        path, dot, leaf = o.key_or_group.rpartition(".")
        value = o.value()
        if leaf == "_target_" and dot:
            named[path] = str(value)
        elif isinstance(value, dict) and isinstance(value.get("_target_"), str):
            named[o.key_or_group] = value["_target_"]
    return named


def typed_leaves(overrides: Sequence[Override]) -> Leaves:
    """The typed values by the names that lead to them; of a mapping those inside."""
    return {
        path: value
        for o in overrides
        for path, value in leaves(contained(o.value()), tuple(o.key_or_group.split(".")))
    }


def with_targets(tree: Tree, custom: Mapping[str, str]) -> MutableTree:
    """A tree in which every part with another ``_target_`` than before has no keywords yet."""
    out = copied(dict(tree))
    for path, target in custom.items():
        node = pick(out, path)
        if isinstance(node, dict) and node.get("_target_", target) != target:
            # of hardware=process, not a keyword of the environment's class
            beside = {"timeout": node["timeout"]} if path == "env" and "timeout" in node else {}
            put(out, path, {"_target_": target, **beside})
    return out


def set_value(tree: MutableTree, o: Override) -> None:
    """Do what Hydra does with an override that ``key_problem`` let pass; {} empties FREE_FORM."""
    key, value = o.key_or_group.replace("/", "."), contained(o.value())
    before, (parent, _, leaf) = pick(tree, key), key.rpartition(".")
    if o.is_delete() and key not in FREE_FORM:
        pick(tree, parent).pop(leaf, None)
        return
    if isinstance(before, dict) and isinstance(value, dict):
        value = overlaid(before, value, key)
    put(tree, key, {} if o.is_delete() else value)


def contained(value: object) -> Any:
    """A typed value in plain containers, interpolations as they stand."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and "$" not in value):
        return value  # OmegaConf takes longer
    held: Any = OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=False)
    return held["value"]


def pick(tree: object, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return None
        tree = tree[part]
    return tree


def is_below(path: str, parts: Collection[str]) -> bool:
    """Whether a dotted path is that of one of the parts, or inside."""
    return any(path == part or path.startswith(f"{part}.") for part in parts)


def put(tree: MutableTree, path: str, value: object) -> None:
    """Set the value at a dotted path; what is no mapping on the way becomes one."""
    *parents, leaf = path.split(".")
    for part in parents:
        if not isinstance(tree.get(part), dict):
            tree[part] = {}
        tree = tree[part]
    tree[leaf] = value


def overlaid(tree: Tree, above: Tree, at: str = "") -> MutableTree:
    """``tree`` with ``above`` over it, key by key. Another ``_target_`` replaces the whole node; in
    free-form nodes (``at`` is the dotted path of both) {} empties what has no ``_target_``.
    """
    if not above and is_below(at, FREE_FORM) and "_target_" not in tree:
        return {}
    out = dict(tree)
    if "_target_" in out and above.get("_target_", out["_target_"]) != out["_target_"]:
        out = {}
    for name, value in above.items():
        below = out.get(name)
        if isinstance(value, Mapping):
            below = below if isinstance(below, Mapping) else {}
            value = overlaid(below, value, at and f"{at}.{name}")
        out[name] = value
    return out


def stacked(trees: Iterable[Tree]) -> MutableTree:
    """Trees over one another, the last one on top."""
    return reduce(overlaid, trees, MutableTree())


def part_targets(tree: Tree, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted path of every ``_target_`` node outside of lists, and what it names."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            if isinstance(value.get("_target_"), str):
                yield f"{prefix}{name}", value["_target_"]
            else:
                yield from part_targets(value, f"{prefix}{name}.")


def flat_keys(tree: Tree, prefix: str = "") -> MutableTree:
    """Every dotted path of a tree and what is there, inner nodes included."""
    out: MutableTree = {}
    for name, value in tree.items():
        out[f"{prefix}{name}"] = value
        if isinstance(value, dict):
            out |= flat_keys(value, f"{prefix}{name}.")
    return out


def leaves(tree: object, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is not a mapping, and empty mappings, by the names that lead to it."""
    if not isinstance(tree, Mapping) or not tree:
        yield at, tree
        return
    for name, value in tree.items():
        yield from leaves(value, (*at, str(name)))
