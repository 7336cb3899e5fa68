"""Which keys each mode reads. One that a mode does not read is refused, wherever it is set.

A key of a new mode gets a row in ``ONLY_IN``; a mode that loads a run gets one in ``LOADED``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltrain.config.catalog import FREE_FORM, SHIPPED, Tree
from rltrain.config.command_line import as_text
from rltrain.config.overrides import flat_keys, is_below, parse
from rltrain.errors import UsageError

ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "report": ("report",),
    "runs": ("report",),
    "match": ("match",),
    "checkpoints": ("match",),
    "hub": ("push",),
    "init": ("init",),
    "tune": ("tune",),
    "sweep": ("sweep", "resume of a sweep"),
    "config": ("train", "sweep", "tune", "import"),
}
"""Keys of commands, by their first part, and the modes that read them."""
NEVER_IN_A_FILE = tuple(key for key in ONLY_IN if key not in ("tune", "sweep"))
"""Those that take effect only where they are typed."""
WEIGHTS = "mode checkpoint load_step trust logger algo.network algo.distribution"
TESTS = "test.episodes test.epsilon test.opponent test.env"
DEVICE = "hardware.device hardware.threads hardware.kernels"
EPISODES = f"{WEIGHTS} {TESTS} {DEVICE} seed record env dataset algo.policy"
LOADED = {
    "evaluate": f"{EPISODES} test.n_envs test.n_workers",
    "match": f"{EPISODES} test.n_envs test.n_workers match checkpoints",
    "export": f"{WEIGHTS} {TESTS} {DEVICE} seed env test.n_envs",
    "watch": EPISODES,
    "push": f"{WEIGHTS} hub",
}
"""Keys that modes read which play with what a run has learned: each with all that it holds."""


def require_read(overrides: Sequence[str], mode: str) -> None:
    """Refuse typed keys that a mode does not read; unknown ones and the choices of groups are
    left to the composition.

    Raises:
        UsageError: the first one, and which mode reads it.
    """
    there = flat_keys(SHIPPED.tree("config"))  # other keys are left to the composition
    known = {*SHIPPED.tree("config"), *SHIPPED.groups}
    for text, o in zip(overrides, parse(overrides), strict=True):
        key, value = o.key_or_group, o.value()
        root = key.partition(".")[0]
        modes = ONLY_IN.get(root, (mode,))
        if mode not in modes and (key in there or is_below(key, FREE_FORM)):
            raise UsageError(f"{text}: {only_in(root, modes)}")
        if key in SHIPPED.groups or root not in known:
            continue
        inner = [f"{key}.{name}" for name in value] if isinstance(value, dict) else []
        if not all(reads(mode, each) for each in inner or [key]):
            raise UsageError(
                f"{text}: has no effect with mode={mode}, which does not read it. Leave it out."
            )


def reads(mode: str, key: str) -> bool:
    """Whether a mode reads a key of a run."""
    names = LOADED.get(mode)
    return names is None or is_below(key, names.split())


def only_in(root: str, modes: Sequence[str]) -> str:
    """Which modes read a key, and what to do in another one."""
    if root == "sweep":
        return "only for sweeps. Type rltrain -m … with several values for a key, or leave it out."
    if root == "config":
        return "only for new runs. Leave it out."
    return f"only for mode={modes[0]}. Leave it out, or type mode={modes[0]}."


def require_typed(defaults: Tree, roots: Sequence[str] = NEVER_IN_A_FILE) -> None:
    """Refuse keys of commands that a preset sets, where nothing reads them.

    Args:
        defaults: a composition without what was typed.
        roots: the first parts of such keys.

    Raises:
        UsageError: the first one.
    """
    shipped = SHIPPED.tree("config")
    for root in roots:
        for path in differing(shipped[root], defaults[root], root):
            typed = (
                f", or type rltrain {as_text(f'{path}={defaults[root]}')}" if path == root else ""
            )
            raise UsageError(
                f"{path} takes effect only where it is typed, and not in a file. Leave it out "
                f"there{typed}."
            )


def differing(before: object, after: object, path: str) -> list[str]:
    """The dotted paths where two values of ``path`` differ, mappings key by key."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = dict.fromkeys([*before, *after])
        return [p for n in names for p in differing(before.get(n), after.get(n), f"{path}.{n}")]
    return [] if before == after else [path]
