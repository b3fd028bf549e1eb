"""Encodes and decodes JSON bodies and URL queries. Decoding raises msgspec's errors, which callers translate."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

T = TypeVar("T")
Body = dict[str, Any] | list[Any] | msgspec.Struct | bytes  # bytes: JSON that is already encoded
_encode = msgspec.json.Encoder().encode


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class RawPage(msgspec.Struct):
    """One page of a list. Items are decoded one by one, so that an invalid object does not affect the others."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


decode_page = msgspec.json.Decoder(RawPage).decode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_for(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type, created once."""
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


@lru_cache(maxsize=256)
def query(**parameters: str | int | bool | None) -> str:
    """The query part of a URL without parameters that are None or empty. A trailing `_` of a name is dropped."""
    given = {
        name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parameters.items()
        if value is not None and value != ""
    }
    return f"?{urlencode(given, quote_via=quote)}" if given else ""


def encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)
