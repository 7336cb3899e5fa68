"""A command that is typed as flags or in another library's way, as overrides that can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rltrain.config.catalog import Catalog, Tree
from rltrain.config.suggest.aliases import EVALUATE
from rltrain.config.suggest.choices import for_choice
from rltrain.config.suggest.keys import for_key
from rltrain.config.suggest.value_forms import quoted

FLAGS = {
    "config": "algo",
    "env_config": "env",
    "env_id": "env",
    "run": "algo",
    "n": "total_env_steps",
    "s": "seed",
    "a": "algo",
    "e": "env",
}
"""Flags of PyMARL, RLlib and rl-baselines3-zoo whose names are no keys of theirs."""
MODES = ("list", "report", "tune", "watch", "export", "import", "push")
"""Modes of rltrain's that are typed as a word or a flag."""
COMMANDS = {
    **dict.fromkeys(("train", "learn", "run", "fit"), ""),
    **dict.fromkeys(("evaluate", "eval", "test", "enjoy", "play"), EVALUATE),
    **dict.fromkeys(("doctor", "check", "info"), "mode=doctor"),
    **dict.fromkeys(("sweep", "multirun"), "-m"),
    **dict.fromkeys(("help", "usage"), "--help"),
    **{mode: f"mode={mode}" for mode in MODES},
    "resume": "resume=latest",
    "version": "--version",
}
"""Words that other programs have for what is a mode or a flag here."""
SILENT = ("with", "rltrain", "python", "python3")


@dataclass
class Translation:
    """The overrides of a command and what has none."""

    overrides: dict[str, str] = field(default_factory=dict)  # by key, as they are pasted
    left_out: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add pasteable overrides; a path that was typed stays where ``latest`` is proposed."""
        for override in shlex.split(text):
            key, _, value = override.partition("=")
            if value != "latest" or key not in self.overrides:
                self.overrides[key] = quoted(override)

    def __str__(self) -> str:
        """The command, algorithm and environment first."""
        first = ("--help", "-m", "--multirun", "mode", "algo", "env")
        keys = sorted(self.overrides, key=lambda k: first.index(k) if k in first else len(first))
        return " ".join(["rltrain", *(self.overrides[key] for key in keys)])


def command_problem(arguments: Sequence[str], catalog: Catalog) -> str:
    """Return the message about words that are neither ``key=value`` nor a flag of rltrain's."""
    done = translated(arguments, catalog)
    wrong = [word for word in arguments if word.startswith("-") or "=" not in word]
    first = next(word for word in wrong if word not in ("-m", "--multirun"))
    text = f"{first}: expected key=value, -m for a sweep, or --help."
    if done.overrides or not done.left_out:
        text += f" Type\n  {done}"
        text += f"\nLeft out: {'; '.join(done.left_out)}." if done.left_out else ""
    return text


def translated(arguments: Sequence[str], catalog: Catalog) -> Translation:
    """Overrides for what was typed, as far as there are any."""
    pairs = list(_pairs(arguments))
    done = Translation()
    for _ in range(2):  # the second time with the keys of the choices found in the first
        chosen = [(k, v.partition("=")[2]) for k, v in done.overrides.items()]
        known = catalog.known({k: v for k, v in chosen if v in catalog.options(k)})
        evaluates = "mode" in done.overrides
        if "total_env_steps" in done.overrides:
            known["total_env_steps"] = done.overrides["total_env_steps"].partition("=")[2]
        done = Translation()
        for name, value in pairs:
            if name:
                _setting(name, value, known, catalog, done, evaluates)
            else:
                _word(value, catalog, done)
    return done


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of flags and ``key=value``; words without a name have the empty one."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        follows = bool(words) and not words[0].startswith("-") and "=" not in words[0]
        if word in ("-m", "--multirun"):
            yield "", "sweep"
        elif word.startswith("-"):
            name = FLAGS.get(name.replace("-", "_"), name.replace("-", "_"))
            if not equals and name in MODES:
                yield "", name
            elif not equals and name.startswith("no_"):
                yield name.removeprefix("no_"), "false"
            else:
                yield name, value if equals else words.pop(0) if follows else "true"
        elif words[:1] == ["="] and len(words) > 1:
            yield word, words[1]
            words = words[2:]
        elif equals:
            yield name, value if value or not follows else words.pop(0)
        else:
            yield "", word


def _setting(
    name: str, value: str, known: Tree, catalog: Catalog, done: Translation, evaluates: bool
) -> None:
    """One name with its value."""
    if name in catalog.groups:
        meant = [_choice(name, option, catalog, done) for option in value.split(",")]
        if len(meant) > 1 and all(text.startswith(f"{name}=") for text in meant):
            meant = [f"{name}={','.join(text.partition('=')[2] for text in meant)}"]
        done.add(" ".join(meant))
        return
    if name in known or name.startswith("+"):
        done.add(quoted(f"{name}={value}"))
        return
    answer = for_key(name, value, known, catalog)
    typed = answer.typed[0] if answer.typed else ""
    if typed.startswith(EVALUATE) and typed != EVALUATE and not evaluates:
        done.left_out.append(f"{name} (type rltrain {typed} afterward)")
    elif answer.sure and typed:
        done.add(typed)
    elif answer.why:
        done.left_out.append(f"{name} ({answer.why[:1].lower()}{answer.why[1:]})")
    else:
        done.left_out.append(f"{name}={value}")


def _choice(group: str, option: str, catalog: Catalog, done: Translation) -> str:
    """``group=option``, or what to type where there is no such choice, or nothing."""
    if option in catalog.options(group):
        return f"{group}={option}"
    answer = for_choice(group, option, catalog)
    if answer.why or not answer.typed:
        done.left_out.append(f"{option} ({answer.why})" if answer.why else f"{group}={option}")
    return answer.typed[0] if answer.typed else ""


def is_there(word: str) -> bool:
    """Whether a word is the path of something."""
    with suppress(OSError):  # too long for a path
        return Path(word).exists()
    return False


def _word(word: str, catalog: Catalog, done: Translation) -> None:
    """A word without a name: a command, a choice, a path."""
    if word in SILENT or word.endswith(".py"):
        return
    if word.lower() in COMMANDS:
        if COMMANDS[word.lower()]:
            done.add(COMMANDS[word.lower()])
        return
    if word in catalog.groups:
        if "--help" in done.overrides:
            done.add(word)
        return
    if "/" in word or is_there(word):
        done.add(quoted(f"{'resume' if 'resume' in done.overrides else 'checkpoint'}={word}"))
        return
    for group in ("algo", "env"):
        answer = for_choice(group, word, catalog)
        if word in catalog.options(group) or (answer.typed and answer.sure):
            done.add(_choice(group, word, catalog, done))
            return
    done.left_out.append(word)
