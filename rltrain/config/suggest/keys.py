"""Suggestions for keys and values that do not exist.

Names of other libraries come from ``names/``, all others from the YAML files. Nothing here
imports hydra or torch. Choices of groups are the subject of ``choices.py``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rltrain.config.catalog import FREE_FORM, ONE_OF, SEVERAL, Catalog, Tree
from rltrain.config.command_line import shell_word
from rltrain.config.suggest.aliases import Row, names_of_settings, tables, value_aliases
from rltrain.config.suggest.choices import Answer, Refusal, accepted, choose, for_choice, not_tried
from rltrain.config.suggest.value_forms import duration
from rltrain.errors import closest, one_edit

BOOLEANS = dict.fromkeys(["yes", "on", "1", "y"], "true")
BOOLEANS |= dict.fromkeys(["no", "off", "0", "n", "none", "null"], "false")
"""Words for ``true`` and ``false``."""
TIMES = ("hours", "minutes", "seconds", "time")
"""Conversions of a duration to hours, by the unit of a plain number; ``time``: it has none."""
FOREIGN_MODEL = re.compile(r".*\.(zip|pkl|pt|pth)|(.*/)?checkpoint[-_]\d+")
"""Files and folders of Stable-Baselines3's and RLlib's models."""
NAMED_BY = ("env.id", "env.game", "env.map_name")
"""Keys that choose a task of an environment."""
USUAL = ("gymnasium", "smac", "replay", "mlp", "td")
"""Choices to name first, where several have a key."""


def for_key(
    key: str, value: str, known: Tree, catalog: Catalog, refusal: Refusal = not_tried
) -> Answer:
    """Suggest overrides for ``key=value`` where there is no such key.

    Args:
        known: every key of the composition by its dotted path, inner nodes as mappings.
        refusal: tries what an answer says to type.
    """
    answers = _key_answers(key, value, known, catalog)
    return accepted((_within_environment(answer, catalog) for answer in answers), refusal)


def _within_environment(answer: Answer, catalog: Catalog) -> Answer:
    """A remark in place of an answer that other environments have this key: those whose own file
    has it, if there are any.
    """
    found = re.match(r"env=\w+ env\.(\w+)=", answer.typed[0] if answer.typed else "")
    if not found or f"env.{found[1]}" in NAMED_BY:
        return answer
    homes = catalog.homes[f"env.{found[1]}"]
    files = {home: catalog.file(*home.split("=")) for home in homes}
    own = [home for home, file in files.items() if file and found[1] in file.keys]
    return Answer(why=f"env.{found[1]} is a key of {', '.join(own or homes)}")


def for_deletion(key: str, known: Tree, refusal: Refusal) -> Answer:
    """Suggest an override instead of ``~key``."""
    loggers = [k for k, node in (known.get("logger") or {}).items() if isinstance(node, Mapping)]
    others = [name for name in loggers if key != f"logger.{name}"]
    typed = [f"logger=[{','.join(others)}]"] if len(others) < len(loggers) else [f"{key}=null"]
    answers = (Answer((shell_word(each),), why="switches it off") for each in typed)
    answer = accepted(answers, refusal)
    return answer if answer.typed else Answer(why="Leave it out")


def _key_answers(key: str, value: str, known: Tree, catalog: Catalog) -> Iterator[Answer]:
    """Surest first."""
    name = key.lower().replace("/", ".").replace("-", "_")
    name = re.sub(r"^env_(args|config)\.", "env.", name)
    root = name.partition(".")[0]
    leaf = name.rpartition(".")[2]
    as_typed = key.replace("/", ".").replace("-", "_").rpartition(".")[2]
    values = [k for k, v in known.items() if not isinstance(v, Mapping) and "_target_" not in k]

    def typed(*keys: str, sure: bool = True, why: str = "", typo: bool = False) -> Iterator[Answer]:
        if keys:
            typed_overrides = tuple(pasteable(k, value, known, catalog) for k in keys)
            yield Answer(typed_overrides, sure and len(typed_overrides) == 1, why, typo)

    if name not in known and (name in NAMED_BY or f"env.{name}" in NAMED_BY):
        named = for_choice("env", value, catalog).typed
        ours = [each for each in named if f" {name}=" not in each]
        tasks = (each.partition(" ")[2] for each in ours)  # beside the choice of an environment
        here = [task for task in tasks if task.partition("=")[0] in known]
        yield from (Answer((each,)) for each in here)
        if "." in name:
            yield from (Answer((each,)) for each in ours)
            yield from typed(*(k for k in NAMED_BY if k in known))
    if "." in key:
        yield from foreign(key.lower(), value, known, catalog)
    yield from typed(*(k for k in values if k.lower() == name))
    yield from _group_answers(name, value, catalog)
    takes_any = root == "env" and "env.kwargs" in known and name not in NAMED_BY
    keyword = shell_word(f"+env.kwargs.{as_typed}={value}")
    if name in catalog.homes and name not in known:
        belongs = f"{name} belongs to {', '.join(catalog.homes[name])}"
        if takes_any and all(home.startswith("env=") for home in catalog.homes[name]):
            yield Answer((keyword,), why=f"if the environment takes it; {belongs}")
        yield from typed(name, why=belongs)
    same_end = [k for k in values if k.endswith(f".{name}")]
    theirs, own = [*foreign(name, value, known, catalog)], [*typed(*same_end)]
    if len(same_end) == 1 and (not theirs or own[0].typed == theirs[0].typed):
        yield from own
    yield from theirs
    yield from typed(*same_end)
    groups = [g for g in catalog.groups if g != "experiment"]
    near = [k for k in (*values, *groups) if one_edit(name, k.replace("/", ".")) and len(k) > 2]
    yield from typed(*near, sure=False, typo=True)
    yield from typed(*(k for k in known if one_edit(name, k)), sure=False, typo=True)
    same_leaf = [k for k in values if k.rpartition(".")[2] == leaf]
    yield from typed(*[k for k in same_leaf if k.startswith(f"{root}.")][:3])
    for answer in foreign(leaf, value, known, catalog):  # below a node of ours, or of theirs
        node = re.split(r"[./=]", answer.typed[0].lstrip("+"))[0] if answer.typed else ""
        if root == leaf or node == root or not _has(known, root):
            yield answer
    free = [node for node in FREE_FORM if name.startswith(f"{node}.") and _has(known, node)]
    if free and "+" not in key:
        own_key = f"{name.removesuffix(leaf)}{as_typed}"
        yield Answer(
            (shell_word(f"+{own_key}={value}"),), why=f"a new key below {free[0]} needs a +"
        )
    yield from typed(*same_leaf[:3])
    elsewhere = [k for k in catalog.homes if k.rpartition(".")[2] == leaf and k not in known]
    yield from typed(*elsewhere[:1], sure=False)
    leaves = {k.rpartition(".")[2]: k for k in reversed(values)}
    near_leaf = [k for end, k in leaves.items() if len(leaf) > 3 and one_edit(leaf, end)]
    if root in ("env", "stop", "test", "hardware"):  # of whatever node
        yield from foreign(leaf, value, known, catalog)
    yield from typed(*near_leaf[:3], sure=False)
    for theirs_too in sorted(names_of_settings()) if "." not in name else ():
        if len(name) > 5 and one_edit(name, theirs_too):
            answers = foreign(theirs_too, value, known, catalog)
            yield from (replace(answer, sure=False) for answer in answers if answer.typed)
    if not near_leaf:
        yield from typed(*alike(name, [*values, *groups])[:3], sure=False)
    if takes_any:
        yield Answer((keyword,), why="if the environment takes it")
    yield from (answer for answer in foreign(leaf, value, known, catalog) if not answer.typed)


def alike(name: str, keys: Sequence[str]) -> list[str]:
    """The key that looks most like ``name``, of its own first part if there is such a part."""
    root, dot, rest = name.partition(".")
    below = {k.removeprefix(f"{root}."): k for k in keys if k.startswith(f"{root}.")}
    if dot and below:
        return [below[k] for k in closest(rest, below, n=1)]
    return closest(name, [k for k in keys if "/" not in k], n=1)


def _group_answers(name: str, value: str, catalog: Catalog) -> Iterator[Answer]:
    """``algo.network=mlp``, ``network=mlp`` and ``algo.name=dqn`` for the choice of a group."""
    for group in catalog.groups:
        path, part = group.replace("/", "."), group.partition("/")[2]
        named = name in (f"{path}.name", f"{path}.type")
        if named or name in (path, part or path):
            if value in catalog.options(group):
                yield Answer((f"{group}={value}",))
            answer = (choose if named else for_choice)(group, value, catalog)
            if answer.typed or named:
                yield answer


def _has(known: Tree, node: str) -> bool:
    """Whether there is such a key, or keys below it."""
    return any(key == node or key.startswith(f"{node}.") for key in known)


def for_node(
    key: str, value: str, known: Tree, catalog: Catalog, refusal: Refusal = not_tried
) -> Answer:
    """Suggest overrides for a value given to a key that holds keys of its own.

    Args:
        known: every key of the composition by its dotted path, inner nodes as mappings.
        refusal: tries what an answer says to type.
    """
    answers = (
        *_group_answers(key, value, catalog),
        *foreign(key.rpartition(".")[2], value, known, catalog),
    )
    held = [f"{key}.{name}" for name in known[key] if name != "_target_"]
    answer = accepted(answers, refusal) if refusal is not not_tried else Answer()
    return answer if answer.typed else Answer(why=f"Set one of them: {', '.join(held)}")


def foreign(name: str, value: str, known: Tree, catalog: Catalog) -> Iterator[Answer]:
    """Answers from the table of other libraries' names, those that fit this composition first."""
    rows = [
        (library, row)
        for library, sections in tables().items()
        for section, rows in sections.items()
        for row in (rows if section != "Metrics" else ())
        if name in row.theirs.split()
    ]
    answers = [(_row_answer(row, name, value, known, catalog), library) for library, row in rows]
    by_steps = known.get("algo.updates_per_episode") is None
    off_policy = "buffer.capacity" in known  # CleanRL has num_steps of others
    last = {"PyMARL": by_steps, "CleanRL": off_policy}
    answers.sort(
        key=lambda pair: (
            not pair[0].typed or pair[0].typed[0].startswith("env="),  # another environment's
            not pair[0].sure,
            last.get(pair[1], False),
        )
    )
    for answer, library in answers:
        why = ", ".join(part for part in (library and f"{name} in {library}", answer.why) if part)
        yield Answer(answer.typed, answer.sure, why if answer.typed else answer.why)


def _row_answer(row: Row, name: str, value: str, known: Tree, catalog: Catalog) -> Answer:
    """The suggestion of one table row for a name and its value."""
    plain_note = re.sub(r"`|\[(\w+)\]\([^)]*\)", r"\1", row.note)
    instead = "Instead" if "`" in row.note else "There is nothing to set for it"
    nothing = Answer(why=f"{instead}: {plain_note or 'it is the default'}")
    for each in (value.lower(), BOOLEANS.get(value.lower(), "*"), "*"):
        if each in row.values:
            words = [word.partition("=") for word in shlex.split(row.values[each])]
            typed, with_new = list[str](), dict(known)
            for k, equals, v in words:
                if k != row.convert or known.get(k) is None:
                    typed.append(pasteable(k, v, with_new, catalog) if equals else k)
                    chosen = shlex.split(typed[-1])  # an option has keys of its own
                    new = [key for key, at in catalog.homes.items() if {*at}.intersection(chosen)]
                    with_new = {**dict.fromkeys(new), **with_new}
            return Answer((" ".join(typed),)) if words else nothing
    if row.ours:
        keys = row.target(name).split("|")
        here = [k for k in keys if k in known or k in catalog.groups]
        key = next((k for k in here if known.get(k) is not None), (here or keys)[0])
        if key in catalog.groups and value not in catalog.options(key):
            return choose(key, value, catalog)
        if key == "checkpoint" and FOREIGN_MODEL.fullmatch(value):
            return Answer(why="A model of another library cannot be loaded here")
        if row.convert == "tau" and is_share(value):
            tau = f"algo.target_update.tau={value}"
            return Answer((f"{pasteable(key, '1', known, catalog)} {tau}",))
        if row.convert == "decay" and is_share(value):
            return Answer(("algo/exploration=exponential",), why="half_life in env steps")
        if row.convert == "return":
            return Answer((f"stop.metric=train/return_mean stop.value={shell_word(value)}",))
        if row.convert in TIMES:
            seconds = duration(value) or duration(value + row.convert)
            if not seconds:
                return Answer(why=f"The limit is {key}, in hours")
            value = f"{seconds / 3600:.6g}"
        share = f"{value} of {known.get('total_env_steps')} env steps"
        why = share if row.convert == "share" else row.convert if " " in row.convert else ""
        return Answer((pasteable(key, converted(row, key, value, known), known, catalog),), why=why)
    if row.values:
        return Answer(tuple(dict.fromkeys(w for w in row.values.values() if w)), sure=False)
    return nothing


def is_share(value: str) -> bool:
    """Whether a value is a number from 0 to 1, without 1."""
    try:
        return 0 < float(value) < 1
    except ValueError:
        return False


def converted(row: Row, key: str, value: str, known: Tree) -> str:
    """A value of theirs as one of ours."""
    try:
        number = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        if row.convert == "range":
            return f"range({int(number)})"
        if row.convert == "reciprocal":
            return f"{1 / number:g}"
        if row.convert == "layers" and key.endswith("hidden_sizes"):
            return f"[{value},{value}]"
        if row.convert == "share" and number <= 1:
            return str(round(number * float(known["total_env_steps"])))
    except (ValueError, ArithmeticError, KeyError):
        pass
    return value


def pasteable(key: str, value: str, known: Tree, catalog: Catalog) -> str:
    """``key=value`` as it can be pasted, with the choice that has the key if another is chosen."""
    before = ""
    if key.lstrip("+") not in known and key in catalog.homes:
        homes = catalog.homes[key]
        usual = [home for name in USUAL for home in homes if home.endswith(f"={name}")]
        before = chosen_too((usual or homes)[0], known) + " "
    value = value_aliases().get(key, {}).get(value.lower(), value)
    if isinstance(known.get(key), list) and value[:1] != "[":
        value = f"[{value}]"
    others = [f" {k}=null" for k in alternatives(key) if known.get(k) is not None]
    return before + shell_word(f"{key}={value}") + "".join(others)


def alternatives(key: str) -> list[str]:
    """The keys of which one is set if ``key`` is not."""
    path, _, leaf = key.rpartition(".")
    names = ONE_OF.get(path, ())
    return [f"{path}.{name}" for name in names if name != leaf] if leaf in names else []


def chosen_too(home: str, known: Tree) -> str:
    """``group=option``, together with the options that are chosen now where a group can have
    several.
    """
    group, _, option = home.partition("=")
    if group not in SEVERAL:
        return home
    now = [k.split(".")[1] for k in known if k.startswith(f"{group}.") and k.count(".") > 1]
    return f"{group}=[{','.join(dict.fromkeys([*now, option]))}]"
