"""The stacks that another process reads for the supervisor."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from tests.local.conftest import eventually
from vcjob.diagnosis.observation import Frame
from vcjob.diagnosis.stacks import RankStack
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor import stack_reader
from vcjob.local.supervisor.stack_reader import StackReader

_FRAMES = (Frame("step", "train.py", 2), Frame("main", "train.py", 1))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackReader:
    """A reader whose process prints the file `stacks`."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/stacks\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return StackReader(RunDir(str(tmp_path)))


def _read(reader: StackReader) -> bool:
    reader.poll(1.0)
    return bool(reader.stacks)


def test_more_stacks_than_a_pipe_holds_are_read(reader: StackReader, tmp_path: Path) -> None:
    stacks = [RankStack(f"pod-{rank}", rank, frames=_FRAMES) for rank in range(3000)]
    (tmp_path / "stacks").write_bytes(msgspec.json.encode(stacks))
    eventually(lambda: _read(reader), what="the end of the process that reads the stacks")
    assert reader.stacks == dict.fromkeys(range(3000), (_FRAMES, 1.0))


def test_more_output_than_the_limit_is_not_read(
    reader: StackReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks").write_bytes(msgspec.json.encode([RankStack("pod-0", 0, frames=_FRAMES)]))
    eventually(lambda: _read(reader), what="the end of the process that reads the stacks")
    monkeypatch.setattr(stack_reader, "_MOST_BYTES", 10)
    eventually(lambda: not _read(reader), what="stacks that cannot be read")
