"""Converts vcjob's JSON Schema into the "structural" form that a CustomResourceDefinition requires. Pure.

That form has no references, one type per field and a separate `nullable`; the API server drops unknown fields instead
of refusing them (kubectl requests strict checks and reports them). `fields` lists what a structural schema knows.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_KEPT = ("minimum", "maximum", "maxLength", "minLength", "minItems", "maxItems", "required", "description")
#: The API server stores bounds as floating point numbers. Larger ones lose digits, and the largest 64-bit number even
#: becomes the smallest.
_EXACT = 2**53
#: Go's regular expressions have no lookahead and no lookbehind.
_LOOKAROUND = ("(?=", "(?!", "(?<")


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The same schema without references. Pure."""
    schema = _resolved(schema, definitions)
    types = schema.get("type")
    names = [types] if isinstance(types, str) else list(types or ())
    wanted = [name for name in names if name != "null"]
    result: Schema = {key: schema[key] for key in _KEPT if key in schema and _is_exact(schema[key])}
    if "null" in names:
        result["nullable"] = True
    if len(wanted) > 1:  # a quantity, or a port by number or name
        result["x-kubernetes-int-or-string"] = True
        return result
    result["type"] = wanted[0]
    if "enum" in schema and None not in schema["enum"]:  # kubectl cannot read a list with null in it
        result["enum"] = schema["enum"]
    if "pattern" in schema and not any(mark in schema["pattern"] for mark in _LOOKAROUND):
        result["pattern"] = schema["pattern"]
    if "properties" in schema:
        result["properties"] = {
            name: structural(inner, definitions) for name, inner in schema["properties"].items()
        }
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(schema["additionalProperties"], definitions)
    elif wanted == ["object"]:
        result["x-kubernetes-preserve-unknown-fields"] = True  # a free-form object
    if "items" in schema:
        result["items"] = structural(schema["items"], definitions)
    return result


def _is_exact(value: object) -> bool:
    return not isinstance(value, int) or abs(value) <= _EXACT


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    while "$ref" in schema:
        own = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[schema["$ref"].removeprefix("#/$defs/")], **own}
    return schema


def fields(schema: Schema, path: str = "", *, stop: frozenset[str] = frozenset()) -> set[str]:
    """The paths of all fields that a structural schema knows, such as `tasks[].policies[].event`."""
    found: set[str] = set()
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        found.add(here)
        if name not in stop:
            found |= fields(inner, here, stop=stop)
    if isinstance(schema.get("items"), dict):
        found |= fields(schema["items"], f"{path}[]", stop=stop)
    return found
