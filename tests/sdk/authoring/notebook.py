"""Functions of a notebook's cells, and what their text defines where nothing else exists."""

from __future__ import annotations

import linecache
import sys
import textwrap
from collections.abc import Callable
from itertools import count
from types import ModuleType
from typing import Any

import pytest

import vcjob
from vcjob.sdk.authoring.functions import function_program

_CELLS = count()


class Notebook(dict[str, Any]):
    """The namespace of cells that Python runs, each from a file of its own that `linecache` knows."""

    def __init__(self, *cells: str) -> None:
        super().__init__(__name__="notebook", get_ipython=None, In=[])
        for each in cells:
            self.run(each)

    def run(self, cell: str) -> None:
        text, name = textwrap.dedent(cell), f"<cell-{next(_CELLS)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        self["In"].append(text)
        exec(compile(text, name, "exec", dont_inherit=True), self)

    def text(self, name: str = "train", **parameters: object) -> str:
        function: Callable[..., object] = self[name]
        return function_program(function, parameters)


def module_of(text: str) -> dict[str, Any]:
    """What the text defines where nothing else exists."""
    module = ModuleType("shipped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up
        exec(compile(text, "shipped.py", "exec", dont_inherit=True), vars(module))
    return vars(module)


def output_of(text: str, name: str = "train") -> object:
    return module_of(text)[name]()


def same_here_and_there(*cells: str, name: str = "train") -> object:
    notebook = Notebook(*cells)
    there = output_of(notebook.text(name), name)
    assert there == notebook[name]()
    return there


def refused(*cells: str, name: str = "train", **parameters: object) -> str:
    with pytest.raises(vcjob.UserError) as error:
        Notebook(*cells).text(name, **parameters)
    assert error.value.hint
    return str(error.value)
