"""Results of a match: tables for the terminal, and a page."""

from __future__ import annotations

import html
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import numpy as np

from rltrain.common.checkpoint.opponent_files import BUILTIN
from rltrain.common.files import JsonObject, open_plain
from rltrain.common.machine.places import require_path
from rltrain.common.metrics import wilson
from rltrain.errors import UsageError, did_you_mean
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.report import rich_table
from rltrain.report.page import put_page, section
from rltrain.report.ratings import ORDERS, PRIOR, K, Ratings
from rltrain.report.report_tables import Table
from rltrain.report.statistics import Interval

PAGE = "match.html"
EMBEDDED = 1 << 25
"""Bytes of videos that a page contains; it links the others."""


@dataclass(frozen=True)
class Match:
    """A finished match.

    Attributes:
        title: the environment and the number of agents.
        names: of the agents, as in the arrays [N] of ``ratings``.
        pairings: as in ``match.json``: agents, and by side wins, draws and losses.
        typed: the names by what the match was asked for, ``demo/3m``.
        chosen: remarks on the checkpoints and on typed keys, which were logged before it.
    """

    folder: Path
    title: str
    names: tuple[str, ...]
    pairings: Sequence[JsonObject]
    ratings: Ratings
    typed: Mapping[str, str] = field(default_factory=dict)
    chosen: Sequence[str] = ()

    @property
    def sides(self) -> list[JsonObject]:
        """The battles of each pairing and side."""
        return [one for each in self.pairings for one in each["sides"]]

    def counts(
        self, name: str | os.PathLike[str], enemy: str | os.PathLike[str] | None = None
    ) -> tuple[int, int, int]:
        """Wins, draws and losses of an agent, against one other or against all; each by its name,
        or as the match was asked for it.

        Raises:
            UsageError: an agent that is not in the match, or the same one twice.
        """
        one, other = self._name(name), None if enemy is None else self._name(enemy)
        if one == other:
            raise UsageError(f"counts: {one} does not play itself. Expected two agents, or one.")
        return counted(self.sides, one, other)

    def _name(self, agent: str | os.PathLike[str]) -> str:
        text = require_path(agent, "counts")
        name = self.typed.get(text, text)
        if name not in self.names:
            raise UsageError(
                f"counts: '{text}' is not in this match: expected one of {', '.join(self.names)}."
                f"{did_you_mean(text, self.names)}"
            )
        return name


def counted(
    sides: Iterable[JsonObject], name: str, enemy: str | None = None
) -> tuple[int, int, int]:
    """Wins, draws and losses of an agent in battles, against one other or against all."""
    won, drawn, lost = 0, 0, 0
    for one in sides:
        players, results = (one["agents"], one["enemies"]), (one["wins"], one["losses"])
        if name in players and enemy in (None, *players):
            gain, loss = results if name == players[0] else results[::-1]
            won, drawn, lost = won + gain, drawn + one["draws"], lost + loss
    return won, drawn, lost


def as_json(rated: Ratings, names: Sequence[str]) -> JsonObject:
    """Ratings by agent with their intervals, and what they cannot say."""
    kinds = {"bradley_terry": rated.bradley_terry, "elo": rated.elo}
    by_name = {kind: np.array(found).T.tolist() for kind, found in kinds.items()}
    return {
        **{kind: dict(zip(names, rows, strict=True)) for kind, rows in by_name.items()},
        "cyclic": None if rated.cyclic is None else [float(bound) for bound in rated.cyclic],
        "held_back": rated.held_back,
        "held_back_noise": rated.held_back_noise,
    }


def match_tables(match: Match, *, wide: bool) -> list[Table]:
    """Ratings, the win matrix (if ``wide`` with intervals), and the battles of each side."""
    rated, ranked = match.ratings, match.ratings.bradley_terry.value.argsort()[::-1].tolist()
    names = [match.names[i] for i in ranked]
    ratings = Table(
        "ratings",
        "Ratings",
        ("agent", "Bradley-Terry", "Elo", "wins", "draws", "losses"),
        [
            (name, rounded(rated.bradley_terry, i), rounded(rated.elo, i), *match.counts(name))
            for i, name in zip(ranked, names, strict=True)
        ],
        "400 points mean ten wins for one loss; the mean of all agents is 0. 95% intervals of "
        "as many battles simulated between agents of the Bradley-Terry ratings. "
        f"A draw is half a win. Bradley-Terry: with {PRIOR:g} wins and losses "
        f"against an agent of rating 0. Elo: K = {K:g}, mean of {ORDERS} random orders.",
    )
    wins = Table(
        "wins",
        "Win rate of rows against columns",
        ("agent", *map(str, range(1, len(names) + 1))),
        [
            (f"{i} {name}", *(win_rate(match, name, enemy, wide) for enemy in names))
            for i, name in enumerate(names, 1)
        ],
        "Columns are numbered as the rows are. With 95% intervals (Wilson). A battle that neither "
        "side won is a draw, not a win.",
    )
    columns = ("agents", "enemies", "wins", "draws", "losses")
    battles = Table(
        "battles",
        "Battles by side",
        columns,
        [[one[column] for column in columns] for one in match.sides],
        f"The battles of a pairing begin alike on both sides. {BUILTIN} plays the enemies only.",
    )
    return [ratings, wins, battles]


def rounded(rating: Interval, i: int) -> str:
    """``92 [35, 162]``."""
    value, low, high = (round(float(bound[i])) for bound in rating)
    return f"{value} [{low}, {high}]"


def win_rate(match: Match, name: str, enemy: str, wide: bool) -> str:
    """``65%``, if ``wide`` with its interval, ``65% [58, 71]``."""
    if name == enemy:
        return ""
    counts = match.counts(name, enemy)
    low, high = wilson(counts[0], sum(counts))
    interval = f" [{100 * low:.0f}, {100 * high:.0f}]" if wide else ""
    return f"{counts[0] / sum(counts):.0%}{interval}"


def remarks(match: Match) -> Iterator[str]:
    """Properties of a match that its ratings do not show."""
    rated = match.ratings
    if rated.cyclic is not None:
        value, low, high = (float(bound) for bound in rated.cyclic)
        yield (
            f"{value:.1%} of the triples are cyclic: each of the three beats another one (95% "
            f"interval {low:.1%} … {high:.1%}). No rating shows that."
        )
    if rated.held_back is not None and rated.held_back_noise is not None:
        yield (
            f"Bradley-Terry ratings of all other battles predict the score of a pairing with an "
            f"error of {rated.held_back:.1%} on average; {rated.held_back_noise:.1%} is chance."
        )


def pairing_row(pairing: JsonObject) -> str:
    """A pairing in one line."""
    first, second, sides = pairing["first"], pairing["second"], pairing["sides"]
    won, drawn, lost = counted(sides, first)
    one = f", all with {sides[0]['enemies']} as the enemies" if len(sides) == 1 else ""
    return f"{first} {won:,} : {lost:,} {second}, {plural(drawn, 'draw')}{one}"


def write_page(match: Match) -> None:
    """Write ``match.html``."""
    texts = "".join(f"<p>{html.escape(text)}</p>" for text in (*match.chosen, *remarks(match)))
    tables = "\n".join(map(section, match_tables(match, wide=True)))
    fields = {"mode": "match", "title": html.escape(match.title), "summary": "", "figures": ""}
    fields |= {"warnings": texts, "tables": tables, "episodes": recordings(match)}
    put_page(match.folder / PAGE, fields)


def recordings(match: Match) -> str:
    """The recorded battles: animated images in the page, and links to pages and to the rest."""
    parts, room = [], EMBEDDED
    for side in match.sides:
        text = html.escape(f"{side['agents']} against {side['enemies']}")
        for name in side["files"]:
            if not (match.folder / name).is_file():
                continue  # deleted since
            size = (match.folder / name).stat().st_size if name.endswith(".gif") else 0
            if 0 < size <= room:
                room -= size
                with open_plain(match.folder / name) as file:
                    image = f"data:image/gif;base64,{b64encode(file.read()).decode()}"
                seen = f'<img alt="{text}" src="{image}">'
                parts.append(f"<details><summary>{text}</summary>{seen}</details>")
            elif name.endswith((".gif", ".html")):
                parts.append(f'<p><a href="{quote(name)}">{text}</a></p>')
    return f"<section><h2>Battles</h2>{''.join(parts)}</section>" if parts else ""


def show(match: Match) -> None:
    """Print the ratings, the win matrix and what was written."""
    screen = Screen()
    for table in match_tables(match, wide=False)[:2]:
        screen.print(rich_table(table))
    screen.lines(
        *remarks(match),
        f"Every battle counts in {shown(match.folder / 'match.json')}; "
        f"open {shown(match.folder / PAGE)}.",
    )
