"""A command that is typed as flags or in another library's way, as overrides that can be pasted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os.path import exists
from pathlib import Path

from rltrain.battles.data.maps import MAPS
from rltrain.common.checkpoint.opponent_files import BUILTIN, SCRIPTED
from rltrain.config.catalog import FREE_FORM, Catalog, Tree
from rltrain.config.command_line import STRANGE, intended, shell_word
from rltrain.config.suggest.aliases import EVALUATE, commands, names_of_settings
from rltrain.config.suggest.choices import Refusal, longest_known, not_tried
from rltrain.config.suggest.keys import FOREIGN_MODEL, for_key
from rltrain.config.suggest.named_values import PLAIN, PYTHON, named_values
from rltrain.config.suggest.value_forms import LISTS
from rltrain.config.validate.mode_keys import reads

OF_LOADED = (
    r"mode|checkpoint|load_step|record|seed|trust|test\..*|hub\..*|hardware\.device|-.*",
    "the run has its own; test.episodes are played",
)
TAKEN = {
    **dict.fromkeys(("evaluate", "watch", "push", "export"), OF_LOADED),
    "report": (r"mode|runs|report\..*", "runs=… names the runs"),
    "import": (r"mode|checkpoint|load_step|seed|algo.*|env.*", "an import trains nothing"),
}
"""Which overrides a mode takes, and why not the others."""
COUNTED = {"": "total_env_steps", "evaluate": "test.episodes", "tune": "tune.trials"}
COUNTED |= {"match": "match.battles"}
"""The key that a number without a name sets, by mode."""
LISTED = {"report": "runs", "match": "checkpoints"}
"""The key that takes several words without a name, by mode."""


@dataclass
class Translation:
    """The overrides of a command and what has none."""

    overrides: dict[str, str] = field(default_factory=dict)  # by key, as they are pasted
    left_out: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)  # without a name
    refused: str = ""  # why an override had to be left out, or why the command is refused

    def add(self, text: str) -> None:
        """Add pasteable overrides; a path that was typed stays where ``latest`` is proposed."""
        for override in shlex.split(text):
            key, _, value = override.partition("=")
            if key == "env" and self.overrides.get("env", override) != override:
                for of_other in ("env.id", "env.game", "env.map_name"):
                    self.overrides.pop(of_other, None)
            kept = value == "latest" or self.overrides.get(key) == "mode=import"
            if key not in self.overrides or not kept:
                self.overrides[key] = shell_word(override)

    def value(self, key: str) -> str:
        """The value of an override, "" if there is none."""
        return "".join(shlex.split(self.overrides.get(key, ""))).partition("=")[2]

    def take_out(self, keys: Sequence[str], why: str) -> None:
        """Leave overrides out for a reason."""
        for key in keys:
            del self.overrides[key]
        if keys:
            self.left_out.append(f"{', '.join(keys)} ({why})")

    @property
    def sweeps(self) -> bool:
        """Whether keys have several values: a report takes several paths."""
        values = [self.value(key) for key in self.overrides]
        several = any(re.match(r"(range|choice)\(|[^\[{(']+,", value) for value in values)
        return several and self.value("mode") != "report"

    @property
    def tried(self) -> str:
        """The overrides of a run or sweep; "" where there is none."""
        return "" if "--help" in self.overrides else str(self).removeprefix("rltrain")

    def __str__(self) -> str:
        """The command, algorithm and environment first."""
        first = ("--help", "mode", "algo", "env")
        keys = sorted(self.overrides, key=lambda k: first.index(k) if k in first else len(first))
        flags = ["-m"] if self.sweeps else []
        return " ".join(["rltrain", *flags, *(self.overrides[key] for key in keys)])


def command_problem(
    arguments: Sequence[str], catalog: Catalog, refusal: Refusal = not_tried
) -> str:
    """Return the message about words that are neither ``key=value`` nor a flag of rltrain's."""
    done = translated(arguments, catalog, refusal)
    wrong = [word for word in arguments if STRANGE.match(word) or intended(word) != [word]]
    first = next(word for word in wrong if word not in ("-m", "--multirun"))
    text = f"{first}: expected key=value, -m for a sweep, or --help."
    if (done.overrides or not done.left_out) and not refusal(done.tried):
        text += f" Type\n  {done}"
    return text + (f"\nLeft out: {'; '.join(done.left_out)}." if done.left_out else "")


def translated(
    arguments: Sequence[str], catalog: Catalog, refusal: Refusal = not_tried
) -> Translation:
    """Overrides for what was typed, as far as there are any; ``refusal`` tries them."""
    keys = {*catalog.groups, *catalog.homes, *catalog.root.keys}.difference(commands()["words"])
    script, pairs = named_values(arguments, keys)
    done = Translation()
    for _ in range(2):  # the second time with the keys of the choices found in the first
        before, done = done, Translation()
        known = _known(before, catalog)
        for name, value in pairs:
            key, _, colon_value = value.partition(":")
            if name:
                _setting(name, value, known, catalog, done, before)
            elif colon_value and key in (*known, *catalog.groups):
                _setting(key, colon_value.strip(), known, catalog, done, before)
            else:
                _word(value, known, catalog, done, before)
    known = _known(done, catalog)
    for key in [k for k in done.overrides if k not in known]:
        for home in catalog.homes.get(key, ()):  # that was chosen for the sake of the key
            if before.overrides.get(home.partition("=")[0]) == home:
                done.add(home)
    _finish(done, script)
    sweep = done.overrides.pop("-m", None)
    while why := refusal(done.tried):
        ends = {k: r"(?!\w)" if "." in k else r"(?![\w.])" for k in done.overrides}
        named = [k for k, end in ends.items() if re.search(rf"(?<![\w.]){re.escape(k)}{end}", why)]
        wrong = next((k for k in named if k != "mode"), None)
        form = re.search(
            rf" Type (?:-m )?('?{re.escape(wrong or '')}=[^;]*?)(?: or -m .*)?\.$", why
        )
        if wrong and form and not re.match(r"[^\[]+,", done.value(wrong)):  # one of several values
            done.add(form[1])  # 2e6 for 2M, 1,2 for [1,2]
            continue
        done.refused = why
        if wrong is None:
            break
        done.take_out([wrong], why.rstrip("."))
    if sweep and not done.sweeps:
        done.left_out.append("-m (no key has several values, such as seed=1,2,3)")
    return done


def _known(done: Translation, catalog: Catalog) -> Tree:
    """Every key besides the choices in a command, and the length of the run."""
    chosen = {k: done.value(k) for k in done.overrides}
    known = catalog.known({k: v for k, v in chosen.items() if v in catalog.options(k)})
    steps = chosen.get("total_env_steps")
    return known if steps is None else {**known, "total_env_steps": steps}


def _setting(
    name: str, value: str, known: Tree, catalog: Catalog, done: Translation, before: Translation
) -> None:
    """One name with its value; ``before`` is the results for all of them."""
    if name in LISTS and "," in value and value[:1] != "[":
        value = f"[{value}]"
    if name in catalog.groups:
        options = [] if name in LISTS and value == "[]" else value.strip("[]").split(",")
        meant = [_choice(name, option, catalog, done) for option in options]
        if len(meant) != 1 and all(text.strip("'").startswith(f"{name}=") for text in meant):
            joined = ",".join(text.partition("=")[2].strip("[]'") for text in meant)
            meant = [f"{name}={f'[{joined}]' if name in LISTS else joined}"]
        done.add(" ".join(meant))
        return
    if name.endswith("map_name") and f"env={value}" == before.overrides.get("env"):
        return
    if name == "checkpoint":
        _model(value, done)
        return
    if name in ("orga", "organization"):
        name, value = "hub.repo", f"{value}/{before.value('algo')}-{before.value('env')}"
    own = [k.removesuffix("_target_") for k in (name, *before.overrides) if "._target_" in k]
    own += ["hydra.", "hydra/"] if "-m" in before.overrides else ["hydra.run.dir"]
    inside = value[:1] == "{" and any(key.startswith(f"{name}.") for key in known)
    if inside or name in known or name.startswith((*own, *(f"+{node}." for node in FREE_FORM))):
        done.add(shell_word(f"{name}={value}"))
        return
    typed_before = {k: done.value(k) for k in done.overrides if known.get(k, "") is None}
    answer = for_key(name, value, {**known, **typed_before}, catalog)
    typed = answer.typed[0] if answer.typed else ""
    chosen = re.findall(r"(?:^|\s)((?:algo|env)=\S+)", typed)
    other = any(before.overrides.get(each.partition("=")[0]) != each for each in chosen)
    evaluates = "mode" in before.overrides or "checkpoint" in before.overrides
    if typed.startswith(EVALUATE) and typed != EVALUATE and not evaluates:
        done.left_out.append(f"{name} (type rltrain {typed} afterward)")
    elif answer.sure and typed and not other:
        done.add(typed)
    elif not typed and answer.why:
        done.left_out.append(f"{name} ({answer.why[:1].lower()}{answer.why[1:]})")
    else:
        done.left_out.append(f"{name}={value}")


def _choice(group: str, option: str, catalog: Catalog, done: Translation) -> str:
    """``group=option``, or what to type where there is no such choice, or nothing."""
    if option in catalog.options(group) or (group, option) == ("experiment", "null"):
        return f"{group}={option}"
    name, answer = longest_known(group, option, catalog)
    if name in catalog.options(group):
        return f"{group}={name}"
    if option.endswith((".yaml", ".yml")) and not answer.typed:
        _setting("conf_file", option, {}, catalog, done, done)
        return ""
    if (answer.why and " is a choice of " not in answer.why) or not answer.typed:
        done.left_out.append(f"{option} ({answer.why})" if answer.why else f"{group}={option}")
    if group == "env" and not answer.typed:
        done.add("env=gymnasium env.id=my_module:MyEnv")
    return answer.typed[0] if answer.typed else ""


def _word(word: str, known: Tree, catalog: Catalog, done: Translation, before: Translation) -> None:
    """A word without a name: a command, a script, a choice, a path, a switch."""
    means = commands()["words"].get(word.lower().removesuffix(".sh"))
    if means is not None or word.endswith(".sh") or PYTHON.fullmatch(word):
        done.add(means or "")
    elif word in commands()["absent"]:
        done.left_out.append(f"{word} ({commands()['absent'][word]})")
    elif word.endswith((".yaml", ".yml")):
        _setting("conf_file", word, {}, catalog, done, done)
    elif word in catalog.groups:
        if "--help" in done.overrides:
            done.add(word)
        else:
            done.left_out.append(f"{word} (type {word}=NAME; rltrain --help {word} lists them)")
    elif done.value("resume") == "latest":
        done.add(shell_word(f"resume={word}"))
    elif (key := LISTED.get(done.value("mode"))) and (
        "/" in word or exists(word) or word in ("outputs", BUILTIN, *SCRIPTED)
    ):
        earlier = done.value(key).strip("[]")
        done.overrides[key] = shell_word(
            f"{key}=[{earlier},{word}]" if earlier else f"{key}={word}"
        )
    elif done.value("mode") == "init":
        done.add(shell_word(f"init.folder={word}"))
    elif done.value("mode") == "push" and re.fullmatch(r"[\w.-]+/[\w.-]+", word):
        done.add(f"hub.repo={word}")
    elif PLAIN.fullmatch(word):
        done.numbers.append(word)
    elif word.lower().endswith("policy"):
        _setting("policy", word, {}, catalog, done, done)
    elif FOREIGN_MODEL.fullmatch(word) or (
        ("/" in word or exists(word)) and not re.match(r"(ALE|MinAtar)/", word)
    ):
        _model(word, done)
    elif group := next((g for g in ("algo", "env") if word in catalog.options(g)), ""):
        options = [o for o in done.value(group).split(",") if o in catalog.options(group)]
        done.add(f"{group}={','.join(dict.fromkeys([*options, word]))}")
    else:
        for group in ("algo", "env"):
            name, answer = longest_known(group, word, catalog)
            if name in catalog.options(group) or (answer.typed and answer.sure):
                done.add(_choice(group, word, catalog, done))
                return
        if word in known or word in names_of_settings():
            _setting(word, "true", known, catalog, done, before)
        else:
            done.left_out.append(word)


def _model(path: str, done: Translation) -> None:
    """A model: a run or checkpoint of ours, one of PyMARL to import, or another library's."""
    with suppress(OSError):
        folder = Path(path).expanduser()
        if any(next(folder.glob(f"{deep}agent.th"), None) for deep in ("", "*/", "*/*/")):
            done.add("mode=import")
    if FOREIGN_MODEL.fullmatch(path):
        done.left_out.append(f"{path} (a model of another library cannot be loaded here)")
    else:
        done.add(shell_word(f"checkpoint={path}"))


def _finish(done: Translation, script: str) -> None:
    """Complete what a script or a mode implies, and leave out what the mode does not accept."""
    overrides, mode = done.overrides, done.value("mode")
    counted = COUNTED.get(mode)
    if len(done.numbers) == 1 and counted and counted not in overrides and done.numbers != ["0"]:
        done.add(f"{counted}={done.numbers[0]}")
    else:
        done.left_out += done.numbers
    if script and script not in commands()["words"] and {"algo", "env"} & {*overrides} == {"algo"}:
        done.add("env=atari env.game=breakout" if "atari" in script else "env=cartpole")
    if done.value("experiment").startswith("apex/") and done.value("env") in ("atari", "minatar"):
        done.add(f"experiment=apex/{done.value('env')}")
    if done.value("algo.network.groups") == "[[0],[1]]":  # of two agents, as the tables have it
        done.add(_groups(done))
    if "hardware" in overrides and mode in ("evaluate", "watch"):
        done.add(f"hardware.device={done.value('hardware')}")
    if mode in TAKEN and (mode != "evaluate" or "checkpoint" in overrides):
        takes, why = TAKEN[mode]
        taken = {k for k in overrides if re.fullmatch(takes, k) and (k[0] == "-" or reads(mode, k))}
        done.take_out([k for k in overrides if k not in taken], why)
    if mode == "import":
        done.left_out.append("playing (type rltrain mode=evaluate checkpoint=latest afterward)")
    if any(word.split(" ")[0] in commands()["absent"] for word in done.left_out):
        overrides.clear()


def _groups(done: Translation) -> str:
    """A network for each agent of the environment, of which its name says how many there are."""
    map_name = done.value("env.map_name")
    number = re.search(r"[-_](\d+)(p-|ag-|_vs)", f"{done.value('env.id')} {map_name}")
    n_agents = int(number[1]) if number else 2
    n_agents = MAPS[map_name].n_agents if map_name in MAPS else n_agents
    return f"'algo.network.groups=[{','.join(f'[{i}]' for i in range(n_agents))}]'"
