"""Sources are fetched while others are compiled: on a cold machine the network and the processors work at once."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.testbed.paths import PACKAGE
from tests.testbed.programs.families import Family
from tests.testbed.programs.toolchain import find_go, go_environment


@contextmanager
def fetched_ahead(families: Sequence[Family]) -> Iterator[None]:
    """Meanwhile Go fetches what these families' programs are made of, one family after the other.

    Nothing depends on it: a build fetches what is missing on its own, and reports what cannot be fetched.
    """
    fetching = _Fetching(families)
    fetching.start()
    try:
        yield
    finally:
        fetching.stop()


class _Fetching(threading.Thread):
    def __init__(self, families: Sequence[Family]) -> None:
        super().__init__(name="fetching modules", daemon=True)
        self._families = families
        self._lock = threading.Lock()
        self._stopped = False
        self._running: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        go = find_go()
        for family in self._families:
            with self._lock:
                if self._stopped:
                    return
                # To list the dependencies Go must have their sources, and no more than those.
                self._running = subprocess.Popen(
                    ["nice", "-n", "10", go, "list", "-deps", *family.programs.values()],
                    cwd=PACKAGE / "go" / family.folder,
                    env=go_environment(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            self._running.wait()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()
        self.join()
