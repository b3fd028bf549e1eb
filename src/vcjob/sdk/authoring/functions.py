"""Turns a Python function into the program of a Job: one readable text with its source and the source of what it uses.

`building.pytorch_job` calls it. The text is part of the Job, so it can be read with `render` and needs neither pickle
nor vcjob in the image. It contains the function, the functions and classes of the same file or notebook that
it uses, plain values, and imports of everything else. UserError for anything else, or a text of more than 64 KiB.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from vcjob.errors import UserError
from vcjob.sdk.authoring.definition_values import Source, Unshippable
from vcjob.sdk.authoring.function_source import (
    class_functions,
    class_source,
    defined_name,
    function_source,
    is_method,
    notebook_cells,
)
from vcjob.sdk.authoring.plain_values import is_plain, mutable_parts, same_plain

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
_NO_VALUE, _UNDEFINED = object(), object()
#: Names that every module has.
_MODULE_NAMES = frozenset(
    {*vars(ModuleType("")), "__annotations__", "__builtins__", "__cached__", "__file__"}
)


def function_program(function: Callable[..., object], parameters: Mapping[str, object] | None = None) -> str:
    """The text of a program that calls the function with the parameters, which must be plain values."""
    name = function_name(function)
    assert isinstance(function, FunctionType)
    own = defined_name(function)
    parts = _Parts(function)
    parts.add(own, function)
    if parts.refused:
        raise UserError(
            f"the function {name!r} uses what cannot be shipped with it: {'; '.join(parts.refused)}",
            hint="create it inside the function, or pass plain values with `parameters`",
        )
    call = ", ".join(f"{key}={value!r}" for key, value in _checked(function, parameters or {}).items())
    text = "\n".join(
        ["from __future__ import annotations", *sorted(parts.imports), *parts.values, "", *parts.sources]
    )
    text = f'{text}\n\nif __name__ == "__main__":\n    {own}({call})\n'
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
    if is_method(function):
        raise UserError(
            f"{function.__qualname__!r} is a method", hint="define a function that calls it, and pass that"
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UserError(
            f"{function.__name__!r} is a coroutine or a generator, which does not run when it is called",
            hint="define a function that runs it, for example with asyncio.run",
        )
    return function.__name__


def _checked(function: Callable[..., object], parameters: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters, with which the function can be called."""
    if not isinstance(parameters, Mapping):
        raise UserError(
            f"parameters must be a dictionary, not a {type(parameters).__name__}",
            hint="give the value of every argument by its name",
        )
    unnamed = [key for key in parameters if not str.isidentifier(f"{key}") or keyword.iskeyword(f"{key}")]
    if unnamed:
        raise UserError(
            f"parameters that cannot be the name of an argument: {', '.join(map(repr, unnamed))}",
            hint="use the names of the function's arguments",
        )
    unfit = [key for key, value in parameters.items() if not is_plain(value)]
    if unfit:
        raise UserError(
            f"parameters must be plain values (numbers, texts, lists, dictionaries): {', '.join(unfit)}",
            hint="create other objects inside the function",
        )
    signature = inspect.signature(function, follow_wrapped=False)  # a decorator may supply arguments
    try:
        signature.bind(**parameters)
    except TypeError as error:
        raise UserError(
            f"the function {function.__name__!r} cannot be called with these parameters: {error}",
            hint=f"its arguments are {signature.replace(return_annotation=inspect.Signature.empty)}: "
            "give each by its name in parameters={...}",
        ) from None
    return parameters


class _Parts:
    """What a function needs: imports, plain values and sources, each before its first use.

    The text has one namespace, so a name must stand for the same object in everything that is shipped.
    """

    def __init__(self, function: FunctionType) -> None:
        self._module = function.__module__
        raw = inspect.unwrap(function)
        self._globals: Mapping[str, Any] = getattr(raw, "__globals__", function.__globals__)
        self._cells = notebook_cells(self._globals, raw if isinstance(raw, FunctionType) else function)
        self._meaning: dict[str, object] = {}
        #: By the identity of a list, dictionary or set: the name whose text contains it, and the object.
        self._owners: dict[int, tuple[str, object]] = {}
        #: By the name of each source that is not complete yet, outermost first: the lines that follow it.
        self._after: dict[str, list[str]] = {}
        #: By the name of each source in such lines: the source that they follow.
        self._waits: dict[str, str] = {}
        self.imports: set[str] = set()
        self.values: list[str] = []
        self.sources: list[str] = []
        self.refused: list[str] = []

    def add(self, name: str, value: object, user: FunctionType | None = None) -> None:
        """Add what the name stands for, and everything that this uses. `user`: the function whose closure holds it."""
        if not self._is_new(name, value):
            return
        if value is _NO_VALUE:
            self.refused.append(f"{name} (it has no value yet)")
        elif isinstance(value, ModuleType):
            whole = value.__name__
            self.imports.add(f"import {whole}" if name == whole else f"import {whole} as {name}")
        elif isinstance(value, FunctionType | type) and value.__module__ == self._module:
            try:
                self._add_source(name, value, user)
            except Unshippable as reason:
                self.refused.append(f"{name} ({reason})")
        elif is_plain(value):
            self._add_plain(name, value)
        elif (origin := _origin(name, value)) is not None and origin[0] != self._module:
            module, own = origin
            self.imports.add(
                f"from {module} import {own}" if own == name else f"from {module} import {own} as {name}"
            )
        else:
            self.refused.append(f"{name} ({type(value).__name__})")

    def _is_new(self, name: str, value: object) -> bool:
        if name not in self._meaning:
            self._meaning[name] = value
            return True
        known = self._meaning[name]
        reason = f"{name} (it stands for two different objects)"
        if known is not value and not same_plain(known, value) and reason not in self.refused:
            self.refused.append(reason)
        return False

    def _add_plain(self, name: str, value: object) -> None:
        owner, shared = self._owners.get(id(value), ("", None))
        if shared is value and self._meaning.get(owner) is value:
            self.values.append(f"{name} = {owner}")
        else:
            self._own(name, mutable_parts(value))
            self.values.append(f"{name} = {value!r}")

    def _own(self, name: str, parts: Iterator[object]) -> None:
        """A text makes a new list each time: two texts must not contain the same one."""
        for part in parts:
            if id(part) in self._owners:
                self.refused.append(
                    f"{name} (it shares a {type(part).__name__} with {self._owners[id(part)][0]})"
                )
            self._owners[id(part)] = (name, part)

    def _add_source(self, name: str, value: FunctionType | type, user: FunctionType | None) -> None:
        own = defined_name(value)
        if own == "<lambda>":
            raise Unshippable("a lambda; define it with `def`")
        if own != name:
            self.add(own, value, user)
            self._emit(name, f"{name} = {own}", {own})
            return
        after = self._after[own] = []
        cells, names = _cells(value), self._globals
        if isinstance(value, type):
            source = class_source(value, {**names, **cells}, self._cells)
        else:
            names = getattr(inspect.unwrap(value), "__globals__", names)
            bound = cells.get(own, names.get(own)) is value
            source = function_source(value, {**names, **cells}, bound=bound, user=user)
        self._add_names(source, cells, names, value)
        self._own(name, iter(source.copied))
        del self._after[own]
        self._emit(own, source.text.rstrip(), source.evaluated_names(), after)

    def _emit(self, name: str, text: str, needs: set[str], after: Sequence[str] = ()) -> None:
        """Append a text, or keep it until what it needs is complete: the outermost source that waits for it."""
        waits = {self._waits.get(each, each) for each in needs}
        outermost = next((each for each in self._after if each in waits), None)
        if outermost is not None:
            self._waits[name] = outermost
        lines = self.sources if outermost is None else self._after[outermost]
        lines += ["", text, *after]

    def _add_names(
        self, source: Source, cells: Mapping[str, Any], names: Mapping[str, Any], value: FunctionType | type
    ) -> None:
        """Add what the source uses: variables of the function around it, then of the module, then Python's own."""
        for used in sorted(source.names({**names, **cells}) - _MODULE_NAMES):
            if used in cells:
                raw = inspect.unwrap(value) if isinstance(value, FunctionType) else None
                self.add(used, cells[used], raw if isinstance(raw, FunctionType) else None)
            elif used in source.hidden and used != defined_name(value):
                raise Unshippable(f"it uses {used}, a local variable of the function around it")
            elif used in names and getattr(builtins, used, names) is not names[used]:
                self.add(used, names[used])
            else:
                self._is_new(used, getattr(builtins, used, _UNDEFINED))
            if isinstance(module := self._meaning.get(used), ModuleType):
                self.imports.update(f"import {path}" for path in _submodules(source.tree, used, module))


def _origin(name: str, value: object) -> tuple[str, str] | None:
    """The module and the name under which others can import it."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module == "__main__":
        return None
    names = (getattr(value, "__qualname__", name), name)
    return next(
        ((module, each) for each in names if getattr(sys.modules.get(module), str(each), None) is value), None
    )


def _cells(value: FunctionType | type) -> dict[str, Any]:
    """The variables of the functions around it that it uses, by name."""
    functions = class_functions(value) if isinstance(value, type) else [inspect.unwrap(value)]
    found: dict[str, Any] = {}
    for function in functions:
        if not isinstance(function, FunctionType):
            continue
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # the variable is assigned later
                found[name] = _NO_VALUE
    return found


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
