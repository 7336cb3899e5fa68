"""Edited copies of source files, and imports of them."""

import ast
import importlib.abc
import importlib.util
import sys

SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
SWAPPED |= {ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt}
SWAPPED |= {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq}
SWAPPED |= {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}


class Edit(ast.NodeTransformer):
    """Changes one operator, number or flag: that with a number of its own."""

    def __init__(self, number):
        self.number, self.n_seen = number, 0

    def here(self):
        self.n_seen += 1
        return self.n_seen - 1 == self.number

    def visit_arg(self, node):
        return node  # no annotations

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node):
        node.body = [self.visit(part) for part in node.body]
        return node

    def visit_Constant(self, node):
        if isinstance(node.value, (bool, int, float)) and self.here():
            return ast.copy_location(ast.Constant(not node.value), node)
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) in SWAPPED and self.here():
            node.op = SWAPPED[type(node.op)]()
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if type(node.ops[0]) in SWAPPED and self.here():
            node.ops[0] = SWAPPED[type(node.ops[0])]()
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return node.operand if self.here() else node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if self.here():
            node.attr += "_edited"
        return node


def found(tree, name):
    """A function or class of a tree by its name with dots."""
    node = tree
    for part in name.split("."):
        node = next(n for n in node.body if getattr(n, "name", None) == part)
    return node


def n_edits(source, name):
    edit = Edit(-1)
    for part in own_body(found(ast.parse(source), name)):
        edit.visit(part)
    return edit.n_seen


def own_body(node):
    """The statements of a function, or those of a class that are not functions."""
    functions = isinstance(node, ast.ClassDef)
    return [part for part in node.body if not (functions and isinstance(part, ast.FunctionDef))]


def edited(source, name, number):
    """The source with one edit of one function; with one more statement where number is None."""
    tree = ast.parse(source)
    node = found(tree, name)
    if number is None:
        node.body.append(ast.parse("added = 1").body[0])
    else:
        edit, own = Edit(number), own_body(node)
        node.body = [edit.visit(part) if part in own else part for part in node.body]
    return ast.unparse(ast.fix_missing_locations(tree))


class FromFile(importlib.abc.MetaPathFinder):
    """Imports one module from another file."""

    def __init__(self, name, path):
        self.name, self.path = name, path

    def find_spec(self, name, path=None, target=None):
        return (
            importlib.util.spec_from_file_location(name, self.path) if name == self.name else None
        )


def replace_module(name, path):
    """Let ``import`` find the copy of a module at a path."""
    sys.meta_path.insert(0, FromFile(name, path))
