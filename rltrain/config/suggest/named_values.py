"""Names and values in a command of another program: its script, flags, ``key=value``, mappings."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import Any

import yaml

from rltrain.config.command_line import intended
from rltrain.config.suggest.aliases import commands, names_of_settings

SCRIPT = re.compile(r".*\.py|(rl_zoo3|ray\.rllib|cleanrl\w*)\.[\w.]+")
PYTHON = re.compile(r"python[\d.]*")
NUMBER = re.compile(r"-[\d.]+(e-?\d+)?")
PLAIN = re.compile(r"\d[\d._]*(e-?\d+|[kKM])?")
SPACED = re.compile(r"(?:\0*([,=])|(?<=:))\0+(?!-[^\d.]|[^\0]*=)|\0+(?=[,=])")
"""Ends of arguments beside a comma, equals sign or colon: ``seed = 1, 2``."""
RECORD = ("record_video", "record")
"""Flags that mean videos of training; as words, of an evaluation."""


def named_values(
    arguments: Sequence[str], keys: Container[str] = ()
) -> tuple[str, list[tuple[str, str]]]:
    """The script that was to run, and names and values of flags and ``key=value``; words without
    a name have the empty one. ``keys`` are those of ours, which a value may follow.
    """
    script, before, pairs = "", "", list[tuple[str, str]]()
    joined = SPACED.sub(r"\1", "\0".join(arguments)).split("\0")
    words = [each for word in joined for each in intended(word)]
    python = next((i for i, word in enumerate(words) if PYTHON.fullmatch(word)), 0)
    before_it = (word.partition("=") for word in words[:python])  # settings of the shell
    pairs += [(name, value) for name, equals, value in before_it if equals]
    words = words[python:]
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        follows = bool(words) and (
            bool(NUMBER.fullmatch(words[0]) or words[0].startswith(("{", "dict(")))
            or not (words[0].startswith("-") or "=" in words[0])
        )
        if before.startswith("python") and word.startswith("-"):
            if word == "-m" and words and not script:
                words[0] += ".py"  # a module is its script
            word = before
        elif SCRIPT.fullmatch(word) and not script:
            script = word.removesuffix(".py").replace("/", ".").rpartition(".")[2]
            pairs.append(("", script))
        elif word in ("-m", "--multirun") and not (script and follows):
            pairs.append(("", "sweep"))
        elif word.startswith("-"):
            name = name.replace("-", "_")
            name = commands()["flags"].get(name.lower() if len(name) < 2 else name, name)
            means = None if equals else commands()["words"].get(name)
            switch = re.fullmatch(r"(mode|resume)=\w+|--\w+", means or "")
            if switch or (means is not None and not follows and name not in RECORD):
                pairs.append(("", name))
            elif not equals and name.startswith("no_"):
                pairs.append((name.removeprefix("no_"), "false"))
            elif name in ("hyperparams", "hyperparameters", "env_kwargs"):
                words = [value, *words] if equals else words
                while words and re.match(r"\w+:", words[0]):
                    pairs += _several(name, words.pop(0), script)
            else:
                value = value if equals else _numbers(words) if follows else "true"
                pairs += _several(name, value, script)
        elif follows and (
            (PLAIN.fullmatch(words[0]) and word in names_of_settings())
            or (word in keys and words[0] not in keys)
        ):
            pairs.append(("" if word == "mode" else word, _numbers(words)))
        elif equals:
            pairs += _several(name, value, script)
        else:
            pairs.append(("", word))
        before = word
    return script, _with_ratio(_whole_names(pairs))


def _numbers(words: list[str]) -> str:
    """Take the next word, or all of several numbers, joined by commas."""
    values = [words.pop(0)]
    while words and PLAIN.fullmatch(values[0]) and PLAIN.fullmatch(words[0]):
        values.append(words.pop(0))
    return ",".join(values)


def _several(name: str, value: str, script: str) -> list[tuple[str, str]]:
    """The settings inside ``{"lr": 0.1}``, ``dict(net_arch=[64])`` and ``lr:0.1``, or the one."""
    tree: Any = None
    name = commands()["names"].get(name, name)
    if name == "log_folder" and value.endswith((".yaml", ".yml")):
        name = "conf_file"
    if name == "env" and "atari" in script and "/" not in value:
        value = f"ALE/{value}"
    if value.startswith("{") and "." not in name:
        with suppress(Exception):  # of any kind, since types that values name are not checked
            tree = yaml.safe_load(value)
    elif name in ("hyperparams", "hyperparameters", "env_kwargs"):
        key, _, text = value.partition(":")
        prefix = "+env.kwargs." if name == "env_kwargs" else ""
        return _several(f"{prefix}{key}", text.strip("'"), script)
    elif value.startswith("dict("):
        with suppress(SyntaxError, ValueError):
            call: Any = ast.parse(value, mode="eval").body
            tree = {word.arg: _literal(word.value) for word in call.keywords}
    if not isinstance(tree, dict):
        return [(name, value)]
    prefixes = {"env_config": "+env.kwargs.", "stop": "stop.", "exploration_config": f"{name}."}
    prefix = prefixes.get(name, "")
    texts = {
        key: inner if isinstance(inner, str) else json.dumps(inner, separators=(",", ":"))
        for key, inner in tree.items()
    }
    return [each for key in texts for each in _several(f"{prefix}{key}", texts[key], script)]


def _literal(node: ast.expr) -> Any:
    """The value of an expression of Python, or its text."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _whole_names(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Settings that are parts of an environment's name here joined to it: the package that
    registers an id, the units of a scenario of SMACv2.
    """
    named = {name.rpartition(".")[2]: value for name, value in pairs}
    if "batch_size_run" in named:  # the same as runner, more exactly
        pairs = [pair for pair in pairs if pair[0] != "runner"]
    race = re.search("terran|protoss|zerg", " ".join(named.values()))
    if race and {"n_units", "n_enemies"} <= {*named}:
        others = [p for p in pairs if not p[0].endswith(("n_units", "n_enemies", "map_name"))]
        return [*others, ("env", f"{race[0]}_{named['n_units']}_vs_{named['n_enemies']}")]
    package = named.get("gym_packages")
    prefixes = {"env": f"{package}:" if package else "", "gym_packages": None}
    thousands = re.compile(r"[1-9]\d{0,2}(,000)+")
    pairs = [(k, v.replace(",", "_") if thousands.fullmatch(v) else v) for k, v in pairs]
    prefixed = [(name, prefixes.get(name, ""), value) for name, value in pairs]
    return [(name, prefix + value) for name, prefix, value in prefixed if prefix is not None]


def _with_ratio(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """``train_freq`` and ``gradient_steps`` as one setting."""
    named = dict(pairs)
    try:
        freq, steps = float(named["train_freq"]), float(named["gradient_steps"])
        ratio = steps / freq if steps > 0 else 1.0
    except (KeyError, ValueError, ZeroDivisionError):
        return pairs
    others = [pair for pair in pairs if pair[0] not in ("train_freq", "gradient_steps")]
    return [*others, ("algo.updates_per_env_step", f"{ratio:g}")]
