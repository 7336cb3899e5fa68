"""mode=list: algorithms, environments, loggers and presets, read from the YAML files.

Neither hydra nor torch is imported: the answer takes half a second.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from rltrain.common.machine.install import install_extra, is_installed, requirements
from rltrain.common.machine.streams import say
from rltrain.config.catalog import Catalog
from rltrain.errors import UsageError

GROUPS = {"algo": "Algorithms", "env": "Environments", "logger": "Loggers", "experiment": "Presets"}
NEEDS = re.compile(r"Needs the package ([\w.-]+)")
"""Matches the comment of a file that needs more than rltrain installs by itself."""

PAPER = re.compile(r" \([^()]*\d{4}\w?\)$")


@dataclass(frozen=True)
class Line:
    """One choice: its name, what it is and whose paper it is from, and the extra that it needs."""

    name: str
    about: str
    extra: str | None = None
    installed: bool = True

    @property
    def needs(self) -> str:
        """``extra marl``, with a remark if it is not installed."""
        remark = "" if self.installed else ", not installed"
        return f"extra {self.extra}{remark}" if self.extra else ""


def lines(group: str, catalog: Catalog) -> Iterator[Line]:
    """The choices of a group."""
    extras = {Requirement(needed).name: extra for needed, extra in requirements() if extra != "dev"}
    for option in catalog.options(group):
        file = catalog.file(group, option)
        needs = NEEDS.search(" ".join(file.about)) if file else None
        about = catalog.about(group, option).rstrip(".")
        if needs is None:
            yield Line(option, about)
        else:
            yield Line(option, about, extras.get(needs[1]), is_installed(needs[1]))


def listing(catalog: Catalog, width: int) -> str:
    """All groups, a line per choice, and what installs the extras that are missing."""
    sections, missing = [], set()
    for group, title in GROUPS.items():
        choices = list(lines(group, catalog))
        column = 2 + max(len(line.name) for line in choices)
        last = max(len(line.needs) for line in choices)
        rows = []
        for line in choices:
            room = max(30, width - column - 2 - (last + 2 if last else 0))
            about = shortened(line.about, room)
            rows.append(f"  {line.name:{column}}{about:{room}}  {line.needs}".rstrip())
            missing |= set() if line.installed or line.extra is None else {line.extra}
        sections.append("\n".join([f"{title}: {group}=NAME", *rows]))
    installs = [f"  {extra}: {install_extra(extra)}" for extra in sorted(missing)]
    sections += ["\n".join(["Extras that are not installed", *installs])] if installs else []
    sections.append("More about one: rltrain --help algo=qmix")
    return "\n\n".join(sections)


def shortened(about: str, room: int) -> str:
    """A description that fits, with its paper, ``(Author et al., 2018)``, if it ends with one."""
    paper = PAPER.search(about)
    end = paper[0] if paper else ""
    rest = textwrap.shorten(about.removesuffix(end), room - len(end), placeholder=" …")
    return rest + end


def show(others: Sequence[str], catalog: Catalog) -> None:
    """Print what there is; UsageError for ``others``, further overrides, unless they
    are the user's own folders.
    """
    unused = [override for override in others if not override.startswith("hydra.searchpath=")]
    if unused:
        raise UsageError(
            f"mode=list lists everything: leave out {', '.join(unused)}. About one group or choice "
            "rltrain --help algo, rltrain --help env=smac."
        )
    say(listing(catalog, shutil.get_terminal_size((120, 24)).columns))
