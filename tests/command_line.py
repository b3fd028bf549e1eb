"""The command line as a user types it: in this process, which is fast, or as a process that can be interrupted."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from vcjob.cli.main import main

#: `vcjob` in the interpreter that runs the tests.
VCJOB = [sys.executable, "-m", "vcjob.cli.main"]


def verb(
    *words: str, cwd: Path | None = None, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `vcjob WORDS` in this process; bytes that are no UTF-8 are kept in its output."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd or Path.cwd()),
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        for name, value in env.items():
            patch.setenv(name, value)
        code = main(list(words))
    texts = [stream.buffer.getvalue().decode(errors="surrogateescape") for stream in (out, err)]
    return subprocess.CompletedProcess(["vcjob", *words], code, *texts)


def background(cwd: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """Start `vcjob WORDS` as a process; its errors are part of its output."""
    return subprocess.Popen(
        [*VCJOB, *words], cwd=cwd, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options
    )  # fmt: skip


def on_terminal(cwd: Path, *words: str, **env: str) -> tuple[int, str]:
    """Run `vcjob WORDS` on a terminal: its exit code and all that it writes."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **env}
    with subprocess.Popen(
        [*VCJOB, *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment
    ) as command:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the verb has ended
            while data := os.read(ours, 65536):
                shown += data
        os.close(ours)
    return command.returncode, shown.decode()
