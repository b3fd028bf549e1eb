"""A Python function as the program of a Job: its source, and the source of what it uses, as one readable text.

`building.pytorch_job` calls it. The text is part of the Job, so it can be read with `render` and needs neither pickle
nor vcjob in the image. Shipped are the function, functions and classes of the same file or notebook, plain values, and
imports of everything else. What cannot be shipped that way, or a text of more than 64 KiB, is a UserError.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any

from vcjob.errors import UserError

#: A variable of a Linux process holds 128 KiB, and the Job holds the text once for each task.
MAX_BYTES = 64 * 1024
#: Runs the shipped text from a file, so that tracebacks show its lines and worker processes can import it.
LAUNCHER = """\
import atexit, os, runpy, shutil, sys, tempfile
folder = tempfile.mkdtemp(prefix="vcjob-")
atexit.register(shutil.rmtree, folder, True)
sys.argv = [os.path.join(folder, sys.argv[1]), *sys.argv[2:]]
with open(sys.argv[0], "w", encoding="utf-8") as file:
    file.write(os.environ["VCJOB_FUNCTION"])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict, set)


def function_program(function: Callable[..., object], parameters: Mapping[str, object] | None = None) -> str:
    """The text of a program that calls the function with the parameters, which must be plain values."""
    name = function_name(function)
    parts = _Parts(function)
    parts.add(name, function)
    if parts.refused:
        raise UserError(
            f"the function {name!r} uses what cannot be shipped with it: {'; '.join(parts.refused)}",
            hint="create it inside the function, or pass plain values with `parameters`",
        )
    unfit = [key for key, value in (parameters or {}).items() if not _is_plain(value)]
    if unfit:
        raise UserError(
            f"parameters must be plain values (numbers, texts, lists, dictionaries): {', '.join(unfit)}",
            hint="create other objects inside the function",
        )
    call = ", ".join(f"{key}={value!r}" for key, value in (parameters or {}).items())
    text = "\n".join(
        ["from __future__ import annotations", *sorted(parts.imports), *parts.values, "", *parts.sources]
    )
    text = f'{text}\n\nif __name__ == "__main__":\n    {name}({call})\n'
    if len(text.encode()) > MAX_BYTES:
        raise UserError(
            f"the function {name!r} has {len(text.encode()):,} bytes with all that it uses; at most {MAX_BYTES:,} can be shipped",
            hint="put the code into the image, and data into a volume",
        )
    return text


def function_name(function: Callable[..., object]) -> str:
    """Its name; UserError where it is no plain function."""
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise UserError(
            f"{function!r} is not a function that was defined with `def`",
            hint="define a function that calls it, and pass that",
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UserError(
            f"{function.__name__!r} is a coroutine or a generator, which does not run when it is called",
            hint="define a function that runs it, for example with asyncio.run",
        )
    return function.__name__


class _Parts:
    """What a function needs: imports, plain values and sources, each before its first use."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._module = function.__module__
        self._seen: set[str] = set()
        self.imports: set[str] = set()
        self.values: list[str] = []
        self.sources: list[str] = []
        self.refused: list[str] = []

    def add(self, name: str, value: object) -> None:
        """Add what the name stands for, and everything that this uses."""
        if name in self._seen:
            return
        self._seen.add(name)
        if isinstance(value, ModuleType):
            whole = value.__name__
            self.imports.add(f"import {whole}" if name == whole else f"import {whole} as {name}")
        elif isinstance(value, FunctionType | type) and value.__module__ == self._module:
            self._add_source(name, value)
        elif _is_plain(value):
            self.values.append(f"{name} = {value!r}")
        elif (origin := _origin(value)) is not None:
            module, own = origin
            self.imports.add(
                f"from {module} import {own}" if own == name else f"from {module} import {own} as {name}"
            )
        else:
            self.refused.append(f"{name} ({type(value).__name__})")

    def _add_source(self, name: str, value: FunctionType | type) -> None:
        source = _source(value)
        if source is None:
            self.refused.append(f"{name} (its source is not known)")
            return
        scope = _scope(value)
        tree = ast.parse(source)
        for used in sorted(_names(source) & scope.keys() - {value.__name__}):
            self.add(used, scope[used])
            if isinstance(scope[used], ModuleType):
                self.imports.update(f"import {path}" for path in _submodules(tree, used, scope[used]))
        self.sources += ["", source.rstrip()]
        if value.__name__ != name:
            self.sources += ["", f"{name} = {value.__name__}"]


def _is_plain(value: object) -> bool:
    """Whether its text can be read back as the same value."""
    if type(value) not in _PLAIN:
        return False
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _origin(value: object) -> tuple[str, str] | None:
    """The module and the name under which others can import it."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    return (module, name) if getattr(sys.modules.get(module), name, None) is value else None


def _scope(value: FunctionType | type) -> Mapping[str, Any]:
    """The names that its source can use, without Python's own."""
    if isinstance(value, type):
        return _without_builtins(vars(sys.modules[value.__module__]))
    cells = {
        name: cell.cell_contents
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        if cell is not None
    }
    return {**_without_builtins(value.__globals__), **cells}


def _without_builtins(names: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in names.items()
        if getattr(builtins, name, names) is not value and not (name.startswith("__") and name.endswith("__"))
    }


def _source(value: FunctionType | type) -> str | None:
    try:
        return dedent(inspect.getsource(value))
    except (OSError, TypeError):  # a class of a notebook, before Python 3.13
        return _class_source(value) if isinstance(value, type) else None


def _class_source(value: type) -> str | None:
    """The source of a class, from the cell of one of its methods."""
    files = {each.__code__.co_filename for each in vars(value).values() if isinstance(each, FunctionType)}
    for text in ("".join(linecache.getlines(file)) for file in files):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]) + "\n")
    return None


def _names(source: str) -> set[str]:
    """The names that the source reads from its surroundings; annotations are not evaluated."""
    flags = __future__.annotations.compiler_flag
    return set(_loaded(compile(source, "<function>", "exec", flags=flags, dont_inherit=True)))


def _loaded(code: CodeType) -> Iterator[str]:
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in _LOADS)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loaded(constant)


def _submodules(tree: ast.AST, name: str, module: ModuleType) -> Iterator[str]:
    """Modules below `module` that the source names as attributes: `import torch` alone may not load torch.nn."""
    for node in ast.walk(tree):
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id == name == module.__name__:
            for end in range(1, len(path) + 1):
                if (dotted := ".".join([name, *path[:end]])) in sys.modules:
                    yield dotted
