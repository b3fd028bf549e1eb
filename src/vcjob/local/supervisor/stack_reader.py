"""Reads the stacks of ranks that have no agent: a subprocess runs py-spy. Used by the supervisor's `HangWatch`.

py-spy stops a rank for milliseconds, so stacks are read only when every rank has been idle for a while. Where py-spy is
missing or may not attach, there are no stacks and no message.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import IO

import msgspec

from vcjob.diagnosis.observation import Frame
from vcjob.diagnosis.stacks import RankStack
from vcjob.local.run.run_dir import RunDir

#: The stacks of some ten thousand ranks.
_MOST_BYTES = 1 << 25
_STACKS = msgspec.json.Decoder(list[RankStack])


class StackReader:
    """The stacks of one run, by rank, each with the time since when it has been the same. Never blocks.

    `HangWatch` polls it while all ranks are idle. A failed read leaves no stacks, and no error.
    """

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._reading: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes]
        self._began = 0.0
        self.stacks: dict[int, tuple[tuple[Frame, ...], float]] = {}

    def poll(self, now: float) -> None:
        """Take over what has been read, and read again."""
        if self._reading is None:
            self._start(now)
        elif self._reading.poll() is not None:
            self._finish()
            self._reading = None

    def _start(self, now: float) -> None:
        command = [sys.executable, "-P", "-m", "vcjob.local.live.stacks", self._run.folder]
        try:
            # A pipe would block the process when it is full.
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
            self._reading = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.DEVNULL
            )
            self._began = now
        except OSError:
            self._reading = None

    def _finish(self) -> None:
        with self._output as output:
            try:
                output.seek(0)
                found = _STACKS.decode(output.read(_MOST_BYTES))
            except (OSError, msgspec.MsgspecError):
                found = []
        before, self.stacks = self.stacks, {}
        for stack in found:
            if stack.rank is not None and stack.frames:
                known = before.get(stack.rank)
                same = known is not None and known[0] == stack.frames
                self.stacks[stack.rank] = known if known and same else (stack.frames, self._began)
