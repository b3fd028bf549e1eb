"""What a user sees while a job runs: logs of all ranks, and its state, live on a terminal, in lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, TextIO

from vcjob.cli.style import Style
from vcjob.cli.tables import newest_pods, painted, pod_phase, pod_table

if TYPE_CHECKING:
    from vcjob.lifecycle.status import Status
    from vcjob.report.logs import Chunk
    from vcjob.report.podstate import PodState

_MANY = 16  # more pods than this are counted, not told one by one
_STILL = 15.0  # seconds after which a waiting job says again what it waits for
_REDRAW = 0.1
_RANK_COLOURS = ("36", "32", "33", "35", "34", "96", "92", "93", "95", "94")


def prefixed(chunk: Chunk, colours: bool = False) -> bytes:
    """The lines of a chunk, each with its rank in front; the whole chunk at once, for there may be many."""
    prefix = chunk.origin.prefix
    if colours:
        number = chunk.origin.rank if chunk.origin.rank is not None else len(prefix)
        prefix = f"\033[{_RANK_COLOURS[number % len(_RANK_COLOURS)]}m{prefix}\033[0m"
    mark = prefix.encode() + b" "
    return mark + chunk.data[:-1].replace(b"\n", b"\n" + mark) + b"\n"


class Screen:
    """For files and pipes: log lines on `out`, a line per change of state on `err`."""

    def __init__(self, name: str, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._name = name
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._style = Style(self._err)
        self._phase = self._message = ""
        self._told = 0.0
        self._pods: dict[str, str] = {}

    def logs(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._out.flush()
            _write(self._out, b"".join(prefixed(chunk) for chunk in chunks))

    def state(self, status: Status, pods: list[PodState]) -> None:
        now = time.monotonic()
        phase, message = str(status.phase), status.state.message
        if phase != self._phase:
            self._say(
                f"{painted(phase, self._style)}{f': {message}' if message else ''}", now, phase, message
            )
        elif phase == "Pending" and message != self._message and now - self._told > 1.0:
            self._say(f"Pending: {message}", now, phase, message)
        elif phase in ("Pending", "Restarting") and now - self._told > _STILL:
            self._say(f"still {phase}: {message}", now, phase, message)
        if len(newest_pods(pods)) <= _MANY:
            self._tell_pods(pods)

    def note(self, text: str) -> None:
        self._err.write(f"vcjob: {text}\n")
        self._err.flush()

    def close(self) -> None:
        self._out.flush()

    def _say(self, text: str, now: float, phase: str, message: str) -> None:
        self._phase, self._message, self._told = phase, message, now
        self.note(f"{self._name} {text}")

    def _tell_pods(self, pods: list[PodState]) -> None:
        for pod in pods:
            state = pod_phase(pod)
            if self._pods.get(pod.uid, "Pending") != state:
                rank = "" if pod.rank is None else f"rank {pod.rank} "
                code = next(
                    (c.ended.exit_code for c in pod.containers if c.ended and c.ended.exit_code), None
                )
                self.note(f"{rank}{pod.task}-{pod.index} {state}{f' (exit code {code})' if code else ''}")
            self._pods[pod.uid] = state


class LiveScreen(Screen):
    """For a terminal: logs scroll, and below them stands a table of the ranks that is drawn anew in place."""

    def __init__(self, name: str) -> None:
        super().__init__(name, sys.stdout, sys.stdout)
        self._height = 0
        self._drawn = 0.0
        self._lines: list[str] = []

    def logs(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._clear()
            self._out.flush()
            _write(self._out, b"".join(prefixed(chunk, colours=True) for chunk in chunks))
            self._draw()

    def state(self, status: Status, pods: list[PodState]) -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return
        self._drawn = now
        width, height = shutil.get_terminal_size()
        message = f"  {status.state.message}" if status.state.message else ""
        lines = [f"{self._name}: {status.phase}{message}"]
        rows = pod_table(pods) if pods else []
        room = max(3, min(_MANY, height // 3))
        lines += rows[: room + 1]
        if len(rows) > room + 1:
            counts: dict[str, int] = {}
            for pod in newest_pods(pods):
                counts[pod_phase(pod)] = counts.get(pod_phase(pod), 0) + 1
            lines.append("… " + ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items())))
        self._lines = [self._style(line[: width - 1], "dim") for line in lines]
        self._clear()
        self._draw()

    def note(self, text: str) -> None:
        self._clear()
        self._out.write(f"vcjob: {text}\n")
        self._draw()

    def close(self) -> None:
        self._clear()
        self._out.flush()

    def _clear(self) -> None:
        if self._height:
            self._out.write(f"\033[{self._height}A\033[J")
            self._height = 0

    def _draw(self) -> None:
        self._out.write("".join(f"{line}\n" for line in self._lines))
        self._out.flush()
        self._height = len(self._lines)


def screen_for(name: str, logs_to: TextIO) -> Screen:
    if sys.stdout.isatty() and logs_to is sys.stdout and os.environ.get("TERM") not in (None, "dumb"):
        return LiveScreen(name)
    return Screen(name, logs_to)


def _write(stream: TextIO, data: bytes) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(data.decode(errors="replace"))
    else:
        buffer.write(data)
        buffer.flush()
