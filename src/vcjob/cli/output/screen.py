"""What a user sees while a job runs: the logs of all ranks and the job's state.

On a terminal the state is a table below the log lines that is redrawn in place (`LiveScreen`); elsewhere it is one
line per change on standard error (`Screen`). `follow` calls them; they know nothing of handles and backends.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, ClassVar, TextIO

from vcjob.cli.output.log_text import log_text
from vcjob.cli.output.style import Style
from vcjob.cli.output.tables import exit_text, newest_pods, painted, pod_phase, pod_table

if TYPE_CHECKING:
    from vcjob.lifecycle.status import Status
    from vcjob.report.podstate import PodState
    from vcjob.sdk.handle import Chunk

_MANY = 16  # more pods than this are counted, not listed
_STILL = 15.0  # seconds after which a waiting job says again what it waits for
_REDRAW = 0.1


class Screen:
    """For files and pipes: log lines on `out`, a line per change of state on `err`.

    `job_prefix`: log lines name the job too, because several are followed at once.
    """

    #: Whether `progress` is shown.
    shows_progress: ClassVar[bool] = False

    def __init__(
        self, name: str, out: TextIO | None = None, err: TextIO | None = None, *, job_prefix: bool = False
    ) -> None:
        self._name = name
        #: How far the job is, in one line; set by the caller.
        self.progress = ""
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._style = Style(self._err)
        self._log_style = Style(self._out)
        self._job = name if job_prefix else ""
        self._phase = self._message = ""
        self._shown_at = 0.0
        self._pods: dict[str, str] = {}

    def logs(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._out.flush()
            _write(self._out, b"".join(log_text(chunk, self._log_style, job=self._job) for chunk in chunks))

    def state(self, status: Status, pods: list[PodState]) -> None:
        now = time.monotonic()
        phase, message = str(status.phase), self.clean(status.state.message)
        if phase != self._phase:
            self._show_phase(
                f"{painted(phase, self._style)}{f': {message}' if message else ''}", now, phase, message
            )
        elif phase == "Pending" and message != self._message and now - self._shown_at > 1.0:
            self._show_phase(f"Pending: {message}", now, phase, message)
        elif phase in ("Pending", "Restarting") and now - self._shown_at > _STILL:
            self._show_phase(f"still {phase}: {message}", now, phase, message)
        if len(newest_pods(pods)) <= _MANY:
            self._show_pods(pods)

    def note(self, text: str) -> None:
        """One line of our own; parts that others wrote are cleaned by the caller."""
        self._err.write(f"vcjob: {text}\n")
        self._err.flush()

    def clean(self, text: str) -> str:
        return self._style.clean(text)

    def close(self) -> None:
        self._out.flush()

    def _show_phase(self, text: str, now: float, phase: str, message: str) -> None:
        self._phase, self._message, self._shown_at = phase, message, now
        self.note(f"{self._name} {text}")

    def _show_pods(self, pods: list[PodState]) -> None:
        for pod in pods:
            state = pod_phase(pod)
            if self._pods.get(pod.uid, "Pending") != state:
                rank = "" if pod.rank is None else f"rank {pod.rank} "
                code = exit_text(pod) if state == "Failed" else "-"
                suffix = f" (exit code {code})" if code not in ("-", "0") else ""
                self.note(f"{rank}{pod.task}-{pod.index} {state}{suffix}")
            self._pods[pod.uid] = state


class LiveScreen(Screen):
    """For a terminal: log lines scroll, and below them is a table of the ranks that is redrawn in place."""

    shows_progress = True

    def __init__(self, name: str) -> None:
        super().__init__(name, sys.stdout, sys.stdout)
        self._height = 0
        self._drawn = 0.0
        self._lines: list[str] = []

    def logs(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._clear()
            super().logs(chunks)
            self._draw()

    def state(self, status: Status, pods: list[PodState]) -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return
        self._drawn = now
        width, height = shutil.get_terminal_size()
        message = f"  {self.clean(status.state.message)}" if status.state.message else ""
        lines = [f"{self._name}: {status.phase}{message}"]
        lines += [f"  {self.progress}"] if self.progress else []
        rows = [self.clean(row) for row in pod_table(pods)] if pods else []
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


def screen_for(name: str, logs_to: TextIO, *, among_others: bool = False) -> Screen:
    """The screen of one job; one that is followed together with others has no table."""
    live = sys.stdout.isatty() and logs_to is sys.stdout and os.environ.get("TERM") not in (None, "dumb")
    return LiveScreen(name) if live and not among_others else Screen(name, logs_to, job_prefix=among_others)


def _write(stream: TextIO, data: bytes) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(data.decode(errors="replace"))
    else:
        buffer.write(data)
        buffer.flush()
