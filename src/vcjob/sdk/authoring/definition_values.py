"""What default arguments and class attributes are now, written into the source of a function or class.

`function_source` calls it. Python evaluated them once, when the definition ran; evaluated again in the Job, the same
expression could have another value. A value that cannot be written as text is `Unshippable`.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dataclasses
import dis
import inspect
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from vcjob.sdk.authoring.plain_values import is_plain, mutable_parts

Function = ast.FunctionDef | ast.AsyncFunctionDef
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_NOTHING = object()
_FIELD_MARKS = (typing, typing.ClassVar, dataclasses, dataclasses.InitVar, dataclasses.KW_ONLY)


class Unshippable(Exception):
    """Why a text would not do what the object does here; `functions` reports it with the object's name.

    It never reaches the user as such: `functions` turns it into a UserError.
    """


@dataclass
class Source:
    """A definition as text: what it reads from its surroundings, and the lists and dictionaries that it copies.

    `function_source` makes one for each function or class; `functions` joins their texts.
    """

    text: str
    tree: ast.Module
    #: Local variables of the functions around it. Only closures hold their values.
    hidden: set[str]
    copied: list[object] = field(default_factory=list)

    def names(self, scope: Mapping[str, Any]) -> set[str]:
        """The names that the text reads from its surroundings. Annotations are not evaluated.

        Dataclasses find ClassVar and InitVar in the text of an annotation, if the module knows these names.
        """
        found = set(_loaded(self._code()))
        annotations = (each.annotation for each in ast.walk(self.tree) if isinstance(each, ast.AnnAssign))
        named = (each.id for line in annotations for each in ast.walk(line) if isinstance(each, ast.Name))
        return found.union(name for name in named if any(scope.get(name) is each for each in _FIELD_MARKS))

    def evaluated_names(self) -> set[str]:
        """Those of the names that are needed as soon as the text runs, such as base classes."""
        return set(_loaded(self._code(), functions=False))

    def _code(self) -> CodeType:
        flags = __future__.annotations.compiler_flag
        try:
            code: CodeType = compile(self.text, "<function>", "exec", flags=flags, dont_inherit=True)
        except SyntaxError as error:  # `nonlocal` of a variable of the function around it
            raise Unshippable(f"it cannot stand alone: {error.msg}") from None
        return code


@dataclass
class CurrentValues:
    """Replaces expressions that were evaluated when the definition ran by the values that they have now.

    Used for default arguments and attributes of classes. Unshippable if a value cannot be written as text.
    """

    source: Source
    scope: Mapping[str, Any]
    texts: list[tuple[ast.expr, str]] = field(default_factory=list)

    def write_defaults(self, node: Function, function: FunctionType | None) -> None:
        """The default arguments of a function."""
        positional = [*node.args.posonlyargs, *node.args.args][-len(node.args.defaults) :]
        expressions = [
            *zip(positional, node.args.defaults, strict=False),
            *((each, at) for each, at in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if at),
        ]
        stored: dict[str, object] = {}
        if function is not None:
            given = function.__defaults__ or ()
            stored = dict(zip((each.arg for each in positional), given, strict=False))
            stored |= function.__kwdefaults__ or {}
            if len(stored) != len(expressions):
                raise Unshippable("its default arguments were changed")
        for argument, expression in expressions:
            if argument.arg in stored:
                self._replace(f"the default of {argument.arg}", expression, stored[argument.arg])
            elif not isinstance(expression, ast.Constant):
                raise Unshippable(f"the default of {node.name}.{argument.arg} is not known")

    def write_attributes(self, node: ast.ClassDef, value: type) -> None:
        """The attributes of a class, and the default arguments of its functions."""
        for each in node.body:
            if isinstance(each, Function):
                name = f"_{value.__name__.lstrip('_')}{each.name}" if _is_private(each.name) else each.name
                function = function_of(vars(value).get(name))
                own = function is not None and function.__qualname__ == f"{value.__qualname__}.{each.name}"
                if not own and not each.decorator_list:
                    raise Unshippable(f"its function {each.name} was replaced")
                self.write_defaults(each, function if own else None)
            elif isinstance(each, ast.ClassDef) and isinstance(inner := vars(value).get(each.name), type):
                self.write_attributes(each, inner)
            elif isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                calls = any(isinstance(part, ast.Call) for part in ast.walk(each.value))
                if len(targets) == 1 and isinstance(targets[0], ast.Name) and not calls:
                    now = _attribute(value, targets[0].id)
                    if is_plain(now):
                        self._replace(targets[0].id, each.value, now)

    def _replace(self, what: str, expression: ast.expr, now: object) -> None:
        names = {each.id for each in ast.walk(expression) if isinstance(each, ast.Name)}
        if not names & self.source.hidden and self._evaluates_to(expression, now):
            return
        if is_plain(now):
            self.texts.append((expression, repr(now)))
            self.source.copied += mutable_parts(now)
        elif not (
            isinstance(expression, ast.Lambda)
            and isinstance(now, FunctionType)
            and not _has_defaults(expression)
        ):
            raise Unshippable(f"{what} has the type {type(now).__name__}, which cannot be written as text")

    def _evaluates_to(self, expression: ast.expr, now: object) -> bool:
        path: list[str] = []
        node = expression
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            try:
                return repr(ast.literal_eval(expression)) == repr(now)
            except (ValueError, TypeError, RecursionError):
                return False
        found = self.scope.get(node.id, getattr(builtins, node.id, None))
        for name in path:
            found = getattr(found, name, None)
        return found is now

    def applied(self) -> Source:
        """The source with the changes."""
        data = self.source.text.encode()
        starts = [0]
        for line in data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        for node, text in sorted(
            self.texts, key=lambda each: (each[0].lineno, each[0].col_offset), reverse=True
        ):
            assert node.end_lineno is not None and node.end_col_offset is not None
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            data = data[:first] + text.encode() + data[last:]
        self.source.text = data.decode()
        self.source.tree = ast.parse(self.source.text)
        return self.source


def function_of(member: object) -> FunctionType | None:
    """The function that a member of a class holds, without what wraps it."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    raw = inspect.unwrap(member) if isinstance(member, FunctionType) else None
    return raw if isinstance(raw, FunctionType) else None


def _attribute(value: type, name: str) -> object:
    """What an attribute of a class is now; of named tuples and dataclasses with slots, the default of a field."""
    stored: Mapping[str, object] = vars(value).get("_field_defaults", {})
    fields: Mapping[str, Any] = vars(value).get("__dataclass_fields__", {})
    now = stored.get(name, vars(value).get(name, _NOTHING))
    return fields[name].default if name in fields and not is_plain(now) else now


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _has_defaults(node: ast.Lambda) -> bool:
    return bool(node.args.defaults) or any(node.args.kw_defaults)


def _loaded(code: CodeType, *, functions: bool = True) -> Iterator[str]:
    """The names that code loads, without or with those that its functions load when they are called."""
    stored: set[str] = set()  # names of the body of a class
    for each in dis.get_instructions(code):
        if each.opname == "STORE_NAME":
            stored.add(each.argval)
        elif each.opname in _LOADS and each.argval not in stored:
            yield each.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and (functions or not constant.co_flags & inspect.CO_OPTIMIZED):
            yield from _loaded(constant, functions=functions)
