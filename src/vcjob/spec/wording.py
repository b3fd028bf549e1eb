"""Messages for failed schema rules: what is wrong, and what to write instead.

`schema` calls `problems_of` for each failure. Other checks use `show`, `describe` and `listed` to quote values that
the author of a Job wrote: on one line, and never longer than a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.problem import Path, Problem, error, format_path
from vcjob.spec.spelling import did_you_mean, nearest

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping (`key: value`)",
    "array": "a list (`- item`)",
    "null": "nothing",
}
_HINTS = {
    "array": "put `- ` before each item",
    "object": "write `key: value` lines, without `- `",
    "integer": "write a number without a fraction, e.g. 2",
    "boolean": "write true or false",
    "string": "write it as text, in one value",
}
_EXAMPLES = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": "{name: my-job}",
    "spec": "{tasks: [...]}",
    "containers": "[{name: main, image: ...}]",
}
_REMOVE_UNKNOWN = "remove it, or pass --allow-unknown to accept unknown fields"
_SHOWN_LENGTH = 60
_SHOWN_FIELDS = 12


class Failure(msgspec.Struct, frozen=True):
    """A schema rule that a value breaks: where the value is, where the rule is, and the validator's details.

    `spec.schema` makes it, and this module writes a sentence and a hint for it.
    """

    where: Path
    rule: tuple[str, ...]
    value: Any
    detail: Any

    @property
    def keyword(self) -> str:
        name: str = self.detail.name
        return name


def problems_of(failure: Failure, schema: dict[str, Any], suggestions: int) -> Iterator[Problem]:
    """The problems of one broken rule, which may concern several names. As many unknown fields as there may be
    `suggestions` get a hint of their own."""
    where, keyword, detail = failure.where, failure.keyword, failure.detail
    if keyword == "additionalProperties":
        for number, name in enumerate(detail.unexpected):
            hint = _unknown_hint(where, name, schema) if number < suggestions else _REMOVE_UNKNOWN
            yield error((*where, name), f"unknown field `{show(name)}`", hint)
    elif keyword == "required":
        name = detail.property
        yield error((*where, name), f"`{name}` is missing", f"add `{name}: {_EXAMPLES.get(name, '...')}`")
    elif keyword == "falseSchema":  # a key that the pattern of allowed keys excludes
        yield error(where, *_misfit(where[-1], schema, failure.rule[:-1]))
    else:
        yield error(where, *_value(failure, schema))


def _value(failure: Failure, schema: dict[str, Any]) -> tuple[str, str | None]:
    """Message and hint for a value that exists but is not allowed."""
    detail, value = failure.detail, failure.value
    match failure.keyword:
        case "type":
            return _type(value, [name for name in detail.types if name != "null"])
        case "enum":
            options = [option for option in detail.options if option]
            one_of = "use " + " or ".join(options[:2]) if len(options) <= 2 else "use one of these values"
            hint = did_you_mean(str(value), options, one_of)
            return f"`{show(value)}` is not one of {', '.join(options)}", hint
        case "pattern":
            return _misfit(value, schema, failure.rule)
        case "minimum":
            message = f"{value} is too small: it should be greater than or equal to {detail.limit}"
            return message, f"write {detail.limit} or more"
        case "maximum":
            message = f"{value} is too large: it should be less than or equal to {detail.limit}"
            return message, f"write {detail.limit} or less"
        case "minItems":
            return "the list is empty: at least one item is required", "add an item"
        case "maxLength":
            return f"the value has {len(value)} characters; at most {detail.limit} are allowed", "shorten it"
    return f"`{show(value)}` is not allowed here ({failure.keyword})", None


def _misfit(value: object, schema: dict[str, Any], rule: tuple[str, ...]) -> tuple[str, str | None]:
    """Message and hint for text that does not match its pattern."""
    meaning, _, form = _meaning(schema, rule).partition(": ")
    if form:
        return f"`{show(value)}` is not {meaning}", f"use {form}"
    meaning, _, examples = meaning.partition(" such as ")
    return f"`{show(value)}` is not {meaning}", f"write it like {examples}" if examples else None


def _type(value: Any, wanted: list[str]) -> tuple[str, str | None]:
    message = f"must be {' or '.join(_TYPES[name] for name in wanted)}, not {describe(value)}"
    hint: str | None
    if "string" in wanted and isinstance(value, bool):
        hint = f'write it in quotes: "{str(value).lower()}" (unquoted yes, no, on and off are true and false too)'
    elif "string" in wanted and isinstance(value, int | float):
        hint = f'write it in quotes: "{value}"'
    elif isinstance(value, str) and _loses_quotes(value, wanted):
        hint = f"write it without quotes: {value}"
    elif value is None:
        hint = "write a value, or remove the line"
    else:
        hint = _HINTS.get(wanted[0])
    return message, hint


def _loses_quotes(value: str, wanted: list[str]) -> bool:
    if "integer" in wanted or "number" in wanted:
        return value.removeprefix("-").isdecimal() and value.isascii()
    return "boolean" in wanted and value in ("true", "false")


def _unknown_hint(where: Path, name: str, schema: dict[str, Any]) -> str:
    known = fields(schema, where)
    if near := nearest(name, known):
        return f"did you mean `{near}`?"
    if place := _right_place(where, name, schema):
        return f"move it to {place}"
    if 0 < len(known) <= _SHOWN_FIELDS:
        return f"the known fields are {', '.join(sorted(known))}"
    return _REMOVE_UNKNOWN


def _right_place(where: Path, name: str, schema: dict[str, Any]) -> str | None:
    """Where a misplaced field belongs: further out, or one level further in."""
    for length in range(len(where) - 1, -1, -1):
        if name in fields(schema, where[:length]):
            return f"`{format_path(where[:length])}`" if length else "the top level of the document"
    for inner in fields(schema, where):
        if name in fields(schema, (*where, inner)):
            return f"`{format_path((*where, inner))}`"
    return None


def fields(schema: dict[str, Any], where: Path) -> Collection[str]:
    """The names of the fields that the schema knows at a place."""
    node = schema
    for step in where:
        node = resolved(schema, node)
        if isinstance(step, int):
            node = node.get("items") or {}
        else:
            node = node.get("properties", {}).get(step) or {}
    known: dict[str, Any] = resolved(schema, node).get("properties", {})
    return known.keys()


def resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """The node that a `$ref` points to, or the node itself."""
    if "$ref" in node:
        found: dict[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    return node


def _meaning(schema: dict[str, Any], rule: tuple[str, ...]) -> str:
    """The description next to a rule of the schema."""
    node: Any = schema
    for step in rule[:-1]:
        node = node[int(step) if isinstance(node, list) else step]
    meaning: str = node["description"]
    return meaning


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names for a message: the first few of them, and how many more there are."""
    names = list(names)
    shown = ", ".join(show(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def show(value: object) -> str:
    """A value for a message: on one line, and not too long."""
    text = str(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"


def describe(value: object) -> str:
    """A value of the wrong type: its type, and the value where it is short."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text `{show(value)}`"
    return "a mapping" if isinstance(value, dict) else "a list"
