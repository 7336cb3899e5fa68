"""``_target_`` nodes: a constructor, its keywords, and those that only a running program knows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.common.imports import locate
from rltrain.common.machine.install import NotInstalled
from rltrain.config.validate.constructor import show
from rltrain.errors import RltrainError, UsageError, reason

FACTS: Mapping[str, tuple[str, ...]] = {
    "env": ("n_envs", "n_threads", "training", "scripted", "record", "two_sided"),
    "test.env": ("n_envs", "n_threads", "training", "scripted", "record", "two_sided"),
    "buffer": (
        *("spec", "n_envs", "device", "rng"),
        *("n_step", "hidden_dim", "total_env_steps", "targets", "acted_error"),
        *("own_folder", "saves_steps"),
    ),
    "algo": ("env", "epsilon", "rng"),
    "algo.network": ("spec", "distribution"),
    "algo.mixer": ("spec",),
    "algo.critic": ("spec", "make_agents", "hidden_dim"),
    "algo.loss": ("spec", "distribution"),
    "algo.optimizer": ("params",),
    "algo.exploration": ("n_envs",),
    "logger.*": ("run_dir", "config"),
}
"""Constructor keywords of each part that are not in YAML: the running program supplies them."""


def part_facts(path: str) -> tuple[str, ...]:
    """The keywords of the part at a dotted path that the running program supplies."""
    return FACTS.get(path) or FACTS.get(f"{path.rpartition('.')[0]}.*", ())


def typed_node(path: str, target: str, missing: str = "") -> str:
    """The override that names a part, or a keyword that it misses."""
    keys = f"_target_: {target}" + (f", {missing}: VALUE" if missing else "")
    if path.startswith("callbacks["):
        return f"'callbacks=[{{{keys}}}]'"
    if missing and path != "test.function":
        return f"{path}.{missing}=VALUE"
    return f"'{path}={{{keys}}}'"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A checked ``_target_`` node: what to call, with which keywords."""

    path: str
    target: str
    kwargs: Mapping[str, Any]

    @property
    def shipped(self) -> bool:
        """Whether it names a class or function of rltrain's."""
        return self.target.startswith("rltrain.")

    def asks_for(self, fact: str) -> bool:
        """Whether the constructor has a keyword of this name."""
        return fact in inspect.signature(locate(self.target)).parameters

    def build(self, **facts: Any) -> Any:
        """Call the target with its keywords, completed by those facts that it asks for.

        Raises:
            ValueError: a part of rltrain's refuses them; it names its key.
            UsageError: someone's own part cannot be built.
        """
        assert set(facts) <= set(part_facts(self.path)), f"FACTS of {self.path}"
        call = locate(self.target)
        names = inspect.signature(call).parameters if facts else ()
        wanted = {name: fact for name, fact in facts.items() if name in names}
        try:
            return call(**self.kwargs, **wanted)
        except RltrainError:
            raise
        except Exception as error:
            if not self.shipped:
                where = f"{self.target} ({self.path})"
                raise UsageError(f"{where} cannot be built: {reason(error)}.") from error
            if not isinstance(error, ValueError):
                raise
            kwargs = {} if isinstance(error, NotInstalled) else self.kwargs.get("kwargs")
            raise ValueError(self.named(str(error), kwargs)) from error

    def named(self, text: str, given: Mapping[str, Any] | None) -> str:
        """Why the part cannot be built, with its key and the keywords ``given`` to another one."""
        if not re.search(rf"\b{self.path.replace('.', '[./]')}\b(?! )", text):
            text = f"{self.path}: {text}"
        if given:
            text = f"{text.rstrip('.')} (with {self.path}.kwargs={show(given)})."
            refused = re.search(r"unexpected keyword argument '(\w+)'", text)
            if refused and refused[1] in given:
                typed = [f"~{at}.kwargs.{refused[1]}" for at in dict.fromkeys(["env", self.path])]
                text += (
                    f" Type {' or '.join(typed)} to leave it out of a new run or an evaluation. A "
                    "resumed run keeps it: start a new run with checkpoint=RUN_FOLDER instead."
                )
        return text
