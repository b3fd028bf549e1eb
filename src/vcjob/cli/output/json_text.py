"""JSON as it is printed: indented by two spaces, with a line break at the end.

All verbs with `-o json` use it. Text that is not valid UTF-8, such as a file name, is escaped instead of raising an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec


def to_json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    except UnicodeEncodeError:  # a file name need not be valid UTF-8; JSON can escape it
        import json

        return json.dumps(value, indent=2) + "\n"


def to_json_list(items: Iterable[bytes]) -> Iterator[str]:
    """A Kubernetes List of objects that are JSON already, one piece of text at a time."""
    yield '{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": ['
    number = 0
    for number, item in enumerate(items, 1):
        text = msgspec.json.format(item, indent=2).decode().replace("\n", "\n    ")
        yield f"{',' if number > 1 else ''}\n    {text}"
    yield "\n  ]\n}\n" if number else "]\n}\n"
