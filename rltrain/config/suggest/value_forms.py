"""Suggestions for values that a key cannot have: other forms of them, metrics, and launchers of
Hydra that are not installed. Nothing here imports hydra or torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rltrain.common.machine.install import install_command
from rltrain.config.catalog import SHIPPED
from rltrain.config.command_line import MOST_JOBS, shell_word, typed
from rltrain.config.suggest.aliases import tables, value_aliases
from rltrain.config.suggest.choices import Answer
from rltrain.errors import closest, held, normal

PLUGINS = {
    "joblib": "hydra-joblib-launcher",
    "submitit": "hydra-submitit-launcher",
    "optuna": "hydra-optuna-sweeper",
}
"""Launchers and sweepers of Hydra by the beginning of their names, and what installs them."""
LISTS = (
    "logger",
    "env.maps",
    "algo.network.hidden_sizes",
    "algo.network.head_sizes",
    "hidden_sizes",
    "trust",
    *("tags", "logger.wandb.tags", "report.ignore", "report.rename"),
)
"""Keys of lists whose brackets are easily forgotten."""
EXAMPLES = {
    "algo.lr_factors": "algo.lr_factors=[[0,1],[100_000,0.1]]",
    "algo.network.groups": "algo.network.groups=[[0],[1,2]]",
    "env.map_weights": "env.map_weights=by_difficulty",
    "env.opponents": "env.opponents={builtin: 1, closest: 1}",
    "tune.space": "tune.space=[{key: algo.optimizer.lr, low: 1e-5, high: 1e-3, log: true}]",
}
"""Keys whose values have parts, and what can be typed for them."""
NUMBER, WHOLE = r"(?:\d+(?:\.\d+)?|\.\d+)", r"\d{1,15}"
"""Numbers that ``float`` and ``int`` can read."""
UNITS = {"s(ec(ond)?s?)?": 1, "m(in(ute)?s?)?": 60, "h((ou)?rs?)?": 3600, "d(ays?)?": 86400}
"""Seconds by the words for a unit of time."""


def for_value(
    path: str, value: object, choices: Sequence[str], accepts: Callable[[object], bool]
) -> Answer:
    """Suggest overrides for a value that a key cannot have.

    Args:
        choices: the values of an enumeration.
        accepts: whether a value could stand there.
    """
    text = str(value).strip()
    meant = value_aliases().get(path, {}).get(text.lower())
    if meant is not None:
        return Answer((meant if "=" in meant or meant[0] == "-" else f"{path}={meant}",))
    nulls = isinstance(value, list) and value[1:] and None in value
    if isinstance(value, list) and value and not nulls and all(map(accepts, value)):
        each = dict.fromkeys(typed(one, path) for one in value)
        flag = "-m " if len(each) > 1 else ""
        return Answer((flag + shell_word(f"{path}={','.join(each)}"),))
    begins = [c for c in choices if text and c.startswith(text.lower())]
    if near := closest(text, choices, n=1) or begins or held(text, choices):
        return Answer((f"{path}={near[0]}",), sure=False)
    unit = 3600 if path.endswith("hours") else 1 if path.endswith("timeout") else None
    if not unit and (span := re.fullmatch(rf"({WHOLE})\s*(?::|\.\.|-)\s*({WHOLE})", text)):
        first, last = int(span[1]), int(span[2])
        if first < last < first + MOST_JOBS and accepts(first) and accepts(last):
            few = ",".join(map(str, range(first, last + 1)[:6]))
            short = (f"-m {path}={few}",) if last - first < 5 else ()
            return Answer((*short, f"-m '{path}=range({first},{last + 1})'"))
    if unit and (seconds := duration(text)) and accepts(seconds / unit):
        return Answer((f"{path}={seconds / unit:.6g}",))
    for candidate, shown in _other_forms(value, text):
        if accepts(candidate):
            return Answer((shell_word(f"{path}={shown}"),))
    if near := closest(text.lower(), value_aliases().get(path, ()), n=1):
        return replace(for_value(path, near[0], (), accepts), sure=False)
    if path in EXAMPLES:
        return Answer((shell_word(EXAMPLES[path]),), why="for example")
    return Answer()


def _other_forms(value: object, text: str) -> Iterator[tuple[object, str]]:
    """The same value as it may be written here, and how."""
    if number := re.fullmatch(rf"({NUMBER})\s*([kKmM])", re.sub(r"(?<=\d)[,_](?=\d)", "", text)):
        shown = f"{number[1]}e{3 if number[2] in 'kK' else 6}"
        yield float(shown), shown
    if re.fullmatch(r"[1-9]\d{0,2}([.,' ]\d{3}){1,4}", text):
        digits = re.sub(r"\D", "", text)
        yield int(digits), re.sub(r"\D", "_", text)
    if shown := power(text):
        yield float(shown) if "e" in shown else int(shown), shown
    if re.fullmatch(rf"{NUMBER}(e[+-]?\d{{1,3}})\.", text):
        yield float(text[:-1]), text[:-1]
    if share := re.fullmatch(rf"({NUMBER})\s*%", text):
        yield float(share[1]) / 100, f"{float(share[1]) / 100:g}"
    if ratio := re.fullmatch(rf"({WHOLE})/(0*[1-9]\d{{0,14}})", text):
        yield int(ratio[1]) / int(ratio[2]), f"{int(ratio[1]) / int(ratio[2]):g}"
    if text.lower() in ("yes", "on", "1", "no", "off", "0", "t", "f", "y", "n"):
        on = text.lower() in ("yes", "on", "1", "t", "y")
        yield on, str(on).lower()
    if text.lower() in ("none", "nil", "no", "off", "never", "false", "inf", "infinity", ""):
        yield None, "null"
    if not isinstance(value, (list, dict)):
        yield [value], typed([value], "")


def power(text: str) -> str:
    """``5*10^-4`` and ``2**17`` as they are typed here: 5e-4, 131072; "" for another text."""
    found = re.fullmatch(rf"(?:({NUMBER})\s*[*x×]\s*)?({WHOLE})(?:\^|\*\*)(-?\d{{1,2}})", text)
    if not found:
        return ""
    factor, base, exponent = found.groups()
    if base == "10":
        return f"{factor or 1}e{exponent}"
    return "" if factor or exponent.startswith("-") else str(int(base) ** int(exponent))


def duration(text: str) -> float | None:
    """The seconds of ``90min``, ``1h30m`` or ``1:30:00``; None for another text."""
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d)", text):
        text = "{}h{}m{}s".format(*clock.groups())
    part = rf"({NUMBER})\s*([a-z]+)\s*"
    if not re.fullmatch(f"({part})+", text.lower()):
        return None
    parts = re.findall(part, text.lower())
    each = [float(n) * s for n, u in parts for word, s in UNITS.items() if re.fullmatch(word, u)]
    return sum(each) if len(each) == len(parts) else None


def numbers(override: str) -> str:
    """Suggest overrides for ``seed=1:3`` or ``seed=1,000``, which may mean whole numbers, for
    ``lr=0,001``, and for lists.
    """
    key, _, value = override.partition("=")
    if key in LISTS:
        return f" Type {shell_word(f'{key}=[{value}]')} for one list." if value[:1] != "[" else ""
    homes = (home.split("=") for home in SHIPPED.homes.get(key, ()))
    is_real = any(re.search(r"\.|e-", SHIPPED.own_keys(*home)[key].value) for home in homes)
    if re.fullmatch(r"\d+,\d+(e[+-]?\d+)?", value) and (is_real or "e" in value):
        return f" Type {key}={value.replace(',', '.')}."
    return str(for_value(key, value, (), lambda meant: type(meant) is int))


def comma_hint(overrides: Sequence[str], problem: str) -> str:
    """A hint for a sweep such as ``lr=0,001``, of which the problem names a value."""
    values = [override.partition("=")[2] for override in overrides if "," in override]
    found = re.findall(r"([\w./]+)=(\S+): ", problem)  # by the key's own name
    wrong = [f"{key}={value}" for key, x in found for value in values if x in value.split(",")]
    start = " A comma separates the values of a sweep: for one number type"
    return "".join(map(numbers, dict.fromkeys(wrong))).replace(" Type", start)


def for_plugin(problem: str) -> str:
    """How to get a launcher or sweeper of Hydra that Hydra could not find."""
    missing = re.search(r"hydra/(launcher|sweeper)/(\w+)", problem)
    kind, name = missing.groups() if missing else ("", "")
    package = next((at for start, at in PLUGINS.items() if name.startswith(start)), "")
    if name == "slurm":
        return ". Type hydra/launcher=submitit_slurm."
    return f". Type {install_command(package)}" if package.endswith(kind) and package else ""


def for_metric(name: str, metrics: Sequence[str]) -> Answer:
    """The metric that was probably meant by ``stop.metric=name``; tests before training."""
    for sections in tables().values():
        for row in sections.get("Metrics", ()):
            if name in row.theirs.split() and row.ours:
                return Answer((f"stop.metric={row.target(name)}",))
    ends = [m for m in metrics if normal(m.partition("/")[2]) == normal(name)]
    near = sorted(ends, key=lambda m: not m.startswith("test/")) or closest(name, metrics)
    return Answer(tuple(f"stop.metric={m}" for m in near[:1]), sure=False)
