"""Problems of a Job as text: where, what, and what to write instead.

`validate`, `run`, `render` and `convert` show problems with it, and `failure` shows those of an InvalidJob. The line
of the file is read again for a terminal, and left out if that fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, TextIO

from vcjob.cli.output.style import Style

if TYPE_CHECKING:
    from vcjob.spec.problem import Problem

_COLOURS = {"error": "red", "warning": "yellow"}


def frame(problem: Problem, style: Style) -> str:
    """`file:line:column: error: path: message`, the hint, and on a terminal the line with a caret under it."""
    place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part is not None)
    parts = [
        style(style.clean(place), "bold"),
        style(problem.severity, "bold", _COLOURS[problem.severity]),
        style.clean(problem.path),
        style.clean(problem.message),
    ]
    lines = [": ".join(part for part in parts if part)]
    if style.on_terminal:
        lines += _excerpt(problem, style)
    if problem.hint:
        lines.append(f"  {style('hint', 'bold', 'cyan')}: {style.clean(problem.hint)}")
    return "\n".join(lines)


def show_problems(problems: Iterable[Problem], stream: TextIO) -> None:
    style = Style(stream)
    for problem in problems:
        stream.write(frame(problem, style) + "\n")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _excerpt(problem: Problem, style: Style) -> list[str]:
    if problem.file is None or problem.line is None or problem.column is None:
        return []
    lines = _lines(problem.file)
    if problem.line > len(lines):
        return []
    text = lines[problem.line - 1]
    # Tabs are kept, so that the caret is below the right character.
    indent = "".join("\t" if char == "\t" else " " for char in text[: problem.column - 1])
    number = f"{problem.line:>6} | "
    return [
        style(number, "dim") + style.clean(text),
        style(" " * 6 + " | ", "dim") + indent + style("^", "bold", "red"),
    ]


@cache
def _lines(file: str) -> list[str]:
    """The lines of the file; without any if it cannot be read again."""
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as text:
            return text.read().splitlines()
    except OSError:
        return []
