"""The Chinese texts of the page: one for each text that is shown, and none that is no longer shown."""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parents[3] / "src/vcjob/ui/static"
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
#: Tables whose texts are translated where they are shown, next to names of keys and fields.
TABLES = re.compile(r"const (?:ACTIONS|TABS|FORMS|COLUMNS|FILTERS|keys) = \[\n?(.*?)\n?\];", re.DOTALL)
NAMES_OF_KEYS = {"Enter", "Esc", "GPU", "CPU"}


def page_sources() -> str:
    """All scripts but the catalogs, without the values that something is compared with."""
    files = [file for file in sorted(STATIC.glob("*.js")) if file.name not in ("i18n.js", "meanings.js")]
    return re.sub(r'[!=]== "[^"]*"', "", "\n".join(file.read_text() for file in files))


def catalog() -> set[str]:
    text = (STATIC / "i18n.js").read_text()
    table = text[text.index("const CHINESE = {") : text.index("\n};")]
    return set(re.findall(r'"((?:[^"\\]|\\.)*)":', table))


def shown() -> set[str]:
    """The texts given to `t`, those of the tables, and the titles of rows and columns."""
    sources = page_sources()
    found: set[str] = set()
    for call in re.finditer(r"\bt\(", sources):
        found |= set(LITERAL.findall(argument(sources, call.end())))
    for table in TABLES.findall(sources):
        found |= {text for text in LITERAL.findall(table) if text[0].isupper()}
    found |= set(re.findall(r'\brow\("([^"]+)"', sources))
    for titles in re.findall(r'\[((?:"[^"]+"(?:, )?)+)\]\.map', sources):
        found |= set(LITERAL.findall(titles))
    return found - NAMES_OF_KEYS


def argument(sources: str, start: int) -> str:
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(sources[end], 0)
        end += 1
    return sources[start : end - 1]


def test_every_text_has_a_chinese_one() -> None:
    assert len(shown()) > 80
    assert shown() - catalog() == set()


def test_no_chinese_text_is_for_nothing() -> None:
    assert catalog() - set(LITERAL.findall(page_sources())) == set()
