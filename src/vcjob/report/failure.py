"""Why a job failed: the rank that failed first, how, its last lines, and the ranks that ended because of it.

Both backends fill in a `FailureReport`; the SDK returns it and the CLI prints it.
"""

from __future__ import annotations

import re
import signal

import msgspec

from vcjob.report.podstate import PodState
from vcjob.wellknown import reasons

LAST_LINES = 20
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)(?:, in (.+))?$')


class Culprit(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The container that failed first."""

    pod: str
    task: str
    index: int
    rank: int | None
    attempt: int
    container: str
    exit_code: int
    reason: str
    signal: str | None = None
    message: str | None = None
    finished_at: float | None = None
    #: The last frame of a Python traceback, and the exception.
    frame: str | None = None
    exception: str | None = None
    stderr: list[str] = []

    @property
    def who(self) -> str:
        name = f"{self.task}-{self.index}"
        return name if self.rank is None else f"rank {self.rank} ({name})"

    @property
    def how(self) -> str:
        if self.reason == reasons.START_ERROR:
            return "could not be started"
        if self.reason == "OOMKilled":
            return "was killed: it used more memory than its limit"
        if self.signal:
            return f"was killed by {self.signal}"
        return f"ended with exit code {self.exit_code}"

    @property
    def suggestion(self) -> str | None:
        """How to fix it, where its last lines show that."""
        missing = _NO_MODULE.match(self.exception or "")
        if missing is None:
            return None
        module = missing[1]
        how = f" (pip install {module})" if module == "torch" else ""
        return (
            f"its Python has no {module}: install it there{how}, or use an environment or image that has it"
        )


class FailureReport(msgspec.Struct, rename="camel"):
    culprit: Culprit | None
    #: Pods that ended badly only after the first one had, or were ended because of it.
    victims: list[str]


def last_frame(lines: list[str]) -> tuple[str | None, str | None]:
    """The innermost frame of the last traceback and the exception's own line."""
    frame = exception = None
    for line in lines:
        match = _FRAME.match(line)
        if match:
            where = f"{match[1]}:{match[2]}"
            frame, exception = (f"{where} in {match[3]}" if match[3] else where), None
        elif frame and exception is None and line and not line.startswith((" ", "\t")):
            exception = line
    return frame, exception


def signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def pod_name(pod: PodState) -> str:
    """As users know it: by its rank where it has one."""
    name = f"{pod.task}-{pod.index}"
    return name if pod.rank is None else f"rank {pod.rank} ({name})"
