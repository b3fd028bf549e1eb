"""Help texts, messages, pages, docstrings and comments are in plain English: none of the listed phrases appears."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.docs.prose import prose
from tests.source_files import MODULES, SOURCES, read
from vcjob.cli.main import VERBS, cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "charts/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)

#: A pattern and what to write instead. A pattern matches whole words and any amount of white space.
PHRASES = {
    "told": "reported, told apart: distinguished",
    "anew": "again",
    "for company": "batched",
    "mend(s|ed|ing)?": "repair",
    "(is|are|was|were|be) looked at": "reconciled, checked, considered",
    "looked at": "alternatives, considered",
    "go(es)? on by itself": "continues",
    "what (came|comes) of it": "the result",
    "in good order": "gracefully",
    "by itself": "on its own, automatically",
    "(is|are) there already": "already exists",
    "(is|are) not there": "does not exist",
    "(is|are) going(?! to)": "is terminating",
    "(is|are) asked for": "is requested",
    "grounds?": "backend",
    "(own|same|new) words": "message, reason",
    "a moment": "briefly, or the time in seconds",
    "beside": "next to, in addition to, compared with",
    "takes? up (a|the) Job": "picks the Job up",
    "without a word": "silently",
    "(does|did) not speak HTTP": "invalid HTTP response",
    "calm weather": "without faults",
    "lookout": "watcher, the process that polls",
    "comes? to naught": "fails",
    "in one go": "at once",
    "a way out": "a hint",
    "for nobody": "without use",
    "for people": "for users",
    "of old": "earlier",
    "as ever": "as usual",
    "for ever(?! every)": "without end",
    "said about": "reported, the message about",
    "up or done": "running or done",
    "is no (regular expression|label selector|point in time|number)": "is not a ...",
}
BANNED = re.compile(r"\b(?:" + "|".join(PHRASES).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
#: The folders whose docstrings and comments are checked, and the files in them: `scripts` has some without a suffix.
SOURCE_FOLDERS = ("src", "bench", "scripts", "tests", "examples")
SUFFIXES = {".py", ".js", ".sh", ".go", ".yaml", ".css", ".html", ""}
#: A name that users type. The text of code blocks and code spans is checked, so that messages in them are, too.
NAMES = re.compile(r"--beside-volcano")


def banned(text: str) -> list[str]:
    return [match[0] for match in BANNED.finditer(NAMES.sub("", text))]


def sources(folder: str) -> list[Path]:
    """The files of a folder that hold text. This file has the phrases themselves."""
    return [
        path
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__)
    ]


def helps(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Every help text of a command and of its sub-commands."""
    yield path, command.help or ""
    for each in command.params:
        if isinstance(each, click.Option):
            yield f"{path} {each.opts[0]}", each.help or ""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, f"{path} {name}")


@pytest.mark.parametrize("phrase", ["it is told", "Looked\nat", "on the local ground", "in its own words"])
def test_a_phrase_is_found_across_lines_and_in_any_case(phrase: str) -> None:
    assert banned(phrase) != []


@pytest.mark.parametrize("text", ["background", "it is going to end", "`--beside-volcano`", "besides"])
def test_longer_words_and_names_are_no_violations(text: str) -> None:
    assert banned(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_none_of_the_phrases(page: Path) -> None:
    assert banned(page.read_text(encoding="utf-8")) == []


def test_no_message_has_one_of_the_phrases() -> None:
    found = {
        f"{source.relative_to(SOURCES)}:{line}": phrases
        for source in MODULES
        for line, text in read(source).strings
        if (phrases := banned(text))
    }
    assert found == {}


@pytest.mark.parametrize("folder", SOURCE_FOLDERS)
def test_no_docstring_or_comment_has_one_of_the_phrases(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": phrases
        for path in sources(folder)
        for line, text in prose(path)
        if (phrases := banned(text))
    }
    assert found == {}


@pytest.mark.parametrize("verb", VERBS)
def test_no_help_text_has_one_of_the_phrases(verb: str) -> None:
    command = cli.get_command(cli.make_context("vcjob", [], resilient_parsing=True), verb)
    assert command is not None
    assert {where: banned(text) for where, text in helps(command, verb) if banned(text)} == {}


def test_the_targets_of_make_have_none_of_the_phrases() -> None:
    assert banned((ROOT / "Makefile").read_text(encoding="utf-8")) == []
