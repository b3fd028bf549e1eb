"""A Job given as Python data is copied, and what JSON cannot express is refused with its path."""

from __future__ import annotations

import datetime
import enum
from types import MappingProxyType
from typing import Any

import pytest

from vcjob.spec.document import MAX_DEPTH, Document
from vcjob.spec.problem import Problem, Severity, error, format_path, has_errors, warning


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


class Size(enum.IntEnum):
    TWO = 2


def test_the_data_is_a_copy() -> None:
    given: dict[str, Any] = {"a": [1, {"b": 2}]}
    document = Document.of(given)
    document.data["a"][1]["b"] = 3
    assert given == {"a": [1, {"b": 2}]}


def test_mappings_tuples_and_enumerations_are_plain_afterwards() -> None:
    data = Document.of(MappingProxyType({"a": (1, 2.0, 2.5), "b": Colour.RED, "c": Size.TWO})).data
    assert data == {"a": [1, 2, 2.5], "b": "red", "c": 2}
    assert [type(value) for value in (*data["a"], data["b"], data["c"])] == [int, int, float, str, int]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime.date(2026, 1, 1), "a date is not allowed in a Job"),
        (b"x", "a bytes is not allowed"),
        ({1, 2}, "a set is not allowed"),
        (float("nan"), "infinity and NaN"),
        (float("inf"), "infinity and NaN"),
        (2**64, "64 bits"),
        (1e30, "64 bits"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_path(value: object, words: str) -> None:
    (problem,) = Document.of({"a": [value]}).problems
    assert words in problem.message
    assert problem.path == "a[0]"
    assert problem.hint


@pytest.mark.parametrize(("key", "words"), [(1, "not text"), (None, "empty"), ("", "empty")])
def test_keys_that_are_not_text_are_refused(key: object, words: str) -> None:
    document = Document.of({"a": {key: 1, "b": 2}})
    assert document.data == {"a": {"b": 2}}
    assert (document.problems[0].path, words in document.problems[0].message) == ("a", True)


def test_text_beyond_ascii_is_kept_in_keys_and_values() -> None:
    document = Document.of({"名": "训练"})
    assert (document.data, document.problems) == ({"名": "训练"}, [])


def test_half_a_character_in_a_key_is_refused_at_the_key() -> None:
    document = Document.of({"a": {"\ud800": 1, "b": 2}})
    assert document.data == {"a": {"b": 2}}
    first = document.problems[0]
    assert (first.path, first.hint) == ("a", "correct the text")
    assert "lone surrogate" in first.message


def test_data_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    (problem,) = Document.of(loop).problems
    assert "deeper than 100" in problem.message
    assert len(problem.where) == MAX_DEPTH


@pytest.mark.parametrize("data", [None, 5, [], {"kind": 5, "apiVersion": [], "metadata": "x"}])
def test_a_document_without_kind_and_name(data: Any) -> None:
    document = Document(data)
    assert (document.kind, document.name) == (None, None)


def test_a_document_knows_what_it_is() -> None:
    document = Document({"kind": "Job", "apiVersion": "v1", "metadata": {"name": "x"}})
    assert (document.kind, document.name) == ("Job", "x")


def test_each_problem_is_located_once() -> None:
    problem = error(("a",), "bad")
    assert Document({}).locate([problem, problem]) == [problem]


def test_a_problem_that_has_a_place_keeps_it() -> None:
    placed = Problem(severity="error", where=("a",), message="m", file="x", line=9, column=8)
    assert Document({}, file="y").locate([placed]) == [placed]


def test_paths_are_written_as_people_write_them() -> None:
    assert format_path(("spec", "tasks", 1, "name")) == "spec.tasks[1].name"
    assert format_path(("metadata", "labels", "example.com/a")) == 'metadata.labels["example.com/a"]'
    assert format_path((0, "a")) == "[0].a"
    assert format_path(()) == ""


def test_a_warning_is_a_problem_of_less_weight() -> None:
    assert warning(("a",), "m", "h") == Problem(severity="warning", where=("a",), message="m", hint="h")


def test_problems_without_a_place_come_first_and_errors_before_warnings() -> None:
    order: list[tuple[Severity, int, int]] = [
        ("warning", 2, 1),
        ("error", 2, 1),
        ("error", 1, 9),
        ("error", 1, 2),
    ]
    placed = [
        Problem(severity=severity, where=(), message=f"{line}:{column}", line=line, column=column)
        for severity, line, column in order
    ]
    found = Document({}).locate([*placed, error((), "nowhere")])
    assert [(p.message, p.severity) for p in found] == [
        ("nowhere", "error"), ("1:2", "error"), ("1:9", "error"), ("2:1", "error"), ("2:1", "warning"),
    ]  # fmt: skip


def test_the_file_of_python_data_is_its_own_affair() -> None:
    assert Document.of({"a": 1}, file="x.py").locate([error(("a",), "m")])[0].file == "x.py"


def test_numbers_at_the_edge_of_64_bits_are_kept() -> None:
    assert Document.of({"a": 2**64 - 1, "b": -(2**63)}).problems == []


def test_only_errors_count_as_errors() -> None:
    assert has_errors([warning((), "w"), error((), "e")])
    assert not has_errors([warning((), "w")])


def test_a_problem_as_json() -> None:
    assert error(("a", 0), "m", "h").to_json() == {
        "severity": "error", "path": "a[0]", "message": "m", "hint": "h", "file": None, "line": None, "column": None,
    }  # fmt: skip
