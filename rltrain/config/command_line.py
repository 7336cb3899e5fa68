"""A command line: flags, and the overrides between them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltrain.errors import UsageError

SWITCHES = {
    "-m": "multirun",
    "--multirun": "multirun",
    "-h": "help",
    "--help": "help",
    "--version": "version",
    "--resolve": "resolve",
    "-sc": "completion",
    "--shell-completion": "completion",
    "--hydra-help": "hydra",
    "-i": "hydra",
    "--info": "hydra",
}
"""Flags without a value (Hydra reads what follows ``--info`` itself)."""
VALUED = {
    "-c": "cfg",
    "--cfg": "cfg",
    "-p": "package",
    "--package": "package",
    "-cd": "config_dir",
    "--config-dir": "config_dir",
}
"""Flags with a value, ``--cfg job`` or ``--cfg=job``."""
PROGRAM = re.compile(r"python[\d.]*|(?!.*=).*\.(py|sh)|rllib|rl_zoo3|poetry|uv|bash")
"""The first word of a command of another program, whose flags are not ours."""

MOST_JOBS = 10_000
"""Runs of a sweep."""
STRANGE = re.compile(r"-|(?!~)[^=]*\Z|[^=]*=dict\(|(policy_kwargs|env_args|\w*config)=\{")
"""An argument that is neither ``key=value`` nor ``~key``: a flag, a word, a call of Python's."""

NO_TEXT = re.compile(
    r"[+-]?(\d[\d_]*(\.[\d_]*)?|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)|true|false", re.IGNORECASE
)
"""Names of options that are values in Hydra's grammar."""
BARE = re.compile(r"[\w./:+@%*?-]+", re.ASCII)
"""Texts that need no quotes in Hydra's grammar, unless they are other values there."""
OBJECTS = ("env", "callbacks")
"""Keys that have arguments of their name for objects."""
TYPED: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full width
TYPED |= dict.fromkeys(map(ord, "–—−"), "-") | {0xA0: " "}
"""ASCII characters for those of other keyboards and of text editors."""


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line: switches, the values of other flags, overrides."""

    switches: frozenset[str]
    values: dict[str, str]
    overrides: tuple[str, ...]

    @property
    def asks(self) -> str | None:
        """The question that is asked instead of a run; ``hydra`` where Hydra itself answers."""
        scripts = any(
            override.startswith(("install=", "uninstall=")) for override in self.overrides
        )
        about_hydra = self.values.get("cfg") in ("hydra", "all")
        if about_hydra or ("completion" in self.switches and scripts):
            return "hydra"
        questions = (*self.switches, *self.values)
        kinds = ("hydra", "version", "help", "completion", "cfg", "package", "resolve")
        asked = next((kind for kind in kinds if kind in questions), None)
        return "cfg" if asked in ("package", "resolve") else asked

    @property
    def own(self) -> list[str]:
        """Overrides that name the user's own configuration."""
        return [
            override
            for override in self.overrides
            if override.startswith("hydra.searchpath=")
            or (override.startswith("experiment=") and override.endswith((".yaml", ".yml")))
        ]


def read(arguments: Sequence[str]) -> CommandLine:
    """Sort a command line into flags and overrides.

    Raises:
        UsageError: a value that a flag does not have.
    """
    if arguments and PROGRAM.fullmatch(arguments[0]):
        return CommandLine(frozenset(), {}, tuple(arguments))
    switches, values, others = set(), {}, []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in SWITCHES:
            if equals:
                raise UsageError(
                    f"{argument}: {name} takes no value. Type {name}, or leave it out."
                )
            switches.add(SWITCHES[name])
        elif name in VALUED:
            value = value if equals else next(rest, "")
            if VALUED[name] == "config_dir":  # Hydra's own key for it, which composes everywhere
                others.append(f"hydra.searchpath=[{literal(value)}]")
            else:
                values[VALUED[name]] = value
        else:
            others.append(argument)
    if values.get("cfg", "job") not in ("job", "hydra", "all"):
        raise UsageError(f"--cfg={values['cfg']}: expected job, hydra or all. Type --cfg=job.")
    return CommandLine(frozenset(switches), values, tuple(others))


def literal(text: str) -> str:
    """A text as Hydra's grammar takes it: bare, or in quotes, where backslashes count only before
    quotes.
    """
    if BARE.fullmatch(text) and not NO_TEXT.fullmatch(text) and text.lower() != "null":
        return text
    escaped = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text).replace("'", "\\'")
    return f"'{escaped}'"


def typed(value: object, key: str) -> str:
    """A value in Hydra's grammar.

    Raises:
        UsageError: a value that no configuration can hold.
    """
    import numpy as np  # a refusal needs none

    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return literal(str(value) if isinstance(value, str) else os.fsdecode(value))
    if isinstance(value, Mapping):
        # Hydra has no quotes for keys
        keys = [re.sub(r"[\\()\[\]{}:=,]", r"\\\g<0>", str(k)) for k in value]
        values = [typed(each, f"{key}.{k}") for k, each in value.items()]
        return "{" + ", ".join(map(": ".join, zip(keys, values, strict=True))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(typed(each, key) for each in value) + "]"
    if key in OBJECTS:
        raise UsageError(
            f"{key}={value!r}: a configuration holds no objects. Leave it out, and pass it as the "
            f"argument {key}=… of the function that is called."
        )
    if isinstance(value, type):
        key = key.removesuffix("._target_")
        raise UsageError(
            f"{key}={value.__name__}: a configuration names classes. Give it as "
            f"'{key}._target_': '{value.__module__}.{value.__qualname__}'."
        )
    raise UsageError(
        f"{key}={value!r}: expected a number, text, true or false, None, or lists and mappings of "
        f"them, got {type(value).__name__}."
    )


def intended(text: str) -> list[str]:
    """The arguments that one may have been meant as: ``seed=(1,2)`` with the brackets of a list,
    ``algo==dqn``, ``lr=0.1; gamma=0.9`` as two, the dashes and quotes of a text editor, and
    ``{"row:Row": 1}`` as Hydra writes keys.
    """
    text = re.sub(r"[“‘„]([^“”‘’]*)[”’]", r"\1", text).translate(TYPED).strip(" ,;")
    text = re.sub(r"\s*:?=[=>\s]*", "=", text, count=1)
    keys = r"(?<=[{,])(?:[^{},[\]:]|:(?! ))*(?=: )"
    text = re.sub(keys, lambda k: re.sub(r"(?<!\\)[:=]", r"\\\g<0>", k[0].replace('"', "")), text)
    key, _, value = text.partition("=")
    if re.fullmatch(r"[\w./-]+=(?!\{\})[({\[][^:='\"]*", text):
        value = re.sub(r",\s*]", "]", value.translate(str.maketrans("({)}", "[[]]")))
        return [f"{key}={value}{']' * (value.count('[') - value.count(']'))}"]
    return [text] if re.search(r"[\[{(]", text) else re.split(r"[,;&\s]+(?=[a-z][\w./]*=)", text)


def shell_word(text: str) -> str:
    """An override as a shell takes it: with double quotes around a value with single ones."""
    if re.fullmatch(r"[\w@%+=:,./~-]+", text):
        return text
    if pair := re.fullmatch(r"""([\w./+@-]+=)([^"$`\\!]*'[^"$`\\!]*)""", text):
        return f'{pair[1]}"{pair[2]}"'
    return shlex.quote(text)


def as_text(choice: str) -> str:
    """``group=option`` with an option that Hydra treats as text: ``5`` and ``true`` quoted."""
    group, _, option = choice.partition("=")
    return f"{group}='{option}'" if NO_TEXT.fullmatch(option) else choice
