"""The examples in docstrings of the SDK are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from vcjob import sdk

MODULES = ["vcjob", *(each.name for each in pkgutil.walk_packages(sdk.__path__, "vcjob.sdk."))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runs in a folder with a script and a Job file, as a user has them."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('trained')\n")
    Path("job.yaml").write_text(sdk.to_yaml(sdk.pytorch_job("hello", script="train.py", workers=0)))
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_functions_of_the_sdk_have_examples() -> None:
    examples = doctest.DocTestFinder()
    without = [
        name
        for name in (
            "find",
            "jobs",
            "load",
            "pytorch_job",
            "render",
            "run",
            "script_job",
            "to_yaml",
            "validate",
            "watch",
        )
        if not any(test.examples for test in examples.find(getattr(sdk, name), name))
    ]
    assert without == []
