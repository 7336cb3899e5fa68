"""Plays a match: every pairing once, its battles on both sides, each recorded when it is over; what
another command has played is read from ``match.json``, which is untrusted.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from rltrain.common import checkpoint
from rltrain.common.files import (
    JsonObject,
    dated,
    drop_temporary,
    locked,
    put_text,
    require_plain,
)
from rltrain.common.json_text import json_text, read_strictly
from rltrain.common.machine.places import ELSEWHERE, require_no_folders, require_writable
from rltrain.config.overrides import typed_value
from rltrain.errors import CheckpointError, UsageError
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.evaluate import build, played, require_recordings
from rltrain.mode.evaluation_files import results_folder
from rltrain.mode.find_run import chosen_again
from rltrain.mode.match.agents import MatchAgent, open_agents, playing
from rltrain.mode.match.match_results import PAGE, Match, as_json, pairing_row, write_page
from rltrain.mode.messages.warnings import remarks_on_tests, warn
from rltrain.mode.sweep.plan import digest
from rltrain.report.ratings import Results, rate
from rltrain.report.run_data import read_object

log = logging.getLogger("rltrain")
FILE = "match.json"
LARGEST_FILE = 1 << 28
"""Largest one that is read, in bytes."""
Count = Annotated[int, Field(ge=0)]
VIDEO = r"[0-9-]{1,40}/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}"
EPISODES = r"(battle|episodes)-[0-9]{1,18}\.html"
Recording = Annotated[str, Field(pattern=f"^recordings/({VIDEO}|{EPISODES})$")]
"""The path of a file, within the folder of the match."""


@dataclass(frozen=True)
class SavedSide:
    """The battles of a pairing on one side."""

    agents: str
    enemies: str
    wins: Count
    draws: Count
    losses: Count
    files: tuple[Recording, ...]


@dataclass(frozen=True)
class SavedPairing:
    """The battles of two agents."""

    first: str
    second: str
    sides: tuple[SavedSide, ...]


@chosen_again
def match(
    typed: Sequence[str], number: int, overrides: Sequence[str], *, loud: bool = True
) -> Match:
    """Play a match that was ``requested``, or the rest of one that the same request has started.

    Raises:
        CheckpointError: a checkpoint that is not there or cannot be trusted.
        UsageError: agents that cannot play each other; before anything is played.
    """
    agents = open_agents(typed, overrides)
    about, chosen = require_able(agents, number)
    request: JsonObject = {
        "agents": {agent.name: identity(agent) for agent in agents},
        "battles": number,
        "overrides": sorted(overrides),
        "seed": typed_value(overrides, "seed") or 0,
        "environment": about,
    }
    every = list(itertools.combinations(agents, 2))
    record: JsonObject = {"request": request}
    place = dated("match").parent
    require_writable(place, advice=ELSEWHERE)
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):  # of two equal commands at once the later one finds the other's match
        folder = begun(request) or results_folder("match")
        require_writable(folder, advice=ELSEWHERE)
        if not (folder / FILE).exists():
            put_text(folder / FILE, json_text(record | {"pairings": []}))
    require_no_folders(folder, PAGE)
    screen, pairings = Screen(quiet=not loud), read_pairings(folder / FILE, every, number)
    screen.lines(
        f"Match {shown(folder)}: {plural(len(every), 'pairing')} of {number:,} battles"
        + (f", {len(pairings):,} of them done." if pairings else ".")
    )

    def refuse(_: str) -> None:
        raise UsageError(f"Another process plays this match, in {folder}. Wait for it.")

    with locked(folder, refuse):
        drop_temporary(folder, FILE)
        record["pairings"] = pairings = read_pairings(folder / FILE, every, number)
        with TemporaryDirectory(prefix=".tmp-", dir=folder) as copies:
            kept = [agent.copied(Path(copies)) for agent in agents]
            for first, second in [*itertools.combinations(kept, 2)][len(pairings) :]:
                pairings.append(pairing(first, second, number, folder))
                screen.lines(pairing_row(pairings[-1]))
                put_text(folder / FILE, json_text(record))
    names = tuple(agent.name for agent in agents)
    found = rate(results(names, pairings), len(names), np.random.default_rng(0))
    by_typed = dict(zip(typed, names, strict=True))
    done = Match(folder, title(agents), names, pairings, found, by_typed, chosen)
    put_text(folder / FILE, json_text(record | {"ratings": as_json(found, names)}))
    write_page(done)
    return done


def title(agents: Sequence[MatchAgent]) -> str:
    """``smac 3m: match of 4 agents``."""
    settings = next(agent.settings for agent in agents if agent.settings is not None)
    scenario = settings.title.partition(" on ")[2].partition(",")[0]
    return f"{scenario}: match of {len(agents)} agents"


def require_able(agents: Sequence[MatchAgent], battles: int) -> tuple[JsonObject, list[str]]:
    """Build every agent once on each side; returns what the environment says of itself, and
    ``remarks_on_tests``, which are logged.

    Raises:
        UsageError: an agent that cannot play a side, or an environment without wins.
    """
    about: JsonObject = {}
    remarks: dict[str, None] = {}
    for first, second in zip(agents, [*agents[1:], agents[0]], strict=True):
        for one, other in pairing_sides(first, second):
            assert one.settings is not None
            try:
                rollout = build(playing(one, other, 1), one.source)
            except UsageError as error:
                raise UsageError(f"{one.name} cannot play {other.name}: {error}") from error
            about, counts = dict(rollout.about), rollout.env.spec.reports_win
            tests = playing(one, other, battles)
            remarks |= dict.fromkeys(remarks_on_tests(tests, one.source, rollout))
            rollout.close()
            if not counts:
                raise UsageError(
                    f"A match counts won battles, which env={one.settings.choices['env']} does not "
                    "report: expected env=smac or env=smacv2. For the returns against another "
                    "agent type mode=evaluate checkpoint=PATH test.opponent=NAME."
                )
    warn(remarks)
    return about, [*remarks]


def identity(agent: MatchAgent) -> JsonObject:
    """Facts that identify an agent: its checkpoint, the weights in it, and its settings."""
    folder = agent.source and agent.source.folder
    return {
        "checkpoint": folder and str(folder),
        "weights_sha256": folder and checkpoint.weights_digest(folder),
        "config_sha256": agent.settings and digest([agent.settings]),
    }


def begun(request: JsonObject) -> Path | None:
    """The folder of a match that this request has started, if any; unreadable ones are skipped.

    Raises:
        CheckpointError: there is a link or a device in it.
    """
    same = json.loads(json.dumps(request))
    for path in sorted(Path.cwd().glob(f"outputs/match/*/{FILE}"), reverse=True):
        problems: list[str] = []
        record = read_object(path, problems, LARGEST_FILE)
        for problem in problems:
            log.warning("%s: %s", shown(path.parent), problem)
        if record.get("request") == same:
            require_plain(path.parent)
            return path.parent
    return None


def read_pairings(
    path: Path, every: Sequence[tuple[MatchAgent, MatchAgent]], battles: int
) -> list[JsonObject]:
    """The finished pairings in the file of a match, which are the first of ``every``, with all of
    their battles.

    Args:
        battles: of each pairing.

    Raises:
        CheckpointError: they differ, or were not written by a match.
    """
    pairings: Any = read_object(path, [], LARGEST_FILE).get("pairings")
    try:
        saved = read_strictly(tuple[SavedPairing, ...], json.dumps(pairings))
        if len(saved) > len(every):
            raise ValueError(f"expected at most {len(every)}, got {len(saved)}")
        for i, (found, (a, b)) in enumerate(zip(saved, every, strict=False)):
            sides = [(one.name, other.name) for one, other in pairing_sides(a, b)]
            there = [(one.agents, one.enemies) for one in found.sides]
            if (found.first, found.second, there) != (a.name, b.name, sides):
                raise ValueError(f"{i}: expected the sides of {a.name} and {b.name}")
            for one in found.sides:
                played, expected = one.wins + one.draws + one.losses, battles // len(sides)
                if played != expected:
                    raise ValueError(f"{i}: expected {expected} battles on a side, got {played}")
    except ValueError as error:
        raise CheckpointError(
            f"{shown(path)} is damaged: its finished pairings cannot be read ({error}). Delete "
            "its folder, and the same command begins the match again."
        ) from error
    return list(pairings)


def pairing_sides(first: MatchAgent, second: MatchAgent) -> list[tuple[MatchAgent, MatchAgent]]:
    """The agents and the enemies of each side of a pairing; one without settings has one side."""
    return [(a, b) for a, b in ((first, second), (second, first)) if a.settings is not None]


def pairing(first: MatchAgent, second: MatchAgent, battles: int, folder: Path) -> JsonObject:
    """Play the battles of two agents, half of them on each side; of one without settings all."""
    sides = pairing_sides(first, second)
    return {
        "first": first.name,
        "second": second.name,
        "sides": [side(a, b, battles // len(sides), folder) for a, b in sides],
    }


def side(agent: MatchAgent, enemy: MatchAgent, battles: int, folder: Path) -> JsonObject:
    """Play battles of an agent against another one, and with ``record`` the first one again."""
    done = played(playing(agent, enemy, battles, record=False), agent.source, folder)
    infos = [episode.info for episode in done.episodes]
    wins = sum(bool(info["win"]) for info in infos)
    draws = sum(bool(info["draw"] if "draw" in info else info["timeout"]) for info in infos)
    files: list[str] = []
    assert agent.settings is not None
    if agent.settings.run.record:
        recorded = played(playing(agent, enemy, 1), agent.source, folder)
        require_recordings([recorded])
        files = recorded.record["episodes"][0]["files"]
    return {
        "agents": agent.name,
        "enemies": enemy.name,
        "wins": wins,
        "draws": draws,
        "losses": battles - wins - draws,
        "files": [name for name in files if name.startswith("recordings/")],  # not elsewhere
    }


def results(names: Sequence[str], pairings: Sequence[JsonObject]) -> Results:
    """Battles by row, of each pairing and side one."""
    numbers = {name: i for i, name in enumerate(names)}
    sides = [side for each in pairings for side in each["sides"]]
    first, second = np.array([[numbers[s["agents"]], numbers[s["enemies"]]] for s in sides]).T
    return Results(first, second, np.array([[s["wins"], s["draws"], s["losses"]] for s in sides]))
