"""Imports point down: the floors of the house, read from the source."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.imports import imported

PACKAGE = Path(__file__).parents[1] / "rltrain"
FLOORS = {
    name: floor
    for floor, names in {
        0: "types interfaces errors common.schedule common.seeding update_ratio "
        "common.number_types common.imports common.stateful stage",
        1: "common battles logger",
        2: "algo env buffer hardware video",
        2.1: "kernels",
        3: "migrate trainer rank_trainer periodic_tests callback step_hooks examples offline",
        4: "config",
        4.1: "report assemble",
        4.2: "mode",
        5: "api main __main__ __init__",
    }.items()
    for name in names.split()
}
"""The lowest floor a file stands on; a file with a row of its own is not on its folder's."""
ONLY_IN = {
    "hydra": {"main", "config"},
    "omegaconf": {"main", "config"},
    "wandb": {"logger"},
    "matplotlib": {"logger", "report"},
    "PIL": {"battles", "env", "video"},
    "psutil": {"common", "hardware"},
    "imageio_ffmpeg": {"video"},
    "numba": {"battles", "common", "kernels"},  # buffer compiles through rltrain.common.numba_cache
    "pettingzoo": {"battles", "env"},
    "gymnasium": {"battles", "env"},
    "onnxruntime": {"mode"},
    "optuna": {"mode"},
    "pandas": {"report"},
    "huggingface_hub": {"mode"},
    "ray": {"hardware"},
}


def part(path: Path) -> str:
    """The room a file belongs to: its package, or its own name on the ground floor."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            yield from (inner, *statements(inner))


@cache
def imports(path: Path) -> set[str]:
    """Full names of imported modules and names, for type checking included."""
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPT = PACKAGE / "mode/export/act.py"
"""Is copied beside an exported network and runs without rltrain."""
STUBS = sorted(PACKAGE.rglob("*.pyi"))
"""The public names of packages."""


def floor(module: str) -> float:
    """The floor of a module's name, which is relative to rltrain: its own row or its folder's."""
    folder = module.partition(".")[0]
    return FLOORS.get(".".join(module.split(".")[:2]), FLOORS.get(folder, -1))


def wrong_imports(path):
    here = part(path)
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    if here not in FLOORS:
        yield f"{path} stands on no floor: add it to FLOORS"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "rltrain" or len(parts) == 1 or parts[1] not in FLOORS:
            continue
        there, target = parts[1], ".".join(parts[1:])
        if floor(target) > floor(module):
            yield f"{module} imports upward: {name}"
        elif there != here and floor(target) == floor(module) == 2:
            yield f"{module}: {here} imports {there}, which stands next to it"
        elif here == "kernels" and floor(target) == 2 and there not in {"algo", "buffer"}:
            yield f"{module} imports {there}: kernels are counterparts of algo and buffer"


def test_imports_point_down():
    assert [problem for path in [*FILES, *STUBS] for problem in wrong_imports(path)] == []


def test_battles_import_nothing_else_of_rltrain():
    files = [path for path in [*FILES, *STUBS] if part(path) == "battles"]
    assert len(files) > 40
    for path in files:
        others = {name for name in imports(path) if name.partition(".")[0] == "rltrain"}
        assert [name for name in others if not f"{name}.".startswith("rltrain.battles.")] == [], (
            path
        )
        nodes = statements(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), path


def test_no_import_cycles():
    modules = {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts): p for p in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    del modules["rltrain"]  # its names are imported on first use
    graph = {}
    for module, path in modules.items():
        every = imports(path)  # "from a import b" is listed as a and as a.b
        names = [n for n in every if not any(other.startswith(f"{n}.") for other in every)]
        targets = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = targets & modules.keys() - {module}
    with pytest.raises(CycleError):
        tuple(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
    tuple(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_library_is_imported_in_its_own_rooms_only(library):
    files = [p for p in FILES if p != SCRIPT]
    users = {part(p) for p in files if any(n.split(".")[0] == library for n in imports(p))}
    assert users <= ONLY_IN[library]


def test_the_package_imports_nothing_heavy():
    assert imported("import rltrain", "torch", "hydra", "numba") == []


PATH = (
    *("trainer", "algo/learner", "algo/loss/td", "algo/targets", "algo/mixer/qmix"),
    "algo/network/gru",
)


def test_the_path_for_readers_is_short_and_about_the_method_only():
    texts = [(PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in PATH]
    texts = [re.sub(r"(?m)^ *# twin: .*\n", "", text) for text in texts]  # a line names each kernel
    assert sum(text.count("\n") for text in texts) <= 1150
    for name, text in zip(PATH, texts, strict=True):
        found = re.findall(r"(?i)\b\w*(?:kernel|thread|crash|numba|compil)\w*", text)
        assert not found, f"{name}.py: {found}"
