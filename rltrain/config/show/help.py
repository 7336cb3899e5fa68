"""The text of ``rltrain --help``: groups, choices and keys with the comments of their YAML files.

``rltrain --help`` is an overview, ``rltrain --help WORD …`` describes a group, a choice or a key
in full. Nothing here imports torch.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rltrain.config.catalog import PRESETS, SEVERAL, SHIPPED, Catalog, split_options
from rltrain.config.show.completion import values
from rltrain.config.suggest.choices import for_choice
from rltrain.config.suggest.keys import for_key
from rltrain.errors import UsageError

WIDTH = 100
USUAL = (
    "hardware.threads",
    "hardware.kernels",
    "hardware.n_envs",
    "logger.wandb.mode",
    "algo.batch_size",
    "algo.optimizer.lr",
    "algo.loss.gamma",
    "algo.exploration.env_steps",
    "buffer.capacity",
    "env.map_name",
)
"""Keys of the default choices that the overview shows."""
MAIN = ("algo", "env", "buffer", "hardware")
"""Groups of which the overview has a line for every choice."""
RARE = ("dataset.", "self_play.", "sweep.", "report.", "tune.", "match.", "init.", "hub.")
"""Keys of which the overview shows only the node."""
HEADER = """\
rltrain trains value-based agents: teams (IQL, VDN, QMIX) and single ones (DQN to Rainbow, PQN).

  rltrain algo=NAME env=NAME [key=value …]     train; with -m every combination of algo=A,B seed=1,2
  rltrain mode=evaluate checkpoint=latest      test episodes of a trained run, with a 95% interval
  rltrain resume=latest                        continue the newest run in its folder
  rltrain mode=report runs=outputs             compare runs: curves, tables and report.html
  rltrain mode=match checkpoints='[A, B]'      agents play each other: ratings and match.html
  rltrain --help WORD …                        about a group, choice or key: algo, env=smac, test
  rltrain --cfg job | --version | mode=doctor  the configuration | the version | what is installed
  rltrain mode=list                            every algorithm, environment, logger and preset\
"""
FOOTER = """\
Examples
  rltrain algo=qmix env=smac                            map 3m, eight battles at a time
  rltrain env=cartpole                                  one agent, and dqn, which is for one agent
  rltrain -m algo=vdn,qmix env=smac seed=1,2,3          six runs and a table
  rltrain mode=watch checkpoint=latest                  episodes in the terminal, and their videos
Tab completion: eval "$(rltrain -sc install=bash)\""""


def help_text(overrides: Sequence[str], catalog: Catalog = SHIPPED) -> str:
    """The help for a command: the overview, or the description of each of its words.

    Raises:
        UsageError: a word that is not a group, choice or key.
    """
    words = [word for word in overrides if not word.startswith("hydra")]
    pairs = [word.partition("=") for word in words]
    typed = {name: value for name, equals, value in pairs if equals and name in catalog.groups}
    typed |= {group: name for group, _, name in (file.partition("/") for file in catalog.files)}
    for group, option in typed.items():
        for one in split_options(option) if group in SEVERAL else [option]:
            if one not in catalog.options(group):
                raise UsageError(f"unknown {group} '{one}'.{for_choice(group, one, catalog)}")
    sections = [_about(word, typed, catalog) for word in words] or [_overview(catalog)]
    return "\n\n".join("\n".join(lines) for lines in sections)


def _overview(catalog: Catalog) -> Iterator[str]:
    yield HEADER
    for group in MAIN:
        yield f"\n{group}=NAME, default {_default(group, catalog)}"
        options = catalog.options(group)
        column = max(20, 3 + max(map(len, options)))
        yield from (_row(option, catalog.about(group, option), column) for option in options)
    others = [g for g in catalog.groups if "/" not in g and g not in (*MAIN, "experiment")]
    yield f"\nParts, chosen with a slash: algo/network=mlp; other groups: {', '.join(others)}"
    for part in (group for group in catalog.groups if "/" in group):
        yield from _wrapped(part, ", ".join(catalog.options(part)), 20)
    yield "\nPresets, which choose algo and env: experiment=NAME"
    yield from _presets(catalog)
    yield "\nKeys and their defaults; those of a choice: rltrain --help algo=dqn env=cartpole"
    keys = catalog.keys({})
    shown = [*catalog.root.keys, *(path for path in keys if path.startswith(USUAL))]
    for path in shown:
        if path == "mode":
            yield from _wrapped(f"mode={keys[path].value}", keys[path].meaning.split(";")[0], 36)
        elif not path.startswith(RARE):
            yield _row(f"{path}={keys[path].value}", keys[path].meaning, 36)
    rest = " ".join(f"{node}…" for node in RARE)
    yield f"  {rest}   keys: rltrain --help {RARE[0].rstrip('.')}"
    yield f"\n{FOOTER}"


def _default(group: str, catalog: Catalog) -> str:
    """Return the default choice of a group; environments choose their algorithm."""
    default = catalog.choices({}).get(group, "that of algo").replace("None", "null")
    if group != "algo":
        return default
    others = sorted({a for env in catalog.options("env") if (a := catalog.env_algo(env))})
    return f"{default}; {', '.join(others)} where env has one agent" if others else default


def _presets(catalog: Catalog) -> Iterator[str]:
    folders: dict[str, list[str]] = {}
    for option in catalog.options("experiment"):
        folder, _, name = option.rpartition("/")
        folders.setdefault(folder, []).append(name)
    for folder, names in folders.items():
        if folder:
            yield from _wrapped(f"{folder}/…", ", ".join(names), 20)
        else:
            yield from (_row(name, catalog.about("experiment", name), 20) for name in names)


def _about(word: str, typed: Mapping[str, str], catalog: Catalog) -> Iterator[str]:
    """Everything about one word."""
    name, _, value = word.lstrip("+~-").partition("=")
    if name in typed:
        yield from _choice(name, typed[name], typed, catalog)
    elif name in catalog.groups:
        yield from _group(name, catalog)
    else:
        yield from _keys(name, value, typed, catalog)


def _group(group: str, catalog: Catalog) -> Iterator[str]:
    yield f"{group}=NAME, default {_default(group, catalog)}"
    for option in catalog.options(group):
        file = catalog.file(group, option)
        yield from _wrapped(option, " ".join(file.about) if file else "", 26)
    parts = [part for part in catalog.groups if part.startswith(f"{group}/")]
    if parts:
        yield f"\nParts of {group}, chosen with a slash: {parts[0]}=NAME"
    for part in parts:
        yield from _wrapped(part, ", ".join(catalog.options(part)), 26)
    if group not in PRESETS:
        yield f"\nKeys of a choice: rltrain --help {group}={catalog.options(group)[0]}"
    own = {p: key for p, key in catalog.root.keys.items() if p.startswith(f"{group}.")}
    if own:
        yield f"\nOther keys of {group}:"
    for path, key in own.items():
        yield from _wrapped(f"{path}={key.value}", key.meaning, 40)


def _choice(group: str, option: str, typed: Mapping[str, str], catalog: Catalog) -> Iterator[str]:
    yield f"{group}={option}"
    file = catalog.file(group, option)
    yield from textwrap.wrap(" ".join(file.about) if file else "", WIDTH)
    if group == "experiment":
        chosen = catalog.choices({group: option})
        yield f"It chooses algo={chosen['algo']} env={chosen['env']} and sets"
    if group in PRESETS:
        yield from _preset(group, option, catalog)
        return
    for path, key in catalog.keys(typed, group).items():
        if path.startswith(f"{group.replace('/', '.')}."):
            yield from _wrapped(f"{path}={key.value}", key.meaning, 40)


def _preset(group: str, option: str, catalog: Catalog) -> Iterator[str]:
    """The keys that a preset sets, with their meaning and the preset's reason, if it has one."""
    of_name = dict(zip(("algo", "env"), option.split("-"), strict=False))
    first = catalog.keys({group: option, **(of_name if "env" in of_name else {})})
    for path, key in catalog.own_keys(group, option).items():
        meaning = first[path].meaning
        reason = f"; here: {key.meaning}" if key.meaning not in ("", meaning) else ""
        yield from _wrapped(f"{path}={key.value}", meaning + reason, 40)


def _keys(name: str, value: str, typed: Mapping[str, str], catalog: Catalog) -> Iterator[str]:
    """A key, or the keys below a node."""
    here = catalog.keys(typed)
    described = {p: key for p, key in here.items() if p == name or p.startswith(f"{name}.")}
    described = described or {p: key for p, key in here.items() if p.endswith(f".{name}")}
    for path, homes in catalog.homes.items() if not described else ():
        if path == name or path.startswith(f"{name}."):
            group, _, option = homes[0].partition("=")
            described[path] = catalog.own_keys(group, option)[path]
    home = next((group for group in catalog.groups if name in catalog.options(group)), None)
    if home and not described:
        yield from _choice(home, name, {**typed, home: name}, catalog)
    elif not described:
        known = {path: key.value for path, key in here.items()}
        meant = [for_key(name, value or "VALUE", known, catalog)]
        meant += [for_choice(group, name, catalog) for group in ("algo", "env")]
        best = min(meant, key=lambda answer: (not answer.typed, not answer.sure))
        raise UsageError(f"there is no group, choice or key '{name}'.{best}")
    for path, key in described.items():
        yield from _wrapped(f"{path}={key.value}", key.meaning, 40)
        listed = values(path, here, catalog.choices(typed), catalog)
        if len(listed) > 1 and not key.values and listed != ["true", "false"]:
            yield from _wrapped("", f"one of {', '.join(listed)}", 40)
        homes = catalog.homes.get(path, [])
        if homes and not (path in here and len(homes) > 8):
            yield from _wrapped("", f"(set in {', '.join(homes)})", 40)


def _row(name: str, text: str, column: int) -> str:
    """One line; of what is too long its first clauses, or its first words and an ellipsis."""
    name = f"  {name} ".ljust(column)
    room = WIDTH - len(name)
    if len(text) > room:
        ends = [m.start() for m in re.finditer(r"[;:,] | \(", text[: room + 1])]
        whole = [text[:end] for end in ends if text.count("(", 0, end) == text.count(")", 0, end)]
        text = next((part for part in reversed(whole) if len(part) > room / 3), text)
    return name + textwrap.shorten(text, room, placeholder=" …")


def _wrapped(name: str, text: str, column: int) -> Iterator[str]:
    """As many lines as a text needs."""
    first, indent = f"  {name} ".ljust(column), " " * column
    if len(first) > column:
        yield first.rstrip()
        first = indent
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=indent)
    yield from lines or [first.rstrip()]
