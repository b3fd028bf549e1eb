"""Why a job failed: the rank that failed first, how, its last lines, and the ranks that ended because of it.

Both backends fill in a `FailureReport`; the SDK returns it and the CLI prints it.
"""

from __future__ import annotations

import signal

import msgspec

from vcjob.report.podstate import OOM_KILLED, PodState
from vcjob.wellknown import causes, reasons

LAST_LINES = 20


class Culprit(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The container that failed first.

    Part of a `FailureReport`. Plain strings and numbers, as `vcjob status -o json` prints them.
    """

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
    #: It had failed, and was ended from outside because it was slow to exit.
    stopped: bool = False
    #: The last frame of a Python traceback in the user's own code, and the exception.
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
        if self.reason == OOM_KILLED:
            return "was killed: it used more memory than its limit"
        if self.reason == causes.HOST_OUT_OF_MEMORY:
            return f"was killed by the kernel: {self.message}"
        if self.stopped:
            return "failed, and was stopped before it had exited"
        if self.signal:
            return f"was killed by {self.signal}"
        return f"ended with exit code {self.exit_code}"


class FailureReport(msgspec.Struct, rename="camel"):
    """The first finding of the diagnosis in plain strings, with the container that it names.

    `Handle.failure` and `JobFailed` carry it; the summary at the end of `vcjob run` prints it.
    """

    culprit: Culprit | None
    #: Pods that ended badly only after the first one had, or were ended because of it.
    victims: list[str]
    #: As in the finding: a word from `vcjob.wellknown.causes`, one sentence, and what helps.
    cause: str = ""
    message: str = ""
    hint: str = ""


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
