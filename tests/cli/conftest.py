"""Running the command line inside the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vcjob.cli.main import main

GUIDE = "tests/guides/guide.en.yaml"


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Vcjob = Callable[..., Result]


@pytest.fixture
def vcjob(capsys: pytest.CaptureFixture[str]) -> Vcjob:
    def call(*arguments: object) -> Result:
        code = main([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A Job with an error on line 10 (a mistyped field) and one on line 5 (a bad port)."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\n"
        "kind: Job\n"
        "metadata: {name: bad}\n"
        "spec:\n"
        "  plugins: {pytorch: [--port=abc]}\n"
        "  tasks:\n"
        "    - name: master\n"
        "      replicas: 1\n"
        "      template:\n"
        "        spec: {containers: [{name: a, image: b, imge: c, command: [x]}], restartPolicy: Never}\n"
    )
    return path
