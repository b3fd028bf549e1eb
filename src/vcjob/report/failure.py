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

    #: The name of the pod.
    pod: str
    #: The task that it belongs to.
    task: str
    #: Its index in the task.
    index: int
    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None
    #: Which attempt of this index it is, from 0.
    attempt: int
    #: The name of the container.
    container: str
    #: Its exit code; 128 + N after signal N.
    exit_code: int
    #: Why it ended, in one word: Completed, Error, OOMKilled, ...
    reason: str
    #: The name of the signal that ended it, for example SIGKILL.
    signal: str | None = None
    #: More about the reason.
    message: str | None = None
    #: When it ended.
    finished_at: float | None = None
    #: It had failed, and was ended from outside because it was slow to exit.
    stopped: bool = False
    #: The last frame of a Python traceback in the user's own code.
    frame: str | None = None
    #: The exception of that traceback.
    exception: str | None = None
    #: Its last lines on standard error.
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

    #: The container that failed first; null where that is not known.
    culprit: Culprit | None
    #: Pods that ended badly only after the first one had, or were ended because of it.
    victims: list[str]
    #: The cause of the first finding: a word from the list of causes.
    cause: str = ""
    #: The first finding as one sentence.
    message: str = ""
    #: What helps.
    hint: str = ""


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def pod_name(pod: PodState) -> str:
    """As users know it: by its rank where it has one."""
    name = f"{pod.task}-{pod.index}"
    return name if pod.rank is None else f"rank {pod.rank} ({name})"
