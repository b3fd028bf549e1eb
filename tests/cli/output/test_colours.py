"""Colours and excerpts of problems, on terminals only."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.conftest import GUIDE
from vcjob.cli.output.problem_text import frame
from vcjob.cli.output.style import Style
from vcjob.spec.problem import Problem


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_problem_on_a_terminal_has_colours_and_the_line_with_a_caret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    file = tmp_path / "job.yaml"
    file.write_text("x\n \t a: 1\n")
    problem = Problem(
        severity="warning", where=("spec", "a"), message="no", hint="yes", file=str(file), line=2, column=4
    )
    assert frame(problem, Style(Terminal())).splitlines() == [
        f"\033[1m{file}:2:4\033[0m: \033[1;33mwarning\033[0m: spec.a: no",
        "\033[2m     2 | \033[0m \t a: 1",
        "\033[2m       | \033[0m \t \033[1;31m^\033[0m",
        "  \033[1;36mhint\033[0m: yes",
    ]


def test_no_color_takes_the_colours_and_leaves_the_caret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = tmp_path / "job.yaml"
    file.write_text("x\nabcd\n")
    problem = Problem(severity="error", where=(), message="no", file=str(file), line=2, column=3)
    assert frame(problem, Style(Terminal())) == f"{file}:2:3: error: no\n     2 | abcd\n       |   ^"


@pytest.mark.parametrize(
    ("file", "line"), [("gone.yaml", 1), ("<stdin>", 1), (GUIDE, 999), (GUIDE, None), (None, None)]
)
def test_without_the_line_at_hand_there_is_no_excerpt(
    file: str | None, line: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    problem = Problem(severity="error", where=("spec",), message="no", file=file, line=line, column=line)
    place = ":".join(str(part) for part in (file, line, line) if part is not None)
    assert frame(problem, Style(Terminal())) == f"{place}: error: spec: no".removeprefix(": ")


@pytest.mark.parametrize(
    ("stream", "variables", "painted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_only(
    stream: io.StringIO, variables: dict[str, str], painted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Style(stream)("text", "bold", "green") == ("\033[1;32mtext\033[0m" if painted else "text")
    assert Style(stream)("text") == "text"
