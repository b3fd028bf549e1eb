"""Plain values: numbers, texts and collections of them, whose text can be read back as the same value.

`functions` and `function_source` write them into the text of a Job. This module knows nothing of functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_SCALARS = (bool, int, float, str, bytes, type(None))
_MUTABLE = (list, dict, set)


def is_plain(value: object) -> bool:
    """Whether its text can be read back as the same value, with the same types."""
    try:
        return _has_plain_types(value) and bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def same_plain(one: object, other: object) -> bool:
    """Whether both are the same plain value, which cannot change."""
    plain = is_plain(one) and is_plain(other)
    return plain and repr(one) == repr(other) and next(mutable_parts(one), None) is None


def mutable_parts(value: object) -> Iterator[object]:
    """The lists, dictionaries and sets in a plain value, itself included: two names may share one of them."""
    if isinstance(value, _MUTABLE):
        yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from mutable_parts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from mutable_parts(each)


def _has_plain_types(value: object) -> bool:
    kind = type(value)
    if kind is dict:
        return all(_has_plain_types(each) for item in value.items() for each in item)  # type: ignore[attr-defined]
    if kind in (list, tuple, set):
        return all(_has_plain_types(each) for each in value)  # type: ignore[attr-defined]
    return kind in _SCALARS
