"""The verbs as a user types them, in this process and as a process."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import vcjob
from vcjob.cli.main import main


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def verb(*words: str, folder: Path | None = None, stdin: str = "") -> Result:
    """The command line, in this process: what it prints and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(folder or Path.cwd()):
            code = main(list(words))
    finally:
        sys.stdin = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Result(code, *texts)


def background(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vcjob.cli.main", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def written(document: dict[str, Any]) -> str:
        (tmp_path / "job.yaml").write_text(vcjob.to_yaml(document))
        return str(tmp_path / "job.yaml")

    return written
