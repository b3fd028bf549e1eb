"""`vcjob controller` as users run it, but with a short Lease and a wall clock that a test can move:
``python -m tests.cluster.controller.faults.storm.controller CLOCK-FILE ARGUMENTS...``

The file holds one number, the seconds by which this machine's clock is wrong; it may change at any moment.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from vcjob.kube.controller.lease import LeaseSettings

OFFSET = struct.Struct("<d")
SHORT_LEASE = LeaseSettings(lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.2)


def set_clock(file: Path, seconds: float) -> None:
    with file.open("r+b") as clock:
        clock.write(OFFSET.pack(seconds))


def _follow(clock: Path) -> None:
    with clock.open("rb") as file:
        offset = mmap.mmap(file.fileno(), OFFSET.size, access=mmap.ACCESS_READ)
    true_time = time.time

    def wrong_time() -> float:
        return true_time() + float(OFFSET.unpack_from(offset)[0])

    time.time = wrong_time


def main(clock: str, *arguments: str) -> None:
    _follow(Path(clock))
    from vcjob.cli.main import main as command_line
    from vcjob.cluster.process import main as process

    run = process.run

    def run_with_short_lease(kubeconfig: str | None, context: str | None, chosen: dict[str, Any]) -> int:
        return run(kubeconfig, context, {**chosen, "lease": msgspec.to_builtins(SHORT_LEASE)})

    process.run = run_with_short_lease
    sys.argv = ["vcjob", "controller", *arguments]
    command_line()


if __name__ == "__main__":
    main(*sys.argv[1:])
