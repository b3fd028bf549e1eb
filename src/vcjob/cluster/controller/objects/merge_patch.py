"""Computes JSON merge patches: what to send so that one document becomes another.

`owned_objects` patches objects with `owned_patch`, which leaves fields of others alone; the status writer uses
`merge_patch`. Pure functions that know nothing about kinds, except the few maps in `EXACT`.
"""

from __future__ import annotations

from typing import Any

#: Maps in which an additional key changes the meaning, so `owned_patch` removes it.
EXACT = frozenset({"selector", "matchLabels", "minTaskMember", "minResources"})


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest merge patch from `old` to `new`; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key, value in old.items() if key not in new and value is not None}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def owned_patch(actual: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that sets in `actual` every field of `wanted`. Fields that only `actual` has are kept."""
    patch: dict[str, Any] = {}
    for key, value in wanted.items():
        before = actual.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = (merge_patch if key in EXACT else owned_patch)(before, value)
            if inner:
                patch[key] = inner
        elif not _contains(before, value):
            patch[key] = value
    return patch


def _contains(actual: Any, wanted: Any) -> bool:
    """Whether `actual` has every field of `wanted` with the same value; defaults that the API server adds are ignored."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and not owned_patch(actual, wanted)
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(_contains(one, other) for one, other in zip(actual, wanted, strict=True))
        )
    return bool(actual == wanted)
