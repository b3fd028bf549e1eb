"""The pages of the documentation as tests see them: code blocks, the commands in them, and their markers.

A marker is an HTML comment directly above a code block, so no reader sees it:

    <!-- file: train.py -->     the block is saved under this name before the commands below it run
    <!-- output -->             the block shows lines of the output of the command above it
    <!-- sample output -->      the output in the block is that of another job: it is not compared
    <!-- exit code: 1 -->       the last command of the block ends with this exit code
    <!-- needs: torch -->       the page is run only where this module is installed (anywhere in the page)
    <!-- not run: REASON -->    the block is only parsed
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
ENGLISH_PAGES = [
    page for page in PAGES if not page.is_relative_to(ROOT / "docs/zh") and not page.name.endswith(".zh.md")
]
_BLOCK = re.compile(
    r"^(?P<markers>(?:<!--[^\n]*-->\n+)*)(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_MARKER = re.compile(r"<!-- (file|output|sample output|exit code|needs|not run)(?:: (.+?))? -->")
_COMMAND_SEPARATORS = {"|", "||", "&&", ";", ">", "<", "&"}


class Command(NamedTuple):
    """One line that a reader types, and the lines of output that the page shows below it."""

    text: str
    output: tuple[str, ...] = ()
    exit_code: int = 0

    @property
    def words(self) -> list[list[str]]:
        """The words of each simple command of the line."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        found: list[list[str]] = [[]]
        for word in lexer:
            if word in _COMMAND_SEPARATORS:
                found.append([])
            else:
                found[-1].append(word)
        return [words for words in found if words]


@dataclass(frozen=True)
class Block:
    """A code block with its language and markers."""

    kind: str
    text: str
    markers: dict[str, str]

    def commands(self) -> Iterator[Command]:
        """The commands of a `console` block; a line without a prompt is output of the command above it."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        for number, part in enumerate(parts, 1):
            # A command goes on in the next line after a backslash.
            text, _, output = part.replace("\\\n", " ").partition("\n")
            code = self.markers.get("exit code", "0") if number == len(parts) else "0"
            yield Command(text, tuple(line for line in output.splitlines() if line.strip()), int(code))


def blocks(page: Path, kind: str | None = None) -> list[Block]:
    """The code blocks of a page, of one language or of all."""
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        indent = match["indent"]
        text = re.sub(rf"^{indent}", "", match["text"], flags=re.MULTILINE)
        markers = dict(_MARKER.findall(match["markers"]))
        found.append(Block(match["kind"], text, markers))
    return [block for block in found if kind in (None, block.kind)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def spans(page: Path) -> list[str]:
    """The commands in the running text and in tables: code spans that begin with `vcjob` and a verb."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [span.replace("\\|", "|") for span in re.findall(r"`(vcjob [a-z][^`]*)`", text.replace("\n", " "))]
