"""One line that says what takes long, and for how long: rewritten in place on a terminal, every 20 s elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self


class Progress:
    """``with Progress("building etcd"):`` prints the line, keeps it alive, and ends it with the time taken."""

    def __init__(self, what: str) -> None:
        self.what = what
        # pytest replaces sys.stderr; the real one shows the line while a fixture is still at work.
        self._out = sys.__stderr__ or sys.stderr
        self._terminal = self._out.isatty()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._say("...")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._say("failed" if kind else "done", last=True)

    def _tick(self) -> None:
        while not self._done.wait(1 if self._terminal else 20):
            self._say("...")

    def _say(self, state: str, last: bool = False) -> None:
        seconds = time.monotonic() - self._began
        line = f"testbed: {self.what} {state} {seconds:.0f} s"
        self._out.write(f"\r\033[K{line}" + ("\n" if last else "") if self._terminal else line + "\n")
        self._out.flush()
