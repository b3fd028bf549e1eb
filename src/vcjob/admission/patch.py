"""The difference between two documents as a JSON Patch (RFC 6902), for the answer of the webhook.

`cluster.webhook.review` calls `json_patch` with the Job as it came and with its defaults. It takes any two documents
and does not fail; lists of different lengths are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The operations that turn `before` into `after` when applied in order."""
    return list(_operations(before, after, ""))


def _operations(before: Any, after: Any, pointer: str) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": _below(pointer, key)}
        for key, value in after.items():
            if key not in before:
                yield {"op": "add", "path": _below(pointer, key), "value": value}
            elif before[key] is not value:
                yield from _operations(before[key], value, _below(pointer, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _operations(old, new, f"{pointer}/{index}")
    elif before != after or type(before) is not type(after):
        yield {"op": "replace", "path": pointer, "value": after}


def _below(pointer: str, key: str) -> str:
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
