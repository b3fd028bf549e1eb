"""Tracebacks that a program's log changes: as one string of a record in JSON, or with a prefix before every line.

`Suspect` reads lines through `unwrapped`, so that other readers find the text that Python wrote. Any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from vcjob.diagnosis.text.prefixes import plain

_HEAD = "Traceback (most recent call last):"
#: The frame around a group of exceptions is no prefix of a log.
_WORD = re.compile(r"\w")
_FRAME = re.compile(r' {1,4}File "[^"]{1,4000}", line \d')
#: What changes from line to line in a prefix: the time.
_DIGITS = re.compile(r"\d{1,20}")
#: Longer ones are no prefix; values of a record that are searched.
_LONGEST, _MOST = 200, 50


def unwrapped(lines: Sequence[str]) -> Sequence[str]:
    """The lines, with each traceback as Python wrote it."""
    if not any(_HEAD in line and not plain(line).startswith(_HEAD) for line in lines):
        return lines
    found: list[str] = []
    shape, width = "", 0
    for place, line in enumerate(lines):
        head = line.find(_HEAD)
        if head > 0 and line.startswith("{"):
            found += _record(line)
            continue
        if head >= 0:
            below = lines[place + 1][head:] if place + 1 < len(lines) else ""
            prefixed = _WORD.search(line[:head]) and _FRAME.match(below) and not plain(line).startswith(_HEAD)
            shape, width = (_shape(line[:head]), head) if prefixed and head <= _LONGEST else ("", 0)
        is_inside = width > 0 and _shape(line[:width]) == shape
        found.append(line[width:] if is_inside else line)
    return found


def _shape(prefix: str) -> str:
    return _DIGITS.sub("0", prefix)


def _record(line: str) -> list[str]:
    """The value of a record in JSON that holds a traceback, line by line; the record itself where there is none."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # no JSON, or nested too deeply
        return [line]
    values = _texts(record) if isinstance(record, dict) else ()
    said = next((value for value in values if _HEAD in value), None)
    return [line] if said is None else said.rstrip("\n").split("\n")


def _texts(record: dict[str, object]) -> Iterator[str]:
    for value in list(record.values())[:_MOST]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from (each for each in list(value.values())[:_MOST] if isinstance(each, str))
