"""Whether a text is the one from which a function was loaded."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import pytest

from vcjob.sdk.authoring.loaded_code import is_loaded_from

CELL = """import os
def train(steps):
    for step in range(steps):
        if os.sep.join(["a", "b"]) == "a/b":
            print(f"{step}", [each for each in os.environ])
"""


def statements_one_by_one(text: str) -> FunctionType:
    """As IPython runs a cell: the import is not in the text with which the function is compiled."""
    scope: dict[str, Any] = {}
    for node in ast.parse(text).body:
        exec(compile(ast.Module([node], []), "<cell>", "exec"), scope)
    train = scope["train"]
    assert isinstance(train, FunctionType)
    return train


def test_a_function_of_a_cell_is_known_although_its_imports_were_compiled_apart() -> None:
    assert is_loaded_from(CELL, statements_one_by_one(CELL).__code__)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("os.sep.join", "os.sep.strip"),
        ('"a/b"', '"a/c"'),
        ("==", "!="),
        ("for each", "for other"),
        ("steps", "count"),
    ],
)
def test_a_changed_text_is_another_one(old: str, new: str) -> None:
    assert not is_loaded_from(CELL.replace(old, new), statements_one_by_one(CELL).__code__)


def test_comments_may_differ() -> None:
    changed = CELL.replace("range(steps):", "range(steps):  # every step")
    assert is_loaded_from(changed, statements_one_by_one(CELL).__code__)
