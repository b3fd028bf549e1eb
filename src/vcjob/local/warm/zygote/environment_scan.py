"""Finds out whether a program sets, for itself, a variable that acts only before the imports a zygote has done.

`program.check` calls it in a forked rank, before the user's program runs. The program and the modules of its own that
it imports are read as text; what is installed (`site-packages`) and the standard library are not. A name that is
known only when the program runs counts as such a variable: a plain start is always right, only slower.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^#\n]*)|import[ \t]+([^#\n]+))", re.M
)
_NAME = re.compile(rb"\w[\w.]*")
_MOST_FILES, _MOST_BYTES = 2000, 32 << 20

#: Stands for a name that only the running program knows.
UNKNOWN = "a variable whose name is computed"


def first_setting(program: list[str], folders: list[str], acts: re.Pattern[str]) -> tuple[str, str] | None:
    """A file of the program and the variable that it sets, if any matches `acts`.

    `program` are the files that are run first, `folders` those that the program imports its own modules from.
    """
    waiting, seen, size = list(program), set(program), 0
    while waiting:
        path = waiting.pop(0)
        try:
            with open(path, "rb") as file:
                source = file.read()
        except OSError:
            continue
        size += len(source)
        if len(seen) > _MOST_FILES or size > _MOST_BYTES:
            return path, UNKNOWN
        for name in _names_set(source):
            if name == UNKNOWN or acts.fullmatch(name):
                return path, name
        for found in _imported_files(source, path, folders):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return None


def own_folders(first: str) -> list[str]:
    """The folder of the program and the entries of sys.path that hold neither the library nor installed packages."""
    library = os.path.dirname(os.__file__)
    return [
        first,
        *(f for f in sys.path if os.path.isdir(f) and not f.startswith(library) and "-packages" not in f),
    ]


def files_of_module(target: str, folders: list[str]) -> list[str]:
    """The files that `python -m target` reads, as far as they are in these folders."""
    return list(_files_of([*target.split("."), "__main__"], folders))


def _names_set(source: bytes) -> Iterator[str]:
    if b"environ" not in source and b"putenv" not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # the normal start prints Python's own error
    aliases = {"environ", "environb"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_environ(node.value, aliases):
            aliases.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript) and _is_environ(target.value, aliases):
                    yield _literal(target.slice)
                elif isinstance(node, ast.AugAssign) and _is_environ(target, aliases):
                    yield from _keys(node.value)
        elif isinstance(node, ast.Call):
            yield from _names_of_call(node, aliases)


def _names_of_call(node: ast.Call, aliases: set[str]) -> Iterator[str]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "putenv" and node.args:
        yield _literal(node.args[0])
    elif isinstance(function, ast.Attribute) and _is_environ(function.value, aliases):
        if name == "setdefault" and node.args:
            yield _literal(node.args[0])
        elif name == "update":
            for argument in node.args:
                yield from _keys(argument)
            for keyword in node.keywords:
                yield keyword.arg or UNKNOWN


def _is_environ(node: ast.expr, aliases: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("environ", "environb")
    return isinstance(node, ast.Name) and node.id in aliases


def _keys(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Dict):
        for key in node.keys:
            yield UNKNOWN if key is None else _literal(key)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "dict"
        and not node.args
    ):
        for keyword in node.keywords:
            yield keyword.arg or UNKNOWN
    else:
        yield UNKNOWN


def _literal(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if isinstance(value, str) else UNKNOWN


def _imported_files(source: bytes, path: str, folders: list[str]) -> Iterator[str]:
    """The source files, in the program's own folders, of the modules that this text may import."""
    for match in _IMPORT.finditer(source):
        package, members, modules = (os.fsdecode(group or b"") for group in match.groups())
        if modules:
            for name in _NAME.findall(modules.encode()):
                yield from _files_of(os.fsdecode(name).split("."), folders)
            continue
        level = len(package) - len(package.lstrip("."))
        parts = package[level:].split(".") if package[level:] else []
        roots = folders
        if level:
            roots = [os.path.join(os.path.dirname(path), *[".."] * (level - 1))]
        yield from _files_of(parts, roots)
        for name in _NAME.findall(members.encode()):
            yield from _files_of([*parts, os.fsdecode(name)], roots)


def _files_of(parts: list[str], roots: list[str]) -> Iterator[str]:
    for root in roots:
        for length in range(1, len(parts) + 1):
            place = os.path.normpath(os.path.join(root, *parts[:length]))
            for candidate in (place, os.path.join(place, "__init__")):
                for suffix in importlib.machinery.SOURCE_SUFFIXES:
                    if os.path.isfile(candidate + suffix):
                        yield candidate + suffix
