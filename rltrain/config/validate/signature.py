"""The keywords of a class or function of rltrain's own, read from its source without importing it.

The annotations of constructors define valid values, but their modules import torch, which takes
seconds. Names are followed through imports as Python would, and only the
annotations themselves are evaluated.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Set
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rltrain.common.keywords import WHOLE

PACKAGE = Path(__file__).parents[2]
LIGHT = ("typing", "collections", "pydantic", "annotated_types", "pathlib", "enum")
"""Packages that annotations may name; importing them is cheap."""
(NO_ARGUMENTS,) = ast.parse("def __init__(self): ...").body
"""The constructor of a class that has none of its own."""


class UnreadableError(Exception):
    """A name that cannot be resolved without importing its module."""


class Arguments:
    """The arguments of a function as its source writes them, without those in ``skip``; the fields
    of dataclasses in their place where the function is decorated with ``flat_keywords``.
    """

    def __init__(
        self, module: Module, function: ast.FunctionDef, n_given: int, skip: Set[str]
    ) -> None:
        args = function.args
        listed = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(listed) - len(args.defaults))
        pairs = [*zip(listed, [*defaults, *args.defaults], strict=True)][n_given:]
        pairs += zip(args.kwonlyargs, args.kw_defaults, strict=True)
        named = [Argument(module, arg.arg, arg.annotation, default) for arg, default in pairs]
        if is_flat(function):
            named = [each for argument in named for each in argument.fields() or [argument]]
        kept = [argument for argument in named if argument.name not in skip]
        self.annotations = {a.name: a.module.annotation(a.annotation) for a in kept}
        self.defaults = {
            a.name: a.module.evaluate(a.default) for a in kept if a.default is not None
        }
        self.free = args.kwarg is not None


class Argument(NamedTuple):
    """An argument or a field, and the module that writes it."""

    module: Module
    name: str
    annotation: ast.expr | None
    default: ast.expr | None

    def fields(self) -> list[Argument]:
        """The fields of the dataclass that the annotation names, if it names one."""
        if not isinstance(self.annotation, ast.Name) or hasattr(builtins, self.annotation.id):
            return []
        module, node = self.module.find(self.annotation.id)
        if not isinstance(node, ast.ClassDef) or module.name == WHOLE:
            return []
        return list(fields_of(module, node).values())


def fields_of(module: Module, node: ast.ClassDef) -> dict[str, Argument]:
    """The fields of a dataclass by name, those of its bases first."""
    found: dict[str, Argument] = {}
    for base in node.bases:
        where, parent = module.find(ast.unparse(base))
        if isinstance(parent, ast.ClassDef):
            found |= fields_of(where, parent)
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            name = ast.unparse(member.target)
            found[name] = Argument(module, name, member.annotation, member.value)
    return found


def is_flat(function: ast.FunctionDef) -> bool:
    """Whether ``flat_keywords`` is the one decorator."""
    return [ast.unparse(each) for each in function.decorator_list] == ["flat_keywords"]


def read_arguments(target: str, n_given: int, skip: Set[str]) -> Arguments:
    """The arguments of the class or function that a ``_target_`` names.

    Args:
        n_given: how many of a function's first arguments its caller fills.
        skip: arguments whose annotations are not needed.

    Raises:
        UnreadableError: it is not of rltrain, or more than plain arguments.
    """
    name, _, leaf = target.rpartition(".")
    module, node = module_of(name).find(leaf)
    if isinstance(node, ast.FunctionDef) and (not node.decorator_list or is_flat(node)):
        return Arguments(module, node, n_given, skip)
    if isinstance(node, ast.ClassDef):
        module, function = constructor(module, node)
        return Arguments(module, function, 1, skip)
    raise UnreadableError(target)


def constructor(module: Module, node: ast.ClassDef) -> tuple[Module, ast.FunctionDef]:
    """The ``__init__`` of a class or of the base that has it."""
    if node.decorator_list or node.keywords:
        raise UnreadableError(node.name)
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name in ("__new__", "__init__"):
            plain = not member.decorator_list or is_flat(member)
            if member.name == "__new__" or not plain:
                raise UnreadableError(node.name)
            return module, member
    if [ast.unparse(base) for base in node.bases] in ([], ["nn.Module"]):
        assert isinstance(NO_ARGUMENTS, ast.FunctionDef)
        return module, NO_ARGUMENTS
    if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name):
        raise UnreadableError(node.name)
    where, base = module.find(node.bases[0].id)
    if not isinstance(base, ast.ClassDef):
        raise UnreadableError(node.name)
    return constructor(where, base)


class Module:
    """The top-level names of a module of rltrain, each with what defines it."""

    def __init__(self, name: str) -> None:
        package, *parts = name.split(".")
        path = PACKAGE.joinpath(*parts)
        stubs = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
        path = next((each for each in stubs if each.is_file()), path)
        if package != "rltrain" or not path.is_file():
            raise UnreadableError(name)
        self.name = name
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes: dict[str, ast.stmt] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in statements(tree.body):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self.nodes[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.nodes[node.targets[0].id] = node

    def find(self, name: str) -> tuple[Module, ast.stmt]:
        """What defines a name, wherever it was imported from."""
        if name in self.nodes:
            return self, self.nodes[name]
        if name in self.imported:
            where, leaf = self.imported[name]
            return module_of(where).find(leaf)
        raise UnreadableError(f"{self.name}.{name}")

    def value(self, name: str) -> Any:
        """The value of a name in an annotation."""
        if name in self.imported and self.imported[name][0].partition(".")[0] in LIGHT:
            where, leaf = self.imported[name]
            return getattr(import_module(where), leaf)
        if name not in self.imported and name not in self.nodes and hasattr(builtins, name):
            return getattr(builtins, name)
        module, node = self.find(name)
        if not isinstance(node, ast.Assign):
            raise UnreadableError(f"{self.name}.{name}")
        if module.name == "rltrain.common.number_types":  # names of its own, which it also compares
            return getattr(import_module(module.name), name)
        return module.evaluate(node.value)

    def annotation(self, node: ast.expr | None) -> Any:
        """An annotation as ``typing.get_type_hints`` gives it; Any where there is none."""
        value = Any if node is None else self.evaluate(node)
        return type(None) if value is None else value

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression that names nothing heavy."""
        code = compile(ast.Expression(node), self.name, "eval")
        try:
            return eval(code, {"__builtins__": {}}, Names(self))
        except UnreadableError:
            raise
        except Exception as error:
            raise UnreadableError(f"{self.name}: {ast.unparse(node)}") from error


class Names(dict[str, Any]):
    """The names of a module, each looked up when it is used."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def __missing__(self, name: str) -> Any:
        return self.module.value(name)


@cache
def module_of(name: str) -> Module:
    """A module's source; files do not change while a process runs."""
    return Module(name)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The top-level statements, those for type checkers included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements(node.body)
