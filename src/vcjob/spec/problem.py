"""A problem: what is wrong with a Job, where, and what to write instead.

Every check yields problems and never raises for a bad Job. `error` and `warning` make them and keep their
texts within a fixed length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, overload

import msgspec

Severity: TypeAlias = Literal["error", "warning"]
Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]


#: Longest message or hint, and longest key in a path: both may quote what the author of a Job wrote.
MAX_TEXT = 1_000
MAX_STEP = 253


def format_path(path: Sequence[Step]) -> str:
    """`("spec", "tasks", 1, "name")` as text: `spec.tasks[1].name`.

    A key that would read as several steps (a label with dots) is quoted in brackets.
    """
    out = ""
    for step in path:
        if isinstance(step, str):
            step = _cut(step, MAX_STEP)
        if isinstance(step, int):
            out += f"[{step}]"
        elif "." in step or "[" in step or step == "":
            out += f'["{step}"]'
        else:
            out += f".{step}" if out else step
    return out


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One error or warning about a Job. `where` is the place as steps, `path` the same as text.

    `line` and `column` are 1-based and filled in from the file's positions where there is a file.
    """

    severity: Severity
    where: Path
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def path(self) -> str:
        return format_path(self.where)

    def to_json(self) -> dict[str, object]:
        return {
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
        }


@overload
def _cut(text: str, most: int = ...) -> str: ...
@overload
def _cut(text: None) -> None: ...
def _cut(text: str | None, most: int = MAX_TEXT) -> str | None:
    return text if text is None or len(text) <= most else f"{text[: most - 1]}…"


def error(where: Path, message: str, hint: str | None = None) -> Problem:
    return Problem(severity="error", where=where, message=_cut(message), hint=_cut(hint))


def warning(where: Path, message: str, hint: str | None = None) -> Problem:
    return Problem(severity="warning", where=where, message=_cut(message), hint=_cut(hint))


def has_errors(problems: Iterable[Problem]) -> bool:
    return any(p.severity == "error" for p in problems)
