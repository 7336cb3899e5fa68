"""Suggestions for a choice that a group does not have: ``env=3m``, ``algo=QMIX``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from rltrain.config.catalog import Catalog
from rltrain.config.command_line import shell_word
from rltrain.config.suggest.aliases import choice_aliases
from rltrain.errors import closest, normal, one_edit

FEW = 8
"""Choices that a message lists besides the nearest one."""
MANY = 24
"""Choices that a message lists if none is near."""
ID = re.compile(r"(?:\w+/)?([\w-]+?)(NoFrameskip|Deterministic)?-v\d+", re.IGNORECASE)
"""An id of Gymnasium: Name-v0, ALE/Pong-v5, PongNoFrameskip-v4."""
ATARI_GAMES = """
alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling
boxing breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro
fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull
kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong private_eye qbert
riverraid road_runner robotank seaquest skiing solaris space_invaders star_gunner surround tennis
time_pilot tutankham up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
"""
MINATAR_GAMES = ("breakout", "asterix", "freeway", "seaquest", "space_invaders")

Refusal = Callable[[str], str]
"""Why overrides, as a shell takes them, would be refused; "" if they would not be."""


def not_tried(typed: str) -> str:
    """A ``Refusal`` that accepts everything."""
    return ""


@dataclass(frozen=True)
class Answer:
    """A suggestion: what to type instead, if anything, and a reason or remark."""

    typed: tuple[str, ...] = ()  # alternatives, each of one or several overrides
    sure: bool = True
    why: str = ""
    typo: bool = False  # the key has one letter wrong: it is named even if the value does not fit

    def __str__(self) -> str:
        """A sentence with a leading space, or nothing."""
        if not self.typed:
            return self.why and f" {self.why}{'' if self.why.endswith('?') else '.'}"
        *others, last = self.typed
        listed = f"{', '.join(others)} or {last}" if others else last
        if not self.sure:
            return f" Did you mean {listed}?"
        return f" Type {listed} ({self.why})." if self.why else f" Type {listed}."


def for_choice(group: str, value: str, catalog: Catalog, refusal: Refusal = not_tried) -> Answer:
    """Suggest an override where the group has no such choice; ``refusal`` tries it."""
    answer = accepted(_answers(group, value, catalog), refusal)
    return replace(answer, why=answer.why.removeprefix(f"Here it is {group}. "))


def choose(group: str, value: str, catalog: Catalog) -> Answer:
    """The same for another name of the group, ``env.name=foo``: how to choose if none is near."""
    answer = for_choice(group, value, catalog)
    how = f"The choice is typed {group}=NAME.{listed(group, catalog)}"
    return answer if str(answer) else Answer(why=how.rstrip("."))


def accepted(answers: Iterable[Answer], refusal: Refusal) -> Answer:
    """The first answer that is accepted when typed, or why the first one would be refused."""
    names = Answer()
    for answer in answers:
        if names.why and not answer.sure:
            break
        kept = tuple(typed for typed in answer.typed if not refusal(typed))
        if kept or not answer.typed:
            return answer if kept == answer.typed else replace(answer, typed=kept)
        if answer.typo or (answer.sure and not names.why):
            first = answer.typed[0]
            keys = [word.partition("=")[0].strip("'+") for word in first.split()]
            key = next((k for k in keys if "." in k), keys[0])
            choices = first.partition(key)[0].rstrip("'+")  # of groups, which stand first
            why = refusal(first).rstrip(".")
            if not any(f"{word.partition('=')[0]}=" in why for word in choices.split()):
                why = why.replace(" Type ", f" Type {choices}")
            here = f"{key} is a key of {choices.strip()}." if choices else f"Here it is {key}."
            names = Answer(why=f"Did you mean {key}? {why}" if answer.typo else f"{here} {why}")
        if answer.typo:
            break
    return names


def longest_known(group: str, value: str, catalog: Catalog) -> tuple[str, Answer]:
    """The longest beginning of ``a_b_c`` that a group has or knows, and the answer for it."""
    parts = value.split("_")
    for n in range(len(parts), 0, -1):
        name = "_".join(parts[:n])
        answer = for_choice(group, name, catalog)
        if name in catalog.options(group) or (answer.typed and answer.sure):
            return name, answer
    return value, for_choice(group, value, catalog)


def _answers(group: str, value: str, catalog: Catalog) -> Iterator[Answer]:
    options, file = catalog.options(group), re.fullmatch(r"(?:.*/)?([\w-]+)\.ya?ml", value)
    name = normal(file[1] if file and group != "experiment" else value)
    yield from (Answer((f"{group}={o}",)) for o in options if normal(o) == name)
    yield from _elsewhere(group, value, name)
    if group == "env":
        yield from _environment(value, options)
    for path in (f"{folder / group / value}.yml" for folder in catalog.folders):
        if os.path.isfile(path):
            yield Answer(why=f"{path} is not read: rename it to {value}.yaml")
    if group == "experiment" and os.path.isfile(f"{value}.yaml"):  # False for names too long
        yield Answer((f"experiment={shell_word(f'./{value}.yaml')}",))
    if group == "experiment":
        folder = [o for o in options if o.startswith(f"{value.rstrip('/')}/")]
        within = folder or [o for o in options if name and name in normal(o)]
        if within:
            yield Answer(tuple(f"experiment={o}" for o in within))
    for other in catalog.groups:
        for option in catalog.options(other) if other not in ("experiment", group) else ():
            if normal(option) == name and option not in ("auto", "none"):
                yield Answer((f"{other}={option}",), why=f"{option} is a choice of {other}")
    near = closest(value, options, n=3)
    if near:
        yield Answer(tuple(f"{group}={option}" for option in near[:1]), sure=False)
    elif "_" in value:
        beginning = for_choice(group, value.rpartition("_")[0], catalog)
        if beginning.sure:
            yield replace(beginning, sure=False)


def _elsewhere(group: str, value: str, name: str) -> Iterator[Answer]:
    """From the names of other libraries."""
    for row in choice_aliases().get(group, ()):
        if name in row.theirs.split():
            typed = " ".join(map(shell_word, row.ours.split()))
            yield Answer((typed,), why=row.note and f"the nearest: {value} {row.note}")


def _environment(value: str, options: list[str]) -> Iterator[Answer]:
    """From maps, games and ids of Gymnasium."""
    from rltrain.battles.data.maps import MAPS, is_sized
    from rltrain.battles.data.scenarios import is_scenario

    maps = {name.lower(): name for name in MAPS}
    if value.lower() in maps or is_sized(value):
        yield Answer((f"env=smac env.map_name={maps.get(value.lower(), value)}",))
    if is_scenario(value.lower()):
        yield Answer((f"env=smacv2 env.map_name={value.lower()}",))
    for row in choice_aliases()["ids"]:
        if found := re.fullmatch(row.theirs, value, re.IGNORECASE):
            ours = found.expand(row.ours)
            ours = ours.lower() if "env.game=" in ours else ours
            yield Answer((ours,), why=row.note and f"the nearest: {value} {row.note}")
    match = ID.fullmatch(value)
    name = normal(match[1] if match else value.rpartition("/")[2])
    atari_id = value.lower().startswith("ale/") or bool(match and match[2])
    maker = value.lower().partition("/")[0]
    played = [
        f"env={env} env.game={game}"
        for env, games in (("minatar", MINATAR_GAMES), ("atari", ATARI_GAMES.split()))
        for game in games
        if normal(game) == name
        and (env == "atari" or not atari_id)
        and (maker == env or maker not in ("atari", "minatar"))
    ]
    if played:
        yield Answer(tuple(played))
    if match and ("/" not in value or atari_id):
        yield from (Answer((f"env={o}",)) for o in options if normal(o) == name)
        yield from _elsewhere("env", value, name)
    if match:
        from rltrain.env.gymnasium_advice import registered_ids  # imports gymnasium

        known = value in registered_ids()
        why = "" if known else "my_package being the one that registers it"
        yield Answer((f"env=gymnasium env.id={'' if known else 'my_package:'}{value}",), why=why)
    if re.fullmatch(r"(?!.*\.py:)[\w.]+:[\w/-]+", value):
        yield Answer((f"env=gymnasium env.id={value}",))
    if own := re.fullmatch(r"([\w/]+)\.py:(\w+)", value):
        yield Answer((f"env=gymnasium env.id={own[1].replace('/', '.')}:{own[2]}",))
    if re.fullmatch(r"[A-Z]\w*[a-z]Env", value):
        yield Answer(why=f"Your own class is env=gymnasium env.id=my_module:{value}")
    if own := re.fullmatch(r"([\w.]+)\.([A-Z]\w*)", value):
        yield Answer((f"env=gymnasium env.id={own[1]}:{own[2]}",))
    if value.endswith(".py"):
        module = value.removesuffix(".py").replace("/", ".")
        yield Answer(why=f"A class in it is env=gymnasium env.id={module}:ClassName")
    near = [m for m in MAPS if one_edit(m.lower(), value.lower())] if value[:1].isdigit() else []
    if near:
        yield Answer(tuple(f"env=smac env.map_name={m}" for m in near), sure=False)


def listed(group: str, catalog: Catalog, most: int = FEW) -> str:
    """The choices of a group for a message, or where to find them if they are many."""
    options = catalog.options(group)
    if len(options) <= most:
        return f" Expected one of {', '.join(options)}."
    return f" rltrain --help {group} lists all {len(options)}."
