"""`scripts/run-tests`: what runs a second time (docs/decisions/0026-second-attempt.md)."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts/run-tests"
#: Fails as often as its argument says, then passes; each attempt is a line in a file.
FAILS = """
import pathlib
def test_{name}():
    with pathlib.Path(__file__).with_suffix(".tries").open("a+") as tries:
        tries.write("x")
        tries.seek(0)
        assert len(tries.read()) > {failures}
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module whose repository is a folder with tests of its own."""
    loader = SourceFileLoader("run_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("VCJOB_SECOND_ATTEMPT", "1")
    # A test that is written twice within a second would be taken from the compiled file of the first.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return module


def write(folder: Path, **failures: int) -> None:
    for name, count in failures.items():
        (folder / f"test_{name}.py").write_text(FAILS.format(name=name, failures=count))


def attempts(folder: Path, name: str) -> int:
    return len((folder / f"test_{name}.tries").read_text())


def run(script: ModuleType, folder: Path) -> bool:
    with (folder / "output").open("wb") as output:
        return bool(script.tests("tests", "--rootdir=.")(output.fileno()))


def test_a_test_that_fails_once_is_named_and_does_not_fail_the_run(
    script: ModuleType, tmp_path: Path
) -> None:
    write(tmp_path, steady=0, unstable=1)
    assert run(script, tmp_path)
    assert script.unstable == ["test_unstable.py::test_unstable"]
    assert (attempts(tmp_path, "steady"), attempts(tmp_path, "unstable")) == (1, 2)
    assert "1 failed, 1 passed" in (tmp_path / "output").read_text()


def test_a_test_that_fails_twice_fails_the_run(script: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, unstable=1, broken=2)
    assert not run(script, tmp_path)
    assert script.unstable == []
    assert attempts(tmp_path, "broken") == 2


def test_many_failures_are_not_tried_again(script: ModuleType, tmp_path: Path) -> None:
    names = [f"broken{place}" for place in range(script.MOST_UNSTABLE + 1)]
    write(tmp_path, **dict.fromkeys(names, 1))
    assert not run(script, tmp_path)
    assert [attempts(tmp_path, name) for name in names] == [1] * len(names)


def test_without_the_variable_one_failure_fails_the_run(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VCJOB_SECOND_ATTEMPT")
    write(tmp_path, unstable=1)
    assert not run(script, tmp_path)
    assert attempts(tmp_path, "unstable") == 1


def test_a_failure_of_an_earlier_run_is_no_reason_for_a_second_attempt(
    script: ModuleType, tmp_path: Path
) -> None:
    write(tmp_path, broken=3)
    assert not run(script, tmp_path)
    write(tmp_path, broken=0)
    assert run(script, tmp_path)
    assert script.unstable == []
    assert attempts(tmp_path, "broken") == 3


def test_a_pytest_that_cannot_run_fails_the_run(script: ModuleType, tmp_path: Path) -> None:
    assert not run(script, tmp_path)  # nothing to collect
    assert script.unstable == []
