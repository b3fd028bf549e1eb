"""The modules of the package, read once for all tests that check their text.

Only what the tests use is kept: half a million nodes would make every garbage collection slower.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import vcjob

SOURCES = Path(vcjob.__file__).parent
MODULES = sorted(path for path in SOURCES.rglob("*.py") if path.name != "_version.py")
_OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """What a module contains."""

    lines: int
    documented: bool
    #: Lines of the module's docstring that are not blank.
    docstring_lines: int
    #: String constants that are no docstrings, with their lines.
    strings: tuple[tuple[int, str], ...]
    #: (module, name) of every `from module import name`.
    imports: frozenset[tuple[str, str]]
    bare_classes: tuple[str, ...]


@cache
def read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, _OWNERS) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return Source(
        len(text.splitlines()),
        not text.strip() or bool(ast.get_docstring(tree)),
        sum(bool(line.strip()) for line in (ast.get_docstring(tree) or "").splitlines()),
        tuple(
            (node.lineno, node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        ),
        frozenset(
            (node.module, alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        ),
        tuple(
            node.name for node in tree.body if isinstance(node, ast.ClassDef) and not ast.get_docstring(node)
        ),
    )
