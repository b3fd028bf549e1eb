"""A cgroup with a memory limit, in which a whole vcjob runs: what a small machine is, without a machine."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")


@contextmanager
def limited_cgroup(limit: int) -> Iterator[Path]:
    """Its `cgroup.procs`; skips the test where none can be made."""
    folder = _new_cgroup(limit)
    try:
        yield folder / "cgroup.procs"
    finally:
        _remove(folder)


def _new_cgroup(limit: int) -> Path:
    reasons = []
    for parent in _parents():
        folder = parent / f"vcjob-gallery-{uuid.uuid4().hex[:8]}"
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        if _limit(folder, limit):
            return folder
        reasons.append(f"{parent}: memory cannot be limited below it")
        folder.rmdir()
    pytest.skip(f"no cgroup with a memory limit can be made: {'; '.join(reasons) or 'there are no cgroups'}")


def _limit(folder: Path, limit: int) -> bool:
    """Whether its memory is limited now and a process can enter it."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        if (folder / name).exists():
            try:
                (folder / name).write_text(str(limit))
            except OSError:
                return False
            entered = subprocess.run(
                ["sh", "-c", f"echo $$ > {folder}/cgroup.procs"], stderr=subprocess.DEVNULL
            )
            return entered.returncode == 0
    return False


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            folder.rmdir()
            return
        except OSError:  # the supervisor in it is about to end
            time.sleep(0.05)


def _parents() -> Iterator[Path]:
    """Our own cgroup and those above it; in version 2 only one without processes can have limited children."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _ROOT / "memory" if controllers else _ROOT
        own = Path(os.path.normpath(f"{root}/{path}"))
        for folder in (own, *own.parents):
            if folder.is_relative_to(root) and (folder / "cgroup.procs").exists():
                yield folder
