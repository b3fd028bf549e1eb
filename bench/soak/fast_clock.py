"""`vcjob` on a clock on which waiting takes no time: ``python -m bench.soak.fast_clock HOURS SAMPLES ARGUMENTS...``

Whoever waits for a change of the files looks at them once and continues as much later as it would have waited. The
process writes a sample to the file SAMPLES in every twentieth of the hours, and then interrupts itself as Ctrl-C would.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

from bench.soak.curve import of_this_process
from vcjob.cli.main import main as command_line
from vcjob.local.logs.follower import Follower
from vcjob.local.machine import files
from vcjob.report.logs import Chunk

SAMPLES = 20
#: In every real second at most so much passes: the job that is followed lives on the real clock.
FASTEST = 600.0


class FastClock:
    """Replaces the waiting functions of this process; the time that was not waited is added to its clocks."""

    def __init__(self, seconds: float, samples: Path) -> None:
        self._skipped = 0.0
        self._seconds = seconds
        self._samples = samples
        self._next = seconds / SAMPLES
        self._clocks = {name: getattr(time, name) for name in ("time", "monotonic")}
        self._began = time.monotonic()
        self._sleep = time.sleep
        self._readable = files.wait_readable

    def install(self) -> None:
        for name, clock in self._clocks.items():
            setattr(time, name, lambda clock=clock: clock() + self._skipped)
        patch.object(time, "sleep", self.pass_by).start()
        patch.object(files, "wait_readable", self.wait_readable).start()

    def pass_by(self, seconds: float) -> None:
        self._skipped += seconds
        real = self._clocks["monotonic"]() - self._began
        if self._skipped > FASTEST * real:
            self._sleep(0.001)
        if self._skipped >= self._next:
            self._next += self._seconds / SAMPLES
            with self._samples.open("a") as file:
                file.write(json.dumps([round(self._skipped / 3600, 2), of_this_process()]) + "\n")
            if self._next > self._seconds * (1 + 0.5 / SAMPLES):
                os.kill(os.getpid(), signal.SIGINT)

    def wait_readable(self, descriptor: int, seconds: float) -> bool:
        readable = self._readable(descriptor, 0.0)
        if not readable:
            self.pass_by(seconds)
        return readable


def main(hours: str, samples: str, *arguments: str) -> int:
    poll = Follower.poll

    def first_poll(follower: Follower) -> list[Chunk]:
        # The start of a job waits for other processes, which live on the real clock.
        patched.stop()
        FastClock(float(hours) * 3600, Path(samples)).install()
        return poll(follower)

    patched = patch.object(Follower, "poll", first_poll)
    patched.start()
    return command_line(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
