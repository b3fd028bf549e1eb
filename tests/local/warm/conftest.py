"""Starting the same command twice: the plain way and from a zygote."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vcjob.local.machine import files
from vcjob.local.pod.launch import Child, Launcher, LaunchRequest, PlainLauncher
from vcjob.local.warm.client import WarmLauncher

#: The interpreter of the jobs: any other than ours will do, and need not have vcjob.
PYTHON = os.environ.get("VCJOB_TEST_JOB_PYTHON") or sys.executable


_NUMBERS = count()  # each start has files of its own


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return {**env, "PYTHONUNBUFFERED": "1", **more}


class Starter:
    """A launcher, a folder to run in, and somewhere to put the output."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.launcher = launcher
        self.folder = folder

    def start(self, *argv: str, env: dict[str, str] | None = None, **fields: Any) -> Running:
        number = next(_NUMBERS)
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        descriptors = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in (out, err)]
        request = LaunchRequest(
            argv=list(argv), env=environment() if env is None else env, cwd=str(self.folder),
            stdout=descriptors[0], stderr=descriptors[1],
        )._replace(**fields)  # fmt: skip
        try:
            return Running(self.launcher.launch(request), out, err)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def run(self, *argv: str, env: dict[str, str] | None = None, **fields: Any) -> Outcome:
        return self.start(*argv, env=env, **fields).wait()


class Running:
    def __init__(self, child: Child, out: Path, err: Path) -> None:
        self.child = child
        self.out, self.err = out, err

    def wait(self, seconds: float = 60) -> Outcome:
        while (code := self.child.poll()) is None:
            assert files.wait_readable(self.child.fileno(), seconds), "it did not end"
        self.child.close()
        return Outcome(code, self.out.read_text(), self.err.read_text())

    def line(self, seconds: float = 60) -> str:
        """The first line it writes."""
        import time

        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            text = self.out.read_text()
            if "\n" in text:
                return text.splitlines()[0]
            assert self.child.poll() is None, self.err.read_text()
            files.wait_readable(self.child.fileno(), 0.005)
        raise AssertionError("it wrote nothing")


@pytest.fixture
def plain(tmp_path: Path) -> Starter:
    return Starter(PlainLauncher(), tmp_path)


@pytest.fixture(scope="session")
def shared_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WarmLauncher, list[str]]]:
    """One zygote for all tests that need nothing special: it has imported nothing but what it needs itself."""
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path_factory.mktemp("warm")), imports=())
    yield launcher, said
    launcher.close()


@pytest.fixture
def said(shared_launcher: tuple[WarmLauncher, list[str]]) -> list[str]:
    """Why something was started the plain way after all; most tests want that to be empty."""
    launcher, sentences = shared_launcher
    sentences.clear()
    launcher._said.clear()
    return sentences


@pytest.fixture
def warm(
    tmp_path: Path, shared_launcher: tuple[WarmLauncher, list[str]], said: list[str]
) -> Iterator[Starter]:
    yield Starter(shared_launcher[0], tmp_path)
