"""The model card of a finished run: ``README.md`` with its curve, its tests and commands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence, Set
from pathlib import Path
from urllib.parse import quote

import yaml

from rltrain.common.files import PAGES, JsonObject, json_object, newest
from rltrain.common.json_text import is_number
from rltrain.common.number_types import MOST_COUNTED
from rltrain.config.overrides import leaves
from rltrain.config.schema import Settings
from rltrain.config.show.configuration import deviations
from rltrain.config.validate.constructor import show
from rltrain.config.validate.mode_keys import ONLY_IN
from rltrain.errors import UsageError, printable
from rltrain.logger.screen import duration, shown

VIDEOS = "recordings/*/*.gif"
"""Videos in a run's folder."""
COLUMNS = {
    "env_steps": ("env steps", ","),
    "test/return_mean": ("return", ",.2f"),
    "test/return_std": ("std", ",.2f"),
    "test/win_rate": ("win rate", ".1%"),
    "test/episode_length_mean": ("episode length", ",.1f"),
}
"""Columns of the table of tests, where a test has them."""


LEFT_OUT = ("choices", "mode", "resume", "load_step", "trust", "record", *ONLY_IN)
"""Of ``config.json``, keys that say nothing about the run."""


def card(
    run_dir: Path,
    settings: Settings,
    facts: JsonObject,
    commands: Sequence[str],
    trust: str | None = None,
    address: str | None = None,
) -> str:
    """The text of the card, with the metadata that model hubs read at its top.

    Args:
        facts: of ``run.json``.
        commands: what can be typed next.
        trust: as of ``to_trust``.
        address: where else the run is, as ``checkpoint=`` takes it.
    """
    about = {
        "library_name": "rltrain",
        "tags": ["reinforcement-learning", settings.choices["algo"], settings.choices["env"]],
    }
    steps, seconds = facts["env_steps"], duration(facts["seconds"])
    of = f", commit `{facts['git_commit'][:10]}`" if facts.get("git_commit") else ""
    of += " and changes" if of and facts.get("git_dirty") else ""
    parts = [
        f"---\n{yaml.safe_dump(about, sort_keys=False)}---",
        f"# {plain(settings.title)}",
        f"Trained for {steps:,} env steps ({facts['updates']:,} updates) in {seconds} with rltrain "
        f"{facts['version']}{of}.",
    ]
    if (run_dir / "learning_curve.png").exists():
        parts.append("![Learning curve](learning_curve.png)")
    parts += [table(facts)] if facts["final_test"] else []
    for video in newest(run_dir, VIDEOS):
        parts.append(f"![{plain(video.stem)}]({quote(os.fsencode(video))})")
    for page in newest(run_dir, PAGES):
        parts.append(f"[Episodes to look into]({quote(os.fsencode(page))})")
    record = json_object(run_dir / "config.json") or settings.record
    if changed := differences(record, settings.typed):
        parts.append(
            "Settings that differ from those of the chosen algorithm and environment "
            "(`config.json` has all):\n\n" + "\n".join(f"* {code(each)}" for each in changed)
        )
    path = address or shown(run_dir)
    typed_next = [command for command in commands if command.startswith(("rltrain ", "torchrun "))]
    own = trust.split(",") if trust and trust != "__main__" else []
    if address is None and trust != "__main__":
        starter = next((c.partition("rltrain ")[0] for c in typed_next if c[0] == "t"), "")
        trusted = f" trust=[{trust}]" if own else ""
        typed_next.append(
            f"{starter}rltrain config={shlex.quote(path)} seed={settings.run.seed + 1}{trusted}"
        )
    if any((run_dir / "wandb").glob("offline-run-*")):
        typed_next.append(f"wandb sync {shlex.quote(path)}/wandb/offline-run-*")
    parts += [code("\n".join(["bash", *typed_next, ""]), 3)] if typed_next else []
    load = f"rltrain.load_policy({path!r}{f', trust={own}' if own else ''})"
    python = ["import rltrain", "", f"policy = {load}  # greedy"]
    python += [command for command in commands if command.startswith("rltrain.")]
    parts.append(code("\n".join(["python", *python, ""]), 3))
    return printable("\n\n".join(parts) + "\n")


def plain(text: str) -> str:
    """Text in Markdown that has no markup."""
    escaped = re.sub(r"[][\\`*<>&!|~$:#]|(?<![^\W_])_|_(?![^\W_])|(?<=www)\.", r"\\\g<0>", text)
    return " ".join(escaped.split())


def code(text: str, ticks: int = 1) -> str:
    """Text between so many backticks, or as many as it takes to have none in it that end it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    marks, space = "`" * max(ticks, longest + 1), " " * (ticks == 1 and longest > 0)
    return marks + space + text + space + marks


def differences(record: JsonObject, typed: Set[str]) -> list[str]:
    """The choices that differ from those of the algorithm and the environment, then the values that
    differ from those of all choices; if these cannot be composed, the values that were ``typed``.

    Args:
        record: ``config.json``, which anyone may have written.
    """
    try:
        choices, changed = deviations(record, ("algo", "env", "experiment"), ("tune",))
    except (UsageError, AttributeError, KeyError):
        choices, changed = {}, {k: v for k, v in leaves(record) if ".".join(k) in typed}
    values = {".".join(names): value for names, value in sorted(changed.items())}
    lines = [f"{g}={name}" for g, name in choices.items() if g not in ("algo", "env")]
    lines += [f"{k}={show(v)}" for k, v in values.items() if k.partition(".")[0] not in LEFT_OUT]
    return [" ".join(printable(line).splitlines()) for line in lines]


def describes_run(facts: JsonObject) -> bool:
    """Whether ``run.json``, which anyone may have written, has what a card tells of it."""
    numbers = [facts.get(name) for name in ("env_steps", "updates", "seconds")]
    counted = all(is_number(n) and 0 <= n <= MOST_COUNTED for n in numbers)
    names = facts.get("version"), facts.get("git_commit") or "none"
    return (
        counted
        and type(numbers[0]) is type(numbers[1]) is int
        and all(isinstance(name, str) and re.fullmatch(r"[\w.+-]{1,80}", name) for name in names)
    )


def table(facts: JsonObject) -> str:
    """The last and the best test."""
    tests = {"last": facts["final_test"], "best": facts["best_test"] or {}}
    names = [name for name in COLUMNS if name in tests["last"]]
    lines = [
        "| test | " + " | ".join(COLUMNS[name][0] for name in names) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for which, test in tests.items():
        if test:
            cells = [format(test[n], COLUMNS[n][1]) if n in test else "" for n in names]
            lines.append(f"| {which} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
