"""The gate that every configuration passes which was not typed: the config.json of a run or a
checkpoint, the jobs of a sweep. Nothing passes but what is listed: for each part the classes of its
own group, environments by ids without a module, values that stay inside the run.

What was trained with the user's own classes needs ``trust=[package]``, and keys whose values
reach outside the run (paths, addresses, keys of any name and value) need to be typed again.
Patterns of keys are of ``fnmatch``; ``env`` stands for ``test.env`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from hydra.core.override_parser.types import Override

from rltrain.common.checkpoint.opponent_files import NAMED
from rltrain.common.metrics import METRICS
from rltrain.config.catalog import CONF, FREE_FORM, SEVERAL, SHIPPED, MutableTree, Tree
from rltrain.config.command_line import typed as as_typed
from rltrain.config.overrides import Leaves, contained, is_below, leaves, pick, put, sets_hydra
from rltrain.config.yaml_files import LOADER
from rltrain.errors import CheckpointError, NotTypedError

Kind = Literal["file", "place", "free", "opponent", "command"]
OUTSIDE: Mapping[str, Kind] = {
    "env.prices": "file",
    "env.start_positions": "file",
    "env.map_file": "file",
    "env.replay_dir": "place",
    "env.replay_prefix": "place",
    "env.kwargs.*": "free",
    **dict.fromkeys(("env.opponent", "env.opponents.*", "test.opponent"), "opponent"),
    "algo.optimizer.*": "free",
    "callbacks": "free",
    "test.function.*": "free",
    "dataset.write": "place",
    "dataset.read": "place",
    "buffer.folder": "place",
    "hardware.address": "place",
    "hardware.worker_resources.*": "free",
    **dict.fromkeys(("logger.trackio.project", "logger.trackio.group"), "free"),  # folder names
    "logger.trackio.*": "place",
    "logger.wandb.*": "place",
    "checkpoint": "place",
    **dict.fromkeys(
        ("mode", "name", "config", "resume", "runs", "checkpoints", "trust", "record"), "command"
    ),
    **dict.fromkeys(("hub.*", "init.*", "match.*", "report.*", "sweep.*", "tune.*"), "command"),
}
"""``file``: read by the environment, and copied into the run's folder when it begins. ``place``: a
path or an address. ``free``: of any form, of which numbers and single words are harmless.
``opponent``: a path, unless it is a name that no folder takes. ``command``: what a command does,
not a setting of a run.
"""
FILES = tuple(
    f"{part}{key}" for key, kind in OUTSIDE.items() if kind == "file" for part in ("", "test.")
)
"""The keys of files that are copied."""
NOT_LOADED = tuple(key.removesuffix(".*") for key, kind in OUTSIDE.items() if kind == "command")
"""Settings that are not loaded with a run."""
KEPT = (("project",), ("name",), ("group",), ("tags",), ("mode",))
"""Options of wandb that a run keeps."""
NAMES = ("_target_", "maker", "id")
"""Keys of the user's own part that name what is imported: ``trust`` is asked for them."""
WORD = re.compile(r"[\w-]{0,64}")
NOWHERE = "rltrain.config.trust.nowhere"
"""In place of the class of a part that is not to be built."""
HANDED_OVER = "rltrain.env.from_class"
"""The target of an environment that was passed from Python."""
HANDED_OVER_CALLBACK = "rltrain.config.python_objects.own_callback"
"""The target of a callback object that was passed from Python."""
ENVS = ("env", "test.env")
"""The environments of training, and what tests have different."""
ACTING = (*ENVS, "algo.distribution", "algo.network")
"""The parts that acting needs; all others only learn."""
PUBLISHED: Mapping[str, str] = {
    "mpe2": "collect_treasure_v1 simple_adversary_v3 simple_crypto_v3 simple_formation_v1 "
    "simple_line_v1 simple_push_v3 simple_reference_v3 simple_speaker_listener_v4 simple_spread_v3 "
    "simple_tag_v3 simple_v3 simple_world_comm_v3",
    "magent2.environments": "adversarial_pursuit_v4 battle_v4 battlefield_v5 combined_arms_v6 "
    "gather_v5 tiger_deer_v4",
    "pettingzoo.butterfly": "cooperative_pong_v6 knights_archers_zombies_v11 pistonball_v6",
    "pettingzoo.classic": "chess_v6 connect_four_v3 go_v5 hanabi_v5 leduc_holdem_v4 rps_v2 "
    "texas_holdem_no_limit_v6 texas_holdem_v4 tictactoe_v3",
    "pettingzoo.sisl": "multiwalker_v9 pursuit_v5 waterworld_v4",
}
"""The published environments of PettingZoo's packages, whose modules need no trust."""
GYMNASIUM = "rltrain.env.gymnasium_env"
REGISTERED: Mapping[str, str] = {
    GYMNASIUM: r"(?!GymV2)[\w./-]+",  # GymV21Environment-v0 makes any other one
    "rltrain.env.lbf_env": r"Foraging[\w-]*",
    "rltrain.env.rware_env": r"rware[\w-]*",
}
"""The ids that classes find in the registry of Gymnasium; there only installed packages put any."""
PETTINGZOO = "rltrain.env.pettingzoo_env"
"""The target of environments whose ``id`` is a module."""
AGAIN = (
    " It was passed from Python and cannot be imported, so pass it again: "
    "rltrain.evaluate(RUN_FOLDER, env=YOUR_CLASS), and so for rltrain.resume."
)
"""Advice about a maker that cannot be imported: a lambda, a local class, or that of a script."""
MODULE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")


@cache
def shipped_parts() -> Mapping[str, frozenset[str]]:
    """The classes that the shipped configuration names, by the part that it names them for:
    ``algo.loss`` has those of ``conf/algo/loss/``, ``callbacks`` those of the presets.
    """
    parts: dict[str, set[str]] = {
        "env": {HANDED_OVER},  # its maker needs trust
        "callbacks": {HANDED_OVER_CALLBACK},  # which cannot be built
    }
    for file in CONF.rglob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        if "_target_" in text:
            names = () if "@package _global_" in text else file.relative_to(CONF).parent.parts
            group = tuple(name for name in names if name != "shared")
            for path, target in targets(yaml.load(text, Loader=LOADER), group):
                parts.setdefault(".".join(path), set()).add(target)
    return {part: frozenset(each) for part, each in parts.items()}


def gate(
    tree: Tree,
    path: Path,
    *,
    trust: Collection[str] = (),
    typed: Leaves | None = None,
    left_out: Collection[str] = (),
    unused: Collection[str] = (),
) -> None:
    """Refuse everything in a configuration from a file that is not known to be harmless.

    Args:
        tree: the configuration, with what was typed in place.
        path: the file it was read from.
        trust: packages that were typed.
        typed: values that were typed, by the names that lead to them.
        left_out: parts that will not be built.
        unused: keys that will not be read.

    Raises:
        CheckpointError: an interpolation, or a class, module or function that is not listed.
        NotTypedError: keys that reach outside.
    """
    refuse_interpolations(tree, path)
    unknown = [x for x in foreign(tree, left_out) if x.package is None or x.package not in trust]
    if unknown:
        own = [x.package for x in unknown if x.package and x.advice is None]
        advice = unknown[0].advice
        if advice is None:
            advice = f" If you trust it, type trust=[{','.join(dict.fromkeys([*trust, *own]))}]."
        raise CheckpointError(f"{path} names {unknown[0].what}.{advice}")
    given = {} if typed is None else typed
    asked = {
        names: value
        for names, value in outside(tree, left_out).items()
        if ".".join(names) not in unused and not (names in given and given[names] == value)
    }
    for names, value in asked.items():
        if not all(text.isprintable() for text in (*names, *texts(value))):
            raise CheckpointError(f"{path} has control characters in {'.'.join(names)!a}.")
    if asked:
        raise NotTypedError(path, as_overrides(asked))


def chooses_or_sets(o: Override) -> bool:
    """Whether an override from a file only chooses what is shipped, or sets a value."""
    if o.is_sweep_override() or o.package or sets_hydra(o):
        return False
    key, value = str(o.key_or_group), contained(o.value())
    if o.is_delete():
        return is_below(key, FREE_FORM)
    if key in SHIPPED.groups:
        options = value if key in SEVERAL and isinstance(value, list) else [value]
        return all(option in (*SHIPPED.options(key), None) for option in options)
    line = str(o.input_line)
    settings = key.partition(".")[0] not in NOT_LOADED
    return settings and "pkg://" not in line and not any("${" in t for t in (line, *texts(value)))


def as_overrides(values: Leaves) -> list[str]:
    """Values as they are typed, below names that no typed key can have as mappings."""
    overrides = []
    for names, value in values.items():
        inside = next((i for i, name in enumerate(names) if not WORD.fullmatch(name)), len(names))
        for name in reversed(names[inside:]):
            value = {name: value}
        key = ".".join(names[:inside])
        overrides.append(f"{key}={as_typed(value, key)}")
    return overrides


def refuse_interpolations(tree: object, path: Path) -> None:
    """CheckpointError for a text that OmegaConf would resolve."""
    if any("${" in text for text in texts(tree)):
        raise CheckpointError(f"{path} holds an interpolation (${{…}}), which is never resolved.")


def texts(tree: object) -> Iterator[str]:
    """Every string in a tree, keys included."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield str(key)
            yield from texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from texts(value)


class Foreign(NamedTuple):
    """Something that a configuration names and that is not listed."""

    what: str
    package: str | None  # which could be trusted
    advice: str | None = None  # other than to trust the package


def packages(tree: Tree) -> list[str]:
    """The packages that a configuration names besides what rltrain ships."""
    return sorted({one.package for one in foreign(tree) if one.package is not None})


def foreign(tree: Tree, left_out: Collection[str] = ()) -> Iterator[Foreign]:
    """Yield everything that a configuration names and that is not listed for its place."""
    named = [(".".join(names), target) for names, target in targets(tree)]
    function = pick(tree, "test.function")
    named += [("test.function", function)] if isinstance(function, str) else []
    for part, target in named:
        if target not in shipped_parts().get(part, ()) and not is_below(part, left_out):
            package = target.partition(".")[0].partition(":")[0]
            why, advice = "rltrain does not ship", None
            if package == "rltrain":
                why, advice = f"is not a choice of {part}", ""
            yield Foreign(f"the class {target}, which {why}, so it is not built", package, advice)
    kind = str(pick(tree, "env._target_"))
    for part in ENVS:
        for names, value in leaves(pick(tree, part)):
            if isinstance(value, str) and not is_below(part, left_out):
                yield from foreign_env(kind, names, value)


def foreign_env(kind: str, names: Sequence[str], value: str) -> Iterator[Foreign]:
    """Yield the module or id that an option of an environment names, if it is not listed."""
    module, colon, own = value.rpartition(":")
    unnamed = names[-1:] == ("maker",) and (module == "__main__" or not own.isidentifier())
    if names == ("id",) and kind == PETTINGZOO and not colon:
        package, _, name = value.rpartition(".")
        module = "" if name in PUBLISHED.get(package, "").split() else value
    elif names == ("id",) and kind in REGISTERED and not colon:
        if not is_registered(kind, value):
            what = f"the environment {value}, which no installed package registers"
            typed = f"env.id=PACKAGE:{value}"
            yield Foreign(
                what, None, f" If yours does, type {typed} for an evaluation or a new run."
            )
    elif names[-1:] == ("maker",):
        module = module or value
    elif names[-1:] != ("id",) and not MODULE.fullmatch(value):
        module = ""
    if module:
        what = f"an environment for which the module {module} would be imported"
        package = module.partition(".")[0].partition(":")[0]
        yield Foreign(what, package, AGAIN if unnamed else None)


def is_registered(kind: str, id: str) -> bool:
    """Whether an id is of those that a class finds in Gymnasium's registry."""
    if re.fullmatch(REGISTERED[kind], id) is None:
        return False
    from rltrain.env.gymnasium_advice import registered_ids

    return kind != GYMNASIUM or id in registered_ids()


def outside(tree: Tree, left_out: Collection[str] = ()) -> Leaves:
    """The values in a configuration that reach outside the run."""
    own = [
        names
        for names, target in targets(tree)
        if target not in shipped_parts().get(".".join(names), ())
    ]
    reaching = {}
    for names, value in leaves(tree):
        part = next((part for part in own if names[: len(part)] == part), None)
        free = part is not None and names[len(part) :] not in [(name,) for name in NAMES]
        kind = key_kind(names) or ("free" if free else None)
        harmless = kind in (None, "command") or (kind == "free" and is_plain({names[-1]: value}))
        harmless |= kind == "opponent" and (value in NAMED or names[-1] in NAMED)
        if names == ("callbacks",) and isinstance(value, list):
            harmless = all(is_plain(free_options(node)) for node in value)
        if not harmless and value not in (None, "") and not is_below(".".join(names), left_out):
            reaching[names] = value
    return reaching


def free_options(callback: object) -> Any:
    """Return the options of a callback that may be of any form: tasks of ours, all of others."""
    if not isinstance(callback, Mapping):
        return callback
    shipped = callback.get("_target_") in shipped_parts()["callbacks"]
    return {k: v for k, v in callback.items() if k == "tasks" or not (shipped or k == "_target_")}


def nowhere(**options: object) -> None:
    """In place of a part that is not to be built; its options are kept for titles."""
    raise ValueError(f"this configuration was loaded to act, without the part that had {options}.")


def acts(part: str, target: str) -> bool:
    """Whether a part is built to act: a shipped mixer too, whose values pages of episodes show."""
    return part in ACTING or (part == "algo.mixer" and target in shipped_parts()[part])


def leave_out(tree: MutableTree, parts: Collection[str]) -> None:
    """Put ``nowhere`` in place of the classes of parts, and of what is not a part."""
    for path in parts:
        if path != "test.env":  # options over those of env
            node = pick(tree, path)
            put(tree, path, {**(node if isinstance(node, Mapping) else {}), "_target_": NOWHERE})


def targets(tree: object, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every ``_target_`` in a configuration, by the names that lead to its node."""
    if isinstance(tree, Mapping):
        if "_target_" in tree:
            yield at, str(tree["_target_"])
        for name, value in tree.items():
            yield from targets(value, (*at, str(name)))
    elif isinstance(tree, list):
        for value in tree:
            yield from targets(value, at)


@lru_cache(4096)
def key_kind(path: tuple[str, ...]) -> Kind | None:
    """The mark of the key at a path; None: it stays inside."""
    path = path[1:] if path[:2] == ("test", "env") else path
    if path[-1] == "_target_" or (path[:2] == ("logger", "wandb") and path[2:] in KEPT):
        return None
    key = ".".join(path)
    return next((kind for form, kind in OUTSIDE.items() if fnmatchcase(key, form)), None)


def is_plain(value: object) -> bool:
    """Whether a value of a free-form key is made of numbers, single words and metrics."""
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None or value in METRICS
    if isinstance(value, Mapping):
        return all(is_plain(str(name)) and is_plain(v) for name, v in value.items())
    return all(map(is_plain, value)) if isinstance(value, list) else True
