"""The classes that a function uses are in its text as they are here, or the function is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sdk.authoring.notebook import output_of, refused, same_here_and_there


def test_class_attributes_and_defaults_of_methods_keep_their_values() -> None:
    cell = """
        rate = 1
        class A:
            size = rate
            count = 0
            def get(self, rate=rate): return self.size, self.count, rate
        rate = 2
        A.count = 5
        def train(): return A().get()
    """
    assert same_here_and_there(cell) == (1, 5, 1)


def test_a_class_that_was_changed_after_its_definition_is_refused() -> None:
    cell = "class A:\n    def get(self): return 1\ndef get(self): return 2\n{}\ndef train(): return A().get()"
    assert "A (its function get was replaced)" in refused(cell.format("A.get = get"))
    assert "A (it got attributes after its definition: x)" in refused(cell.format("A.x = 1"))
    assert "A (it got attributes after its definition: __len__)" in refused(cell.format("A.__len__ = get"))


def test_names_in_the_body_of_a_class_are_its_own() -> None:
    cell = """
        x = object()
        class A:
            @property
            def x(self): return self.y
            @x.setter
            def x(self, value): self.y = value
        def train():
            a = A()
            a.x = 1
            return a.x
    """
    assert same_here_and_there(cell) == 1


def test_a_class_in_a_function_is_shipped_with_the_variables_of_the_function() -> None:
    cell = """
        def outer(n):
            class A:
                {}
                def get(self): return n
            def train(): return A().get()
            return train
        train = outer(3)
    """
    assert same_here_and_there(cell.format("")) == 3
    assert same_here_and_there(cell.format("m = n + 1")) == 3
    message = refused(cell.format("m = sum([n])").replace("return n", "return 1"))
    assert "A (it uses n, a local variable of the function around it)" in message


def test_classes_of_other_cells_need_no_function_of_their_own() -> None:
    assert same_here_and_there(
        "import dataclasses, enum",
        "class Color(enum.Enum):\n    RED = 1",
        "@dataclasses.dataclass\nclass Point:\n    x: int = 0",
        "@dataclasses.dataclass\nclass Point:\n    x: int = 1",
        "def train(): return Point().x, Color.RED.value",
    ) == (1, 1)
    message = refused("class A:\n    x = 1\nold = A", "class A:\n    x = 2\n", "def train(): return old.x")
    assert "A (it was defined several times)" in message
    assert "A (its source is not known)" in refused("A = type('A', (), {})\ndef train(): return A")


def test_classes_of_a_real_notebook_are_found() -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    cells = [
        "import dataclasses, enum",
        "@dataclasses.dataclass\nclass Point:\n    x: int = 0",
        "class Color(enum.Enum):\n    RED = 1",
        "@dataclasses.dataclass\nclass Point:\n    x: int = 1",
        "%time 0\ndef train(): return Point().x, Color.RED.value",
        "from vcjob.sdk.authoring.functions import function_program\nprint('TEXT', function_program(train))",
    ]
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        f"for cell in {cells!r}: InteractiveShell.instance().run_cell(cell, store_history=True)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert output_of(run.stdout.partition("TEXT ")[2]) == (1, 1), run.stdout + run.stderr


def test_a_dataclass_keeps_its_fields() -> None:
    cell = """
        import dataclasses
        from dataclasses import KW_ONLY, InitVar, dataclass
        from typing import ClassVar
        @dataclass
        class Point:
            x: int
            first: InitVar[int]
            _: KW_ONLY
            y: int = dataclasses.field(default=2, repr=False)
            count: ClassVar[int] = 0
        def train(): return repr(Point(1, 2)), [each.name for each in dataclasses.fields(Point)]
    """
    assert same_here_and_there(cell) == ("Point(x=1)", ["x", "y"])


def test_fields_of_named_tuples_and_slots_keep_their_defaults() -> None:
    cell = """
        from dataclasses import dataclass
        from typing import NamedTuple
        rate = 1
        class Pair(NamedTuple):
            x: int = rate
            def get(self): return self.x
        @dataclass(slots=True)
        class Point:
            x: int = rate
        rate = 2
        def train(): return Pair().get(), Point().x
    """
    assert same_here_and_there(cell) == (1, 1)


def test_a_class_comes_before_its_subclasses_also_where_it_uses_them() -> None:
    cell = """
        class Base:
            def make(self): return Leaf(), Twig(), Alias()
        class Leaf(Base): ...
        Alias = Leaf
        class Twig(Alias): ...
        def train(): return [type(each).__name__ for each in Base().make()]
    """
    assert same_here_and_there(cell) == ["Leaf", "Twig", "Leaf"]


def test_other_kinds_of_classes_are_shipped() -> None:
    cell = """
        import abc, enum
        from typing import Generic, TypedDict, TypeVar
        T = TypeVar("T")
        class Base(abc.ABC):
            @abc.abstractmethod
            def get(self): ...
        class Box(Base, dict):
            size = 3
            @property
            def double(self): return self.size * 2
            @double.setter
            def double(self, value): self.size = value / 2
            @staticmethod
            def make(size=size): return size
            def __secret(self, n=size): return n
            def get(self): return super().get() or self.__secret()
            class Inner:
                depth = 1
        class Planet(enum.IntEnum):
            EARTH = enum.auto()
            def far(self): return self > 0
        class Options(TypedDict):
            x: int
        class Error(Exception):
            code = 1
        def train(): return Box().get(), Box().double, Box.make(), Box.Inner.depth, Planet.EARTH.far(), Options(x=1), Error.code
    """
    assert same_here_and_there(cell) == (3, 6, 3, 1, True, {"x": 1}, 1)
