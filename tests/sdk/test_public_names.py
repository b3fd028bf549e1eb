"""What `import vcjob` offers."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import vcjob
from vcjob import errors, sdk
from vcjob.kube import errors as kube_errors
from vcjob.spec.problem import Problem


def test_every_public_name_is_there_and_listed() -> None:
    for name in vcjob.__all__:
        assert getattr(vcjob, name) is not None
        assert name in dir(vcjob)
    for name in sdk.__all__:
        assert getattr(sdk, name) is getattr(vcjob, name)
        assert name in dir(sdk)


def test_every_error_is_public() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.VcjobError):
            assert getattr(vcjob, name) is value


def test_every_public_function_and_class_is_documented() -> None:
    for name in sdk.__all__:
        assert (getattr(vcjob, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("module", [vcjob, sdk])
def test_an_unknown_name_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # type: ignore[attr-defined]


@pytest.mark.slow
def test_an_unknown_name_is_an_error_to_a_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import vcjob\nfrom vcjob import sdk\n\nvcjob.jbos()\nsdk.jbos()\nvcjob.jobs()\n")
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    source = Path(vcjob.__file__).parent.parent
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), str(program)],
        capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(source), "PATH": ""}, check=False,
    )  # fmt: skip
    assert checked.stdout.count('has no attribute "jbos"') == 2, checked.stdout + checked.stderr
    assert "Found 2 errors" in checked.stdout


def test_a_traceback_shows_the_hint_of_an_error() -> None:
    """A program or notebook that does not catch it shows nothing else; it survives the way from another process."""
    error = errors.UserError("no", hint="write yes")
    for shown in (error, pickle.loads(pickle.dumps(error))):
        assert traceback.format_exception(shown)[-2:] == ["vcjob.errors.UserError: no\n", "hint: write yes\n"]
    assert len(traceback.format_exception(errors.UserError("no"))) == 1


PROBLEM = Problem(severity="error", where=("spec",), message="m", hint="h")
ERRORS = [
    errors.InvalidJob([PROBLEM]),
    errors.NoSuchJob("no job", hint="look"),
    errors.WaitTimeout("late"),
    kube_errors.Unreachable("gone", hint="wait", may_have_applied=True),
    kube_errors.NotFound(404, reason="NotFound", server_message="no", details={"name": "x"}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_can_be_sent_to_another_process(error: errors.VcjobError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.message, copy.hint, vars(copy)) == (
        str(error),
        error.message,
        error.hint,
        vars(error),
    )
