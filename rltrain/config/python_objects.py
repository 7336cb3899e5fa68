"""What Python passes in place of typed texts: overrides as a mapping of keys to values, and objects
in place of names, the class of an environment and callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

from rltrain.callback import Callback
from rltrain.config.catalog import MAPPING_KEYS
from rltrain.config.command_line import typed
from rltrain.config.node import Node
from rltrain.config.overrides import parse, typed_value
from rltrain.config.schema import Settings
from rltrain.config.trust import HANDED_OVER, HANDED_OVER_CALLBACK
from rltrain.config.validate.mode_keys import require_read
from rltrain.env.env_options import EnvOptions, TeamOptions
from rltrain.errors import UsageError

Overrides = Sequence[str] | Mapping[str, object]
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "resume": {"resume": "path"},
    "evaluate": {"checkpoint": "path", "load_step": "load_step"},
    "match": {"checkpoints": "checkpoints"},
}
"""Keys that are never overrides of a function of the Python interface, and its arguments for them.
"""
OWN = "own"
"""The choice of ``env`` in the records of runs whose environment was passed as an object."""
KINDS = ("gymnasium", "pettingzoo")
"""The choices of ``env`` whose keys hold for environments that are passed as objects."""
OWN_OPTIONS: Mapping[str, object] = {"kwargs": {}, **asdict(EnvOptions())}
"""Its options and their defaults; ``env.NAME=VALUE`` sets them."""
TEAM_OPTIONS = ("kwargs", *asdict(TeamOptions()))
"""Those of them that ``env=pettingzoo`` has."""


def as_texts(overrides: Overrides) -> list[str]:
    """Overrides as they would be typed: ``{"algo": "dqn", "seed": 1}`` as ``algo=dqn seed=1``.

    Args:
        overrides: a list of ``key=value``, or a mapping whose keys are dotted or nested.

    Raises:
        UsageError: neither, or a value that no configuration can hold.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={typed(value, key)}" for key, value in flat(overrides)]
    listed = isinstance(overrides, Iterable) and not isinstance(overrides, str)
    texts: list[Any] = list(overrides) if listed else [None]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"overrides={overrides!r}: expected a list such as ['algo=dqn', 'seed=1'] or a mapping "
            "such as {'algo': 'dqn', 'seed': 1}."
        )
    return texts


def texts_for(
    mode: str,
    overrides: Overrides,
    trust: str | Sequence[str] | None = (),
    arguments: Mapping[str, object] | None = None,
) -> list[str]:
    """The overrides that would be typed for a mode.

    Args:
        trust: your own packages, or one that a text names.
        arguments: values by key, None for those that were not given.

    Raises:
        UsageError: keys that the mode does not read, or that were given as arguments.
    """
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    named = [trust] if isinstance(trust, str) else trust or ()
    if not isinstance(named, Sequence) or not all(isinstance(name, str) for name in named):
        raise UsageError(f"trust={trust!r}: expected names of packages, such as ['mine'].")
    given |= {"trust": [*named]} if named else {}
    texts = as_texts(overrides)
    for text, o in zip(texts, parse(texts), strict=True):
        key = o.key_or_group
        if key in given or key in ARGUMENTS.get(mode, ()):
            name = ARGUMENTS.get(mode, {}).get(key, key.rpartition(".")[2])
            raise UsageError(
                f"{text}: rltrain.{mode} has the argument {name} for it. Leave it out of the "
                "overrides."
            )
        if key == "mode" and mode in ARGUMENTS and o.value() != mode:
            raise UsageError(
                f"{text}: the function that is called chooses what is done, here rltrain.{mode}. "
                "Leave it out of the overrides."
            )
    texts += [f"{key}={typed(value, key)}" for key, value in given.items()]
    require_read(texts, mode)
    return texts


def require_load_step(load_step: object, names: Sequence[str]) -> None:
    """UsageError for what neither is an env step nor one of ``names``."""
    number = isinstance(load_step, Real) and not isinstance(load_step, bool)
    name = load_step is None or (isinstance(load_step, str) and load_step in names)
    if not (number or name):
        raise UsageError(
            f"load_step={load_step!r}: expected the env step of a checkpoint, or "
            f"{' or '.join(map(repr, names))}."
        )


def flat(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted keys and values of a nested mapping."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key.lstrip("+") not in MAPPING_KEYS:
            yield from flat(value, f"{key}.")
        else:
            yield key, value


@dataclass(frozen=True, kw_only=True)
class OwnEnv(Node):
    """An environment that was passed; the keyword ``maker`` only names it."""

    maker: Callable[..., object]

    def build(self, **facts: Any) -> Any:
        """``n_envs`` environments in lockstep."""
        keywords = {**self.kwargs, "maker": self.maker}
        return Node(path=self.path, target=self.target, kwargs=keywords).build(**facts)


@dataclass(frozen=True)
class OwnCallback:
    """A callback object, in place of a ``_target_`` node."""

    callback: Callback

    def build(self, **_: object) -> Callback:
        """The object itself."""
        return self.callback


def with_objects(
    settings: Settings, env: Callable[..., object] | None, callbacks: Sequence[Callback] | None
) -> Settings:
    """The settings with the objects passed from Python: an environment in place of the one they
    name, and callbacks after those that they name, in place of objects that the run was given
    before.

    Raises:
        UsageError: objects of the wrong kind.
    """
    settings = settings if env is None else with_env(settings, env)
    if callbacks is None:
        return settings
    if not isinstance(callbacks, Sequence):
        raise UsageError(f"callbacks: expected a list, got {callbacks!r}. Type callbacks=[…].")
    named = [node for node in settings.callbacks if node.target != HANDED_OVER_CALLBACK]
    records = [
        node for node in settings.plain["callbacks"] if node["_target_"] != HANDED_OVER_CALLBACK
    ]
    names = [f"{type(c).__module__}.{type(c).__qualname__}" for c in callbacks]
    records += [{"_target_": HANDED_OVER_CALLBACK, "name": name} for name in names]
    own: list[Any] = [OwnCallback(callback) for callback in callbacks]
    return replace(
        settings, callbacks=(*named, *own), plain={**settings.plain, "callbacks": records}
    )


def with_env(settings: Settings, env: Callable[..., object]) -> Settings:
    """The same settings with this environment in place of the one they name.

    Raises:
        UsageError: nothing that makes environments.
    """
    if not callable(env):
        raise UsageError(
            f"env={env!r}: expected a class of Gymnasium or PettingZoo, or a factory of "
            f"environments, got {type(env).__name__}. Pass the class itself, lambda: "
            "MyEnv(...), which makes a new one at every call, or lambda n_envs: "
            "MyBatchedEnv(n_envs, ...), since training and tests have environments of their own; "
            "an environment that rltrain knows by name is named in the overrides: "
            "['env=gymnasium', 'env.id=CartPole-v1']."
        )
    maker = f"{getattr(env, '__module__', '')}:{getattr(env, '__qualname__', repr(env))}"
    given = settings.choices["env"] in (*KINDS, OWN)

    def node(name: str) -> OwnEnv:
        options = settings.nodes[name].kwargs if given else {}
        values = {key: options.get(key, default) for key, default in OWN_OPTIONS.items()}
        keywords = {"maker": maker, **values}
        return OwnEnv(path="env", target=HANDED_OVER, kwargs=keywords, maker=env)

    own = node("env")
    supervision = {} if settings.supervision is None else asdict(settings.supervision)
    record = {"_target_": own.target, **own.kwargs, **supervision}
    return replace(
        settings,
        nodes={**settings.nodes, "env": own, "test.env": node("test.env")},
        choices={**settings.choices, "env": OWN},
        plain={**settings.plain, "env": record},
    )


def env_overrides(overrides: Sequence[str], env: Callable[..., object] | None) -> list[str]:
    """The overrides, completed for an environment that is passed from Python: ``env=gymnasium``, or
    ``env=pettingzoo`` for a class of PettingZoo's, unless they name one of the two.

    Raises:
        UsageError: another environment, or its options.
    """
    if env is None:
        return [*overrides]
    chosen = typed_value(overrides, "env")
    if chosen not in (None, *KINDS):
        raise UsageError(
            f"env={chosen} names an environment, and another one was passed: leave out one of "
            f"the two. Next to an object only {' or '.join(f'env={kind}' for kind in KINDS)} fits."
        )
    if chosen is None:
        from rltrain.env.gymnasium import is_team_class

        chosen = "pettingzoo" if is_team_class(env) else "gymnasium"
        overrides = [*overrides, f"env={chosen}"]
    own = OWN_OPTIONS if chosen == "gymnasium" else TEAM_OPTIONS
    texts = [text for text in overrides if text.lstrip("+").startswith(("env.", "test.env."))]
    keys = [text.partition("=")[0].lstrip("+").removeprefix("test.").split(".") for text in texts]
    known = (*own, "timeout")  # of hardware=process
    lost = [text for text, key in zip(texts, keys, strict=True) if key[1] not in known]
    if lost:
        raise UsageError(
            f"{', '.join(lost)}: an environment was passed, and these are options of another "
            f"one. Leave them out; yours has {', '.join(f'env.{name}' for name in own)}."
        )
    return [*overrides]


def own_callback(*, name: str) -> Callback:
    """In place of a callback object in the records of a run.

    Raises:
        ValueError: always, since an object cannot be made again from its name.
    """
    raise ValueError(
        f"This run was given the callback {name} as an object from Python. Continue with "
        "rltrain.resume(RUN_FOLDER, callbacks=[YOUR_CALLBACK]), or type callbacks=[] to continue "
        "without it."
    )
