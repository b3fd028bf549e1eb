"""The source of one function or class: a text that creates an object which behaves as the given one does now.

`functions` calls it. It finds the definition in its file or notebook cell and decides whether the decorators belong to
it. `Unshippable` says why there is no such text. It does not know which other objects the text needs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import dedent
from types import FunctionType
from typing import Any

from vcjob.sdk.authoring.definition_values import CurrentValues, Function, Source, Unshippable, function_of
from vcjob.sdk.authoring.loaded_code import is_loaded_from

UNKNOWN = "its source is not known"
#: The functions that Python 3.14 adds to a class with annotations.
_ANNOTATE = frozenset({"__annotate__", "__annotate_func__"})


@dataclass(frozen=True)
class _Definition:
    """A function or class in a text, and the functions around it."""

    text: str
    node: Function | ast.ClassDef
    qualified_name: str
    around: tuple[Function, ...]

    @property
    def first_line(self) -> int:
        return min([self.node.lineno, *(each.lineno for each in self.node.decorator_list)])

    @property
    def last_line(self) -> int:
        return self.node.end_lineno or self.node.lineno

    def source(self, *, decorators: bool = True) -> tuple[Source, ast.AST]:
        """Its lines, and what they define. Indented lines keep their indentation if a text in them would change."""
        first = self.first_line if decorators else self.node.lineno
        lines = "\n".join(self.text.split("\n")[first - 1 : self.last_line]) + "\n"
        tree = ast.parse(f"if True:\n{lines}" if lines[0].isspace() else lines)
        text, (node,) = lines, tree.body
        if isinstance(node, ast.If):
            (node,) = node.body
            text = f"if True:\n{lines}"
            try:
                flat = ast.parse(dedent(lines))
            except SyntaxError:  # a text in it begins further to the left
                flat = tree
            if ast.dump(flat.body[0]) == ast.dump(node):
                text, tree, (node,) = dedent(lines), flat, flat.body
        return Source(text, tree, {name for each in self.around for name in _local_names(each)}), node


def defined_name(value: FunctionType | type) -> str:
    """The name in its `def` or `class` line."""
    raw = inspect.unwrap(value) if isinstance(value, FunctionType) else value
    return raw.__code__.co_name if isinstance(raw, FunctionType) else value.__name__


def is_method(function: FunctionType) -> bool:
    """Whether it was defined in the body of a class."""
    around = function.__qualname__.rpartition(".")[0]
    return bool(around) and not around.endswith("<locals>")


def function_source(
    value: FunctionType, scope: Mapping[str, Any], *, bound: bool, user: FunctionType | None
) -> Source:
    """The source of a function. `bound`: its name stands for it; `user`: the function whose closure holds it."""
    raw = inspect.unwrap(value)
    if not isinstance(raw, FunctionType):
        raise Unshippable(UNKNOWN)
    code = raw.__code__
    if is_method(raw):
        raise Unshippable("a method; define a function that calls it")
    text, place = _file(code.co_filename), (code.co_name, code.co_firstlineno)
    for found in _definitions(text):
        node = found.node
        if isinstance(node, Function) and (node.name, found.first_line) == place:
            if not is_loaded_from(text, code):
                break
            decorators = _keeps_decorators(value, node, bound=bound, user=user)
            source, definition = found.source(decorators=decorators)
            assert isinstance(definition, Function)
            values = CurrentValues(source, scope)
            values.write_defaults(definition, raw)
            return values.applied()
    raise Unshippable(f"{UNKNOWN}, or its file has changed" if text else UNKNOWN)


def class_source(value: type, scope: Mapping[str, Any], cells: Iterable[str]) -> Source:
    """The source of a class. `cells`: the cells of the notebook, newest first, or the text of the file."""
    codes = [
        each.__code__
        for each in class_functions(value)
        if each.__qualname__.startswith(f"{value.__qualname__}.")
    ]
    found: dict[str, _Definition] = {}
    for code in codes:
        text = _file(code.co_filename)
        for each in _classes(text, value):
            if each.first_line <= code.co_firstlineno <= each.last_line:
                if not is_loaded_from(text, code):
                    raise Unshippable("its file has changed")
                found[ast.dump(each.node)] = each
    newest = scope.get(value.__name__) is value  # the name stands for the class that was defined last
    if not found:
        candidates = (each for cell in cells for each in reversed([*_classes(cell, value)]))
        for each in itertools.islice(candidates, 1 if newest else None):
            found[ast.dump(each.node)] = each
    if len(found) != 1:
        raise Unshippable("it was defined several times" if found else UNKNOWN)
    source, definition = found.popitem()[1].source()
    assert isinstance(definition, ast.ClassDef)
    if type(value) is type and not definition.decorator_list:  # a metaclass or decorator may add attributes
        own = {*_local_names(definition)}
        special = not hasattr(value, "_fields")  # a named tuple has special functions of its own
        added = [
            name
            for name, each in vars(value).items()
            if name not in own
            and (
                not name.startswith("_")
                or (
                    special
                    and name.endswith("__")
                    and isinstance(each, FunctionType)
                    and name not in _ANNOTATE
                )
            )
        ]
        if added:
            raise Unshippable(f"it got attributes after its definition: {', '.join(added)}")
    values = CurrentValues(source, scope)
    values.write_attributes(definition, value)
    return values.applied()


def class_functions(value: type) -> Iterator[FunctionType]:
    """The functions in a class. Their closures hold what the class uses of the function around it."""
    return (each for each in map(function_of, vars(value).values()) if each is not None)


def notebook_cells(scope: Mapping[str, Any], function: FunctionType) -> list[str]:
    """The cells of the notebook, newest first; outside of a notebook the file of the function."""
    cells = scope.get("In")  # where IPython keeps them, in the order in which they ran
    if isinstance(cells, list) and "get_ipython" in scope:
        return [str(each) for each in reversed(cells)]
    return [_file(function.__code__.co_filename)]


def _keeps_decorators(value: FunctionType, node: Function, *, bound: bool, user: FunctionType | None) -> bool:
    """Whether the decorators in the source lead from the definition to the value, or do not belong to it."""
    wrappers, raw = 0, value
    while hasattr(raw, "__wrapped__"):
        wrappers, raw = wrappers + 1, raw.__wrapped__
    decorators = node.decorator_list
    if wrappers > len(decorators):
        raise Unshippable("it was wrapped by a call; use a decorator")
    if hasattr(value, "registry") and hasattr(value, "dispatch"):
        raise Unshippable("other functions are registered with it (singledispatch)")
    if decorators and (bound or ("<locals>" in raw.__qualname__ and wrappers == len(decorators))):
        return True
    if attributes := vars(value).keys() - {"__wrapped__"}:
        raise Unshippable(f"it has attributes: {', '.join(sorted(attributes))}")
    if not decorators:
        return True
    named = {each.id for line in decorators for each in ast.walk(line) if isinstance(each, ast.Name)}
    if not wrappers and user is not None and user.__code__.co_qualname.partition(".")[0] in named:
        return False  # the function that a decorator without functools.wraps has wrapped
    raise Unshippable("its decorators cannot be matched with it")


def _file(name: str) -> str:
    linecache.checkcache(name)
    return "".join(linecache.getlines(name))


@functools.lru_cache(maxsize=1)  # most functions of a Job are in one file
def _definitions(text: str) -> list[_Definition]:
    """Every function and class in a text, outer ones first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    found: list[_Definition] = []
    waiting: list[tuple[ast.AST, str, tuple[Function, ...]]] = [(tree, "", ())]
    while waiting:
        parent, prefix, around = waiting.pop()
        for node in reversed([*ast.iter_child_nodes(parent)]):
            if isinstance(node, Function):
                waiting.append((node, f"{prefix}{node.name}.<locals>.", (*around, node)))
            elif isinstance(node, ast.ClassDef):
                waiting.append((node, f"{prefix}{node.name}.", around))
            else:
                waiting.append((node, prefix, around))
        if isinstance(parent, Function):
            found.append(_Definition(text, parent, prefix.removesuffix(".<locals>."), around[:-1]))
        elif isinstance(parent, ast.ClassDef):
            found.append(_Definition(text, parent, prefix.removesuffix("."), around))
    return found


def _classes(text: str, value: type) -> Iterator[_Definition]:
    """The definitions that can be the one of the class: same name, same attributes, and since Python 3.13 same line."""
    line = vars(value).get("__firstlineno__")
    known = {*vars(value), *_annotated_names(value)}
    for each in _definitions(text):
        if not isinstance(each.node, ast.ClassDef) or each.qualified_name != value.__qualname__:
            continue
        stored = {name for name in _local_names(each.node) if not name.startswith("_")}
        if line in (None, each.first_line) and stored <= known:
            yield each


def _annotated_names(value: type) -> Iterable[str]:
    """The names that the body of a class annotates, also those without a value."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(value, format=annotationlib.Format.FORWARDREF)
    found: Mapping[str, Any] = vars(value).get("__annotations__", {})
    return found


def _local_names(node: Function | ast.ClassDef) -> Iterator[str]:
    """The names that a function or the body of a class assigns."""
    if not isinstance(node, ast.ClassDef):
        yield from (each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))
    waiting: list[ast.AST] = [*node.body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Function | ast.ClassDef):
            yield each.name
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif not isinstance(each, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting += ast.iter_child_nodes(each)
