"""The text that a reader of the sources meets: docstrings and comments."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Each text with its line: docstrings and comments of Python; of other languages all text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.split("\n\n"), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED):
            yield getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or ""
    yield from _comments(text)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines are one text."""
    lines = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    for _, block in groupby(enumerate(lines.items()), lambda pair: pair[1][0] - pair[0]):
        found = [item for _, item in block]
        yield found[0][0], " ".join(comment for _, comment in found)
