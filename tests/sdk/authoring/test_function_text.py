"""The text of a function does exactly what the function does here, or the function is refused with name and reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vcjob
from tests.sdk.authoring.notebook import Notebook, module_of, output_of, refused, same_here_and_there
from vcjob.sdk.authoring.functions import function_program

MAKE = """
    def make(k):
        def step(): return k
        return step
"""


def test_two_closures_of_one_definition_are_refused() -> None:
    message = refused(MAKE, "one, two = make(1), make(2)\ndef train(): return one(), two()")
    assert "step (it stands for two different objects)" in message


def test_an_earlier_version_of_a_function_is_not_replaced_by_the_later_one() -> None:
    message = refused("def f(): return 1\nold = f", "def f(): return 2\ndef train(): return old(), f()")
    assert "f (it stands for two different objects)" in message
    assert same_here_and_there("def f(): return 1\nold = f", "f = 3\ndef train(): return old()") == 1


def test_a_variable_and_a_closure_of_the_same_name_are_refused() -> None:
    message = refused(MAKE, "k = 2\nstep = make(1)\ndef train(): return step(), k")
    assert "k (it stands for two different objects)" in message
    assert same_here_and_there(MAKE, "k = 1\nstep = make(1)\ndef train(): return step(), k") == (1, 1)


def test_a_closure_does_not_hide_a_builtin_of_another_function() -> None:
    shadow = "def make(max):\n    def step(): return max\n    return step\nstep = make(1)\n"
    assert "max (it stands for two different objects)" in refused(
        shadow + "def train(): return max(step(), 5)"
    )


def test_two_names_of_one_function_stay_one_function() -> None:
    assert same_here_and_there("def f(): return again\nagain = f\ndef train(): return again is f is f()")


def test_two_names_of_one_list_stay_one_list() -> None:
    text = Notebook("a = [1]\nb = a\ndef train():\n    a.append(2)\n    return b").text()
    assert output_of(text) == [1, 2]
    message = refused("a = [1]\nb = {'a': a}\ndef train(): return a, b")
    assert "b (it shares a list with a)" in message


def test_a_default_argument_keeps_the_value_of_its_definition() -> None:
    notebook = Notebook(
        "jobs = []\nfor lr in (0.1, 0.2):\n    def tr(lr=lr, *, ä=[lr]): return lr, ä\n    jobs.append(tr)"
    )
    texts = [function_program(job) for job in notebook["jobs"]]
    assert [output_of(text, "tr") for text in texts] == [(0.1, [0.1]), (0.2, [0.2])]
    assert "def tr(lr=0.1, *, ä=[0.1]): return lr, ä" in texts[0]


def test_a_default_argument_that_is_no_plain_value_is_imported_or_refused() -> None:
    assert same_here_and_there("import math\ndef train(f=math.sqrt, g=len): return f(4), g('a')") == (2, 1)
    assert same_here_and_there("def train(key=lambda v: -v): return key(1)") == -1
    message = refused("def train(x=object()): return x")
    assert "train (the default of x has the type object, which cannot be written as text)" in message
    message = refused("f = len\ndef train(f=f): return f('a')\nf = max")
    assert "train (the default of f has the type builtin_function_or_method" in message


LOG = """
    import functools
    def log(fn):
        {}
        def inner(): return ["before", *fn()]
        return inner
"""


def test_a_decorated_function_finds_its_variables() -> None:
    library = "import contextlib\nN = 4\n@contextlib.contextmanager\ndef four(): yield N\n"
    assert same_here_and_there(library + "def train():\n    with four() as n: return n") == 4
    wraps = LOG.format("@functools.wraps(fn)")
    assert same_here_and_there(wraps, "N = 4\n@log\ndef train(): return [N]") == ["before", 4]


def test_a_decorator_without_wraps_is_applied_once() -> None:
    text = Notebook(LOG.format(""), "N = 4\n@log\ndef train(): return [N]").text()
    assert output_of(text, "inner") == ["before", 4]


def test_a_function_that_was_wrapped_by_a_call_is_refused() -> None:
    wraps = LOG.format("@functools.wraps(fn)")
    message = refused(wraps, "def plain(): return [1]\ntrain = log(plain)")
    assert "plain (it was wrapped by a call; use a decorator)" in message
    message = refused(wraps, "@log\ndef f(): return [1]\nold = f\nf = None\ndef train(): return old()")
    assert "its decorators cannot be matched with it" in message


def test_a_function_whose_file_has_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    text = "# 1\nclass A:\n    def get(self): return 1\ndef train(): return 1\ndef user(): return A().get()\n"
    file.write_text(text)
    module: dict[str, Any] = {"__name__": "edited"}
    exec(compile(text, str(file), "exec", dont_inherit=True), module)
    file.write_text(text.replace("# 1", "# a comment"))
    assert output_of(function_program(module["user"]), "user") == 1
    file.write_text(text.replace("return 1", "return 2"))
    with pytest.raises(vcjob.UserError, match=r"train \(its source is not known, or its file has changed\)"):
        function_program(module["train"])
    with pytest.raises(vcjob.UserError, match=r"A \(its file has changed\)"):
        function_program(module["user"])


def test_attributes_of_functions_lambdas_and_methods_are_refused() -> None:
    assert "train (it has attributes: n)" in refused("def train(): return train.n\ntrain.n = 1")
    assert "f (a lambda; define it with `def`)" in refused("f = lambda: 1\ndef train(): return f()")
    assert "m (a method; define a function that calls it)" in refused(
        "class A:\n    def m(self): ...\nm = A.m\ndef train(): return m(A())"
    )
    assert "'A.m' is a method" in refused("class A:\n    def m(self): ...\nm = A.m", name="m")


def test_texts_of_several_lines_in_a_nested_function_stay_as_they_are() -> None:
    cell = (
        "def outer():\n"
        "    def train():\n"
        '        """A function.\n\n        With a docstring."""\n'
        '        return """a\n          b\nc""", train.__doc__\n'
        "    return train\n"
        "train = outer()\n"
    )
    same_here_and_there(cell)
    same_here_and_there(cell.replace("\nc", "\n        c"))
    assert "\ndef train" in Notebook(MAKE.replace("step", "train"), "train = make(1)").text(), (
        "else without indentation"
    )


def test_a_variable_without_a_value_is_refused() -> None:
    cell = "def outer():\n    def train(): return later()\n    yield train\n    def later(): ...\ntrain = next(outer())"
    assert "later (it has no value yet)" in refused(cell)
    cell = "def outer():\n    n = 0\n    def train():\n        nonlocal n\n        n += 1\n    return train\ntrain = outer()"
    assert "train (it cannot stand alone: no binding for nonlocal 'n' found)" in refused(cell)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([1], "parameters must be a dictionary, not a list"),
        ({"a b": 1}, "parameters that cannot be the name of an argument: 'a b'"),
        ({"class": 1}, "parameters that cannot be the name of an argument: 'class'"),
        ({1: 1}, "parameters that cannot be the name of an argument: 1"),
        ({}, "'train' cannot be called with these parameters: missing a required argument: 'rate'"),
        (
            {"rate": 1, "rat": 1},
            "cannot be called with these parameters: got an unexpected keyword argument 'rat'",
        ),
    ],
)
def test_parameters_that_the_function_does_not_take_are_refused(parameters: Any, message: str) -> None:
    notebook = Notebook("def train(rate): ...")
    with pytest.raises(vcjob.UserError) as error:
        vcjob.pytorch_job(notebook["train"], parameters=parameters)
    assert message in str(error.value)
    assert error.value.hint


def test_args_in_place_of_parameters_are_answered_with_parameters() -> None:
    notebook = Notebook("def train(rate): ...")
    with pytest.raises(vcjob.UserError) as error:
        vcjob.pytorch_job(notebook["train"], args=["0.1"])
    assert error.value.hint == "its arguments are (rate): give each by its name in parameters={...}"


def test_values_that_only_look_plain_are_refused() -> None:
    message = refused("class T(str): ...\nvalues = [T('a')]\ndef train(): return values")
    assert "values (list)" in message


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Cells with variables, closures, aliases, defaults and decorators, whose names collide often."""
    names, values = st.sampled_from("abc"), st.sampled_from(["1", "2", "[1]", "'x'", "{'k': (1, 2)}"])
    lines = ["def keep(f): return f", "def twice(f):\n    def g(*v): return [f(*v), f(*v)]\n    return g"]
    for number in range(draw(st.integers(1, 5))):
        name, other, third = draw(names), draw(names), draw(names)
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"{name} = {draw(values)}",
                        f"{name} = globals().get('{other}', 0)",
                        f"def {name}(v={draw(values)}): return [v, str({other}) if not callable({other}) else 0]",
                        f"def {name}(v=globals().get('{other}', 3)): return [v]",
                        f"def m{number}({other}):\n    def {name}(): return {other}\n    return {name}\n{third} = m{number}({draw(values)})",
                        f"@{draw(st.sampled_from(['keep', 'twice']))}\ndef {name}(): return {draw(values)}",
                        f"class {name.upper()}:\n    x = {draw(values)}\n    def __call__(self): return self.x\n{other} = {name.upper()}",
                    ]
                )
            )
        )
    body = "[(v()() if isinstance(v, type) else v()) if callable(v) else v for v in (a, b, c)]"
    return "\n".join(["a = b = c = 0", *lines, f"def train(): return {body}"])


@given(programs())
def test_a_function_returns_the_same_here_and_from_its_text_or_is_refused(program: str) -> None:
    notebook = Notebook(program)
    try:
        text = notebook.text()
    except vcjob.UserError as error:
        assert error.hint
        return
    shipped = module_of(text)
    outputs = []
    for namespace in (notebook, shipped):
        try:
            outputs.append(re.sub(r"<(function|class) .*?(0x\w+|')>", r"<\1>", repr(namespace["train"]())))
        except Exception as error:
            outputs.append(repr(error))
    assert outputs[0] == outputs[1], text
