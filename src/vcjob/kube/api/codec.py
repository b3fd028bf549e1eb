"""Encodes and decodes JSON bodies and URL queries. Decoding raises msgspec's errors, which callers translate.

An API server delivers up to 10,000 levels of nesting, in `metadata.managedFields` of any object: msgspec refuses about
a thousand with RecursionError, for the whole page or event. `decode_nested` then reads the document without the levels
that nobody needs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

T = TypeVar("T")
Body = dict[str, Any] | list[Any] | msgspec.Struct | bytes  # bytes: JSON that is already encoded
_encode = msgspec.json.Encoder().encode
#: Levels that `cut_nesting` keeps: more than a Job may have, so that one that is nested deeper is still refused.
KEPT_LEVELS = 200
#: One bracket, or as much as possible without any: text, and empty lists and objects.
_TOKEN = re.compile(rb"""(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\[\]|\{\})++|[\[\]{}]""", re.DOTALL)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class RawPage(msgspec.Struct):
    """One page of a list. Items are decoded one by one, so that an invalid object does not affect the others.

    `Client` reads lists through it; nothing else sees a page.
    """

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


async def decode_nested(decode: Callable[[bytes], T], body: bytes) -> T:
    """Decode a document, however deeply it is nested; the event loop continues meanwhile."""
    try:
        return decode(body)
    except RecursionError:
        return decode(await asyncio.to_thread(cut_nesting, body))


def decode_nested_now(decode: Callable[[bytes], T], body: bytes) -> T:
    """The same for callers that are not asynchronous."""
    try:
        return decode(body)
    except RecursionError:
        return decode(cut_nesting(body))


def cut_nesting(body: bytes) -> bytes:
    """The JSON text with `null` in place of every value below KEPT_LEVELS levels; linear, and without recursion."""
    pieces: list[bytes] = []
    depth = copied = 0
    for token in _TOKEN.finditer(body):
        bracket = token.group()
        if bracket in (b"[", b"{"):
            depth += 1
            if depth == KEPT_LEVELS + 1:
                pieces.append(body[copied : token.start()])
        elif bracket in (b"]", b"}"):
            if depth == KEPT_LEVELS + 1:
                pieces.append(b"null")
                copied = token.end()
            depth -= 1
    return b"".join((*pieces, body[copied:]))


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
