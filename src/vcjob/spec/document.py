"""One document of a file: plain data, and the position of each part in the file.

The YAML reader makes documents from text, `Document.of` from Python data. Admission reads `data` and gives its
problems to `locate`, which adds file, line and column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.scalars import whole

MAX_DEPTH = 100
MAX_INTEGER = 2**64 - 1
MIN_INTEGER = -(2**63)


class Mark(Protocol):
    """A 0-based position in a text, as the parser gives it.

    Documents keep two numbers of each, and turn them into 1-based ones for problems.
    """

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


# The positions of a mapping's keys or a list's items, each with the positions inside the value.
Places: TypeAlias = "dict[str, tuple[Mark, Places]] | list[tuple[Mark, Places]] | None"


class Document:
    """Plain data (`data`), the file that it came from, and the problems of its text (`problems`).

    `spec.bundle` makes one for each document of a file; admission checks it and asks it where a problem is.
    Read-only, except for `changed`.
    """

    __slots__ = ("_places", "_start", "changed", "data", "file", "problems")

    def __init__(
        self,
        data: Any,
        *,
        file: str | None = None,
        problems: Iterable[Problem] = (),
        places: Places = None,
        start: Mark | None = None,
    ) -> None:
        self.data = data
        self.file = file
        self.problems = list(problems)
        self._places = places
        self._start = start
        #: The parts of `data` that did not come from the file, and what did set them, such as `--set`.
        self.changed: Mapping[Path, str] = {}

    @classmethod
    def of(cls, data: object, *, file: str | None = None) -> Document:
        """A document from Python data: a copy, with a problem for everything that JSON cannot express."""
        problems: list[Problem] = []
        return cls(_plain_copy(data, (), problems), file=file, problems=problems)

    @property
    def kind(self) -> str | None:
        return self._text("kind")

    @property
    def name(self) -> str | None:
        metadata = self.data.get("metadata") if isinstance(self.data, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None

    def position(self, where: Path) -> tuple[int, int] | None:
        """1-based line and column: of the key, or of the list item; for what is absent, of its nearest parent."""
        mark, places = self._start, self._places
        for step in where:
            try:
                mark, places = places[step]  # type: ignore[index]  # a step that does not fit is caught below
            except (KeyError, IndexError, TypeError):
                break
        return None if mark is None else (mark.line + 1, mark.column + 1)

    def locate(self, problems: Iterable[Problem]) -> list[Problem]:
        """The problems with file, line and column, each once, in the order of the file."""
        located = dict.fromkeys(self._located(problem) for problem in problems)
        return sorted(located, key=lambda p: (p.line or 0, p.column or 0, p.severity))

    def _located(self, problem: Problem) -> Problem:
        if problem.line is not None:
            return problem
        for end in range(len(problem.where) if self.changed else 0, 0, -1):
            if problem.where[:end] in self.changed:
                return msgspec.structs.replace(problem, file=self.changed[problem.where[:end]])
        place = self.position(problem.where)
        line, column = place or (None, None)
        return msgspec.structs.replace(problem, file=problem.file or self.file, line=line, column=column)

    def _text(self, key: str) -> str | None:
        value = self.data.get(key) if isinstance(self.data, dict) else None
        return value if isinstance(value, str) else None


def copied(value: Any) -> Any:
    """A copy of plain data; much faster than copy.deepcopy, which supports other types."""
    return msgspec.to_builtins(value)


def _plain_copy(value: object, where: Path, problems: list[Problem]) -> Any:
    if type(value) is str and value.isascii():  # nearly every value of a Job
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text_copy(value, where, problems)
    if isinstance(value, float):
        if not math.isfinite(value):
            problems.append(not_finite(where))
            return None
        value = whole(value)
    if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
        problems.append(too_large(where))
        return None
    if isinstance(value, int):
        return int(value)  # an enumeration's member is a plain number to its reader
    if isinstance(value, float):
        return value
    if len(where) >= MAX_DEPTH:
        problems.append(too_deep(where))
        return None
    if isinstance(value, Mapping):
        copied = {}
        for key, item in value.items():
            name = _text_copy(key, where, problems) if isinstance(key, str) else ""
            if name:
                copied[name] = _plain_copy(item, (*where, name), problems)
            else:
                problems.append(bad_key(where, key))
        return copied
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain_copy(item, (*where, index), problems) for index, item in enumerate(value)]
    problems.append(
        error(
            where, f"a {type(value).__name__} is not allowed in a Job", "use text, numbers, lists and dicts"
        )
    )
    return None


def _text_copy(text: str, where: Path, problems: list[Problem]) -> str:
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.append(
            error(where, "the text contains half a character (a lone surrogate)", "correct the text")
        )
        return ""
    return text


def bad_key(where: Path, key: object) -> Problem:
    what = "is empty" if key is None or key == "" else "is not text"
    return error(where, f"a key {what}", "write `name: value`, with a name before the colon")


def too_deep(where: Path) -> Problem:
    return error(
        where,
        f"the document is nested deeper than {MAX_DEPTH} levels",
        "check the brackets: no Job needs that many levels",
    )


def too_large(where: Path) -> Problem:
    return error(where, "the number does not fit into 64 bits", "write it in quotes if it is meant as text")


def not_finite(where: Path) -> Problem:
    return error(
        where, "infinity and NaN are not allowed in a Job", "write it in quotes if it is meant as text"
    )
