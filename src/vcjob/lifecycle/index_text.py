"""Index sets as a stored status holds them: as ranges, or as bits where a status would have too many ranges.

After losses of random pods, ranges take up to ten bytes for each pod, and the status of a large Job would not fit into
etcd. Bits take a sixth of a byte, whatever is lost. Used by `status_codec`; `read` never raises.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable

from vcjob.lifecycle.indexset import EMPTY, INDEX_LIMIT, IndexSet

#: In front of bits, in base64. No range begins with it.
_BITS = "~"
#: Ranges up to which a status has no bits: about 64 KB that people can read.
_MOST_RANGES = 8_000


def writer(sets: Iterable[IndexSet]) -> Callable[[IndexSet], str]:
    """How a status with these sets writes them."""
    ranges = 0
    for indexes in sets:  # of every status: without a call for each set
        ranges += (indexes.mask & ~(indexes.mask << 1)).bit_count()
    return str if ranges <= _MOST_RANGES else _write_short


def _write_short(indexes: IndexSet) -> str:
    length = indexes.mask.bit_length()
    bits = 4 * (length // 24 + 1)
    # A range of one index has its digits and a comma.
    ranges = (indexes.mask & ~(indexes.mask << 1)).bit_count()
    if ranges * (len(str(length)) + 1) <= bits:
        return str(indexes)
    content = indexes.mask.to_bytes(length // 8 + 1, "little")
    return _BITS + binascii.b2a_base64(content, newline=False).decode()


def read(text: str) -> IndexSet:
    """The set that was written; as much of it as can be read where it was edited."""
    if not text.startswith(_BITS):
        return IndexSet.parse(text)
    try:
        content = binascii.a2b_base64(text[len(_BITS) :], strict_mode=True)
    except ValueError:
        return EMPTY
    indexes = IndexSet(int.from_bytes(content[: INDEX_LIMIT // 8 + 1], "little"))
    # Thousands of short texts must not cost a set of all indexes each.
    return indexes if indexes.mask.bit_length() <= INDEX_LIMIT else indexes & IndexSet.span(0, INDEX_LIMIT)
