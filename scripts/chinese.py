"""The Chinese texts of the generated pages: scripts/chinese.toml maps the English text of a definition to the Chinese one.

An English text that changes has no Chinese one any more: it is shown in English until somebody translates it, and
tests/docs/test_reference.py names it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TABLE = Path(__file__).with_name("chinese.toml")
_READ = tomllib.loads(TABLE.read_text(encoding="utf-8"))
_TEXTS: dict[str, str] = _READ["texts"]
_PHRASES: dict[str, str] = _READ["race"]
_PHRASE = re.compile("|".join(re.escape(each) for each in sorted(_PHRASES, key=len, reverse=True)))
#: Every text that was used, with or without a translation.
used: set[str] = set()


def text(english: str) -> str:
    """The Chinese text for a definition in the code."""
    if not any(character.isalpha() for character in english):
        return english
    used.add(english)
    return _TEXTS.get(english, english)


def untranslated() -> list[str]:
    """The texts that were used and have no Chinese one."""
    return sorted(used - _TEXTS.keys())


def unused() -> list[str]:
    """The Chinese texts whose English one no longer exists."""
    return sorted(_TEXTS.keys() - used)


def race(english: str) -> str:
    """The tables of `make race` with the phrases of the table in Chinese; names and figures stay."""
    shown = english.replace("](performance/", "](../performance/")
    return _PHRASE.sub(lambda match: _PHRASES[match[0]], shown)
