"""The text that a reader of the sources meets: docstrings and comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The fields of statements that hold statements, and `except` and `case` clauses.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
#: A string, in which "#" begins no comment; a comment; or the end of a line. `tokenize` takes ten times as long.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''
    r'|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|(?P<comment>#[^\n]*)|\n',
    re.DOTALL,
)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Each text with its line: docstrings and comments of Python; of other languages all text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.split("\n\n"), 1)
        return
    for node in _documented(ast.parse(text)):
        yield getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or ""
    yield from _comments(text)


def _documented(
    tree: ast.AST,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """What may have a docstring. Only statements contain it, and most nodes are expressions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DOCUMENTED):
            yield node
        for block in _BLOCKS:
            waiting += getattr(node, block, ())


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines are one text."""
    lines, line = {}, 1
    for token in _TOKEN.finditer(text):
        if token["comment"]:
            lines[line] = token["comment"].lstrip("#: ")
        line += token[0].count("\n")
    for _, block in groupby(enumerate(lines.items()), lambda pair: pair[1][0] - pair[0]):
        found = [item for _, item in block]
        yield found[0][0], " ".join(comment for _, comment in found)
