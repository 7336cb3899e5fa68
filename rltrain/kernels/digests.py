"""Digests of plain code: whether it still is what the compiled counterparts were written for.

Plain code is what stands below a comment ``# twin: kernels/…``, which names the files that compute
it. Where it was changed, PyTorch computes it: what one reads is what runs. A digest is that of the
syntax tree, without docstrings, annotations and positions, and of the imports and constants of the
module that the code names. ``python -m rltrain.kernels.digests`` writes those of the code as it is.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

from torch import nn

from rltrain.common.machine.streams import say
from rltrain.interfaces import Loss
from rltrain.kernels.module_watch import COMPILED, computes_plainly

Kept = TypeVar("Kept")
FILE = Path(__file__).with_name("digests.json")
TWIN = "# twin: "
ROOT = Path(__file__).parents[2]
_made_for: dict[str, dict[str, Code]] = {}
"""The plain code that was compared last, by place."""
_seen: dict[Any, object] = {}
"""The attributes of modules and classes, and the code of functions, where ``live`` looks for it."""
KNOWN = {"rltrain", "torch", *sys.stdlib_module_names}
"""Packages of the code that counterparts compute."""
SKIPPED = {"annotation", "returns", "ctx", "type_comment", "lineno", "kind"}


class Code(NamedTuple):
    """A function, or a class without its functions."""

    digest: str
    n_decorators: int
    imported: tuple[tuple[str, str, str], ...]  # name here, module and name there; "": the module
    constants: tuple[tuple[str, object], ...]  # literals of the module that it names; None: builtin
    twins: tuple[str, ...]  # files below rltrain/kernels that the comment above it names


def doubled(
    kernels: Sequence[str], objects: Iterable[object], required: bool
) -> Sequence[str | type] | None:
    """The plain code that a counterpart of these objects still computes, and their classes; None if
    it was changed.

    Args:
        kernels: files whose plain code it is.
        objects: of networks and losses only the plain code of their classes counts.
        required: whether to refuse instead.

    Raises:
        ValueError: it was changed, and compiled code is required.
    """
    kinds = {kind: None for x in objects for kind in type(x).__mro__}
    classes = {f"{kind.__module__}:{kind.__name__}".removeprefix("rltrain.") for kind in kinds}
    places: list[str | type] = []
    files, read = {*kernels}, cache(Path.read_text)
    for place in (place for place, found in known().items() if not files.isdisjoint(found)):
        module, _, name = place.partition(":")
        owner, _, _ = name.partition(".")
        part = vars(find_module(place)).get(owner)
        of_model = isinstance(part, type) and issubclass(part, (nn.Module, Loss))
        if not of_model or f"{module}:{owner}" in classes:
            places.append(place)
    places += kinds
    reasons = dict.fromkeys(reason for place in places for reason in changed(place, read))
    for reason in reasons:
        computes_plainly(reason, required)
    return None if reasons else places


def leave_replaced(required: bool = False) -> None:
    """Let PyTorch compute what was replaced in memory since its counterparts were made; takes a few
    microseconds where nothing was since the last look.

    Raises:
        ValueError: something was, and counterparts are required.
    """
    if not COMPILED:
        return
    same = all(type(each.part) is each.made_for for each in COMPILED)
    if same and not required and _seen and seen_again():
        return
    compiled, read = list(COMPILED), cache(Path.read_text)
    places = {place for each in compiled for place in each.places}
    replaced = {place: changed(place, read) for place in places}
    _seen.clear()
    for x in chain.from_iterable(map(list_watched, replaced)):
        _seen[x] = x.__code__ if isinstance(x, FunctionType) else {**vars(x)}
    for each in compiled:
        reasons = [reason for place in each.places for reason in replaced[place]]
        if type(each.part) is not each.made_for:
            reasons.append(f"the class of {each.made_for.__name__} was replaced")
        for reason in reasons:
            computes_plainly(reason, required)
        each.made_for = type(each.part)
        if reasons:
            each.leave()


def source_file(place: str | type) -> str:
    """The file of ``package.module:name``, such as ``rltrain/algo/targets.py``, or of a class."""
    module = f"rltrain.{place.partition(':')[0]}" if isinstance(place, str) else place.__module__
    return f"{module.replace('.', '/')}.py"


def current() -> dict[str, str]:
    """The contents of the file that ``known`` reads, for the present code."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "rltrain").rglob("*.py")):
        if TWIN not in (text := path.read_text()):
            continue
        file = path.relative_to(ROOT).as_posix()
        module = file.removeprefix("rltrain/").removesuffix(".py").replace("/", ".")
        codes = parsed(text, file)
        for doubled in (name for name, code in codes.items() if code.twins):
            for name, code in pieces(codes, doubled):
                found[f"{module}:{name}"] = " ".join([code.digest, *code.twins])
    return found


@cache
def known() -> Mapping[str, Sequence[str]]:
    """The code that the counterparts were written for, by place: its digest, and the files that
    compute it (none of those that compute a class are at its functions).
    """
    found: dict[str, str] = json.loads(FILE.read_text())
    return {place: text.split() for place, text in found.items()}


def changed(place: str | type, read: Callable[[Path], str] = Path.read_text) -> list[str]:
    """Which functions of a piece of plain code are not those its counterparts compute, on disk or,
    replaced while the program runs, in memory, as reasons for the log; of a class those that are
    neither of this package, PyTorch or Python, and of one of PyTorch's those of other classes.
    """
    file = source_file(place)
    if isinstance(place, type):
        other = [name for name, value in vars(place).items() if not known_in(place, name, value)]
        return [f"{file}: {place.__name__}.{name} was changed" for name in other]
    module = find_module(place)
    codes = _made_for[place] = {}
    _seen.clear()
    try:
        every = parsed(read(Path(module.__file__ or "")), file)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []  # no source is installed
    codes |= pieces(every, place.partition(":")[2])
    before = {p.partition(":")[2]: digest for p, (digest, *_) in pieces(known(), place)}
    differ = [n for n in before.keys() | codes.keys() if n not in codes or n not in before]
    differ += [n for n in before.keys() & codes.keys() if codes[n].digest != before[n]]
    differ += [n for n, code in codes.items() if n not in differ and not live(module, n, code)]
    return [f"{file}: {name} was changed" for name in sorted(differ)]


def known_in(kind: type, name: str, value: object) -> bool:
    """Whether an attribute of a class is no function, or one that counterparts may compute."""
    of_torch = kind.__module__.startswith("torch.")
    if not isinstance(value := undecorated(value), FunctionType):
        return not (of_torch and name == "forward")
    wrapped = [value]
    while isinstance(inner := vars(wrapped[-1]).get("__wrapped__"), FunctionType):
        wrapped.append(inner)
    packages = {f.__globals__.get("__name__", "torch").partition(".")[0] for f in wrapped}
    if not (of_torch and packages <= KNOWN):
        return packages <= KNOWN
    code = wrapped[-1].__code__
    here = code.co_filename == sys.modules[kind.__module__].__file__
    own = here and code.co_qualname.rpartition(".")[0] in ("", kind.__qualname__)
    return own and (len(wrapped) == 1 or name != "forward")


def find_module(place: str) -> ModuleType:
    """The module of ``package.module:name``."""
    return importlib.import_module(f"rltrain.{place.partition(':')[0]}")


def pieces(codes: Mapping[str, Kept], name: str) -> Iterator[tuple[str, Kept]]:
    """A function, or a class and its functions."""
    return ((n, code) for n, code in codes.items() if n == name or n.startswith(f"{name}."))


@cache
def parsed(source: str, file: str) -> Mapping[str, Code]:
    """Functions and classes of a source file, and the functions of its classes, by name."""
    outer: dict[str, tuple[str, tuple[str, str, str] | None]] = {}
    codes: dict[str, Code] = {}
    literals: dict[str, object] = {}
    tree, lines = ast.parse(source, file), source.splitlines()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            there = getattr(node, "module", None) or ""
            for alias in node.names:
                here = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else here
                live = (here, there, alias.name) if there else (here, module, "")
                outer[here] = f"{there}.{alias.name}", live
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        outer[part.id] = "".join(canonical(node.value, set())), None
                if isinstance(target, ast.Name):
                    with suppress(ValueError, TypeError):  # no literal
                        literals[target.id] = ast.literal_eval(node.value)

    def code(node: Any, *more: str) -> Code:
        names: set[str] = set()
        text = [*canonical(node, names), *more]
        text += [outer[n][0] for n in sorted(names & outer.keys())]
        imported = tuple(x for n in sorted(names & outer.keys()) if (x := outer[n][1]) is not None)
        digest = hashlib.sha256("\n".join(text).encode()).hexdigest()[:12]
        own = names & (literals.keys() | (vars(builtins).keys() - outer.keys()))
        constants = tuple((n, literals.get(n)) for n in sorted(own))
        first = min(part.lineno for part in (node, *node.decorator_list))
        comment = lines[first - 2].strip()
        twins = comment.removeprefix(TWIN).split(", ") if comment.startswith(TWIN) else []
        kernels = tuple(kernel.removeprefix("kernels/") for kernel in twins)
        return Code(digest, len(node.decorator_list), imported, constants, kernels)

    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own = node.body if isinstance(node, ast.ClassDef) else []
            functions = {part.name: part for part in own if isinstance(part, ast.FunctionDef)}
            codes |= {f"{node.name}.{name}": code(part) for name, part in functions.items()}
            node.body = [part for part in node.body if part not in functions.values()]
            codes[node.name] = code(node, *functions)
    return codes


def canonical(node: object, names: set[str]) -> Iterator[str]:
    """A syntax tree as text, the same for every version of Python; adds the names it reads."""
    if isinstance(node, list):
        for part in node:
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)):
                yield from canonical(part, names)
    elif isinstance(node, ast.AST):
        if isinstance(node, ast.Name):
            names.add(node.id)
        yield f"({type(node).__name__}"
        for field in node._fields:
            value = getattr(node, field, None)
            if field not in SKIPPED and value not in (None, []):
                yield field
                yield from canonical(value, names)
        yield ")"
    else:
        yield repr(node)


def live(module: ModuleType, name: str, code: Code) -> bool:
    """Whether the object in memory is the one of the source: neither it nor what its module
    imported or defines as a constant was replaced.
    """
    value: object = module
    for part in name.split("."):
        value = vars(value).get(part)
    for here, there, original in code.imported:
        found: Any = importlib.import_module(there)
        if vars(module).get(here) is not (getattr(found, original, None) if original else found):
            return False
    if any(vars(module).get(constant) != literal for constant, literal in code.constants):
        return False
    if isinstance(value, type):
        return (value.__module__, value.__qualname__) == (module.__name__, name)
    value = undecorated(value)
    for _ in range(code.n_decorators):
        value = getattr(value, "__wrapped__", value)
    if not isinstance(value, FunctionType):
        return False
    own = inspect.unwrap(value) is value and value.__code__.co_filename == module.__file__
    return own and value.__code__.co_qualname == name


def seen_again() -> bool:
    """Whether what is watched is as it was at the last look."""
    try:
        now = [x.__code__ if isinstance(x, FunctionType) else vars(x) for x in _seen]
        return now == [*_seen.values()]
    except ValueError:  # arrays were compared, so one was replaced
        return False


def undecorated(value: object) -> object:
    """The function of a property or of a class method; anything else itself."""
    if type(value) is FunctionType and not vars(value):  # most are
        return value
    for attribute in ("fget", "func", "__func__"):
        value = getattr(value, attribute, value)
    return value


def list_watched(place: Any) -> Iterator[Any]:
    """The modules and classes whose attributes ``live`` reads, and the functions whose code."""
    read = [place, vars(place).get("forward")] if isinstance(place, type) else []
    for name, code in _made_for.get(place, {}).items():
        module, (outer, _, own) = find_module(place), name.rpartition(".")
        owner = vars(module).get(outer, module)
        read += [module, owner, undecorated(vars(owner).get(own))]
        names = (there for _, there, _ in code.imported if there.startswith("rltrain."))
        read += map(importlib.import_module, names)
    return (x for x in read if isinstance(x, (ModuleType, type, FunctionType)))


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n")
    say(f"wrote {FILE}")
