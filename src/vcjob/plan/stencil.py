"""A stencil: the JSON text of a pod with slots, cut once per task and filled in once per pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_KINDS = "index|partition|attempt|version|retries"


class MarkClash(Exception):
    """The text contains the mark outside of a slot; another mark must be chosen."""


def mark(nonce: int) -> str:
    """The nonce-th mark. No mark overlaps itself, and JSON writes it as it is."""
    return f"<#{nonce}>"


class Stencil:
    """The pods of one task as fragments of JSON with a numbered gap between each two."""

    __slots__ = ("_fragments", "_gaps")

    def __init__(self, document: Mapping[str, Any], mark: str) -> None:
        text = msgspec.json.encode(document)
        sign = re.escape(mark)
        parts = re.split(f"{sign}({_KINDS}):(-?[0-9]+){sign}".encode(), text)
        self._fragments: list[bytes] = parts[::3]
        if any(mark.encode() in fragment for fragment in self._fragments):
            raise MarkClash
        self._gaps = [(kind.decode(), int(offset)) for kind, offset in zip(parts[1::3], parts[2::3])]

    def fill(self, values: Mapping[str, int]) -> bytes:
        """The JSON of the pod that has these values."""
        out = [b""] * (2 * len(self._gaps) + 1)
        out[::2] = self._fragments
        out[1::2] = [b"%d" % (values[kind] + offset) for kind, offset in self._gaps]
        return b"".join(out)
