"""The shape of the code: small folders, small modules, and a docstring wherever a reader arrives."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import vcjob

SOURCES = Path(vcjob.__file__).parent
MODULES = sorted(path for path in SOURCES.rglob("*.py") if path.name != "_version.py")
#: One module per verb; one state machine (docs/decisions/0018-sub-packages.md).
LARGE_FOLDERS = {"cli", "lifecycle"}
MAX_MODULES, MAX_LINES = 15, 400


def test_no_folder_has_more_than_fifteen_modules() -> None:
    counted = Counter(str(path.parent.relative_to(SOURCES)) for path in MODULES if path.name != "__init__.py")
    assert {
        folder: n for folder, n in counted.items() if n > MAX_MODULES and folder not in LARGE_FOLDERS
    } == {}


def test_no_module_has_more_than_four_hundred_lines() -> None:
    lengths = {str(path.relative_to(SOURCES)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_every_module_has_a_docstring() -> None:
    bare = [
        path
        for path in MODULES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert [str(path.relative_to(SOURCES)) for path in bare] == []


def test_every_class_that_another_module_imports_has_a_docstring() -> None:
    imported: set[tuple[str, str]] = set()
    bare: dict[tuple[str, str], str] = {}
    for path in MODULES:
        module = ".".join(("vcjob", *path.relative_to(SOURCES).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.update((node.module, alias.name) for alias in node.names)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not ast.get_docstring(node):
                bare[module, node.name] = f"{module}.{node.name}"
    assert sorted(name for key, name in bare.items() if key in imported) == []
