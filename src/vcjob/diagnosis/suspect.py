"""`Suspect`: a rank that failed, with what its output says, and which of several failed first.

The first to end is not always the first to fail: a rank that raised an error may spend seconds in exit handlers, while
its peers notice the closed connection and are gone. So an error of a rank's own counts before a complaint about a
peer, and an earlier one before a later one.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from functools import cached_property

from vcjob.diagnosis.finding import Evidence
from vcjob.diagnosis.observation import End, Observation, PodObservation
from vcjob.diagnosis.text.crash import Crash, crash_of
from vcjob.diagnosis.text.frames import LAUNCHER_ERRORS, Traceback
from vcjob.diagnosis.text.noise import is_error_record, is_minor_record, is_noise
from vcjob.diagnosis.text.prefixes import lines_by_rank
from vcjob.diagnosis.text.records import unwrapped
from vcjob.diagnosis.text.torchrun import (
    TorchrunFailure,
    before_child_error,
    before_launcher,
    torchrun_root_cause,
    without_other_workers,
)
from vcjob.diagnosis.text.tracebacks import last_lines, last_traceback, says_why
from vcjob.report.podstate import OOM_KILLED

#: What torch's communication says when another rank has gone. The words alone prove nothing: a program may use the
#: network itself, so they count only where torch raised the error or no traceback shows who did.
_PEER = re.compile(
    r"connection (?:closed|reset|refused|aborted)|broken pipe|closed by peer|socket (?:timeout|closed)"
    r"|remote (?:process|error)|ncclRemoteError|ncclSystemError|Timed out waiting|timed ?out|wait timeout|watchdog"
    r"|connectFullMesh|store->get|failed to recv|barrier timeout|communicator was aborted|Connection was likely closed"
    r"|timeout caused pair closure|failed to pass monitoredBarrier|taking the entire process down|Proxy Call to rank",
    re.IGNORECASE,
)
#: Of the rank itself, although nccl also says what it says of a peer.
_OF_ITSELF = re.compile(
    r"shared memory segment|Cuda failure|CUDA error|out of memory|ibv_(?:reg_mr|create|open|alloc)"
)
#: How nccl's watchdog says why it ends the process; other lines may follow.
_WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout|watchdog thread terminated with exception: "
)
_TORCH = re.compile(
    r"gloo|nccl|NCCL|c10d|TCPStore|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError|torch\.distributed"
)
#: What a program raises because it is being ended.
_STOPPED = (*LAUNCHER_ERRORS, "KeyboardInterrupt", "SystemExit")
#: Signals of a crash in native code, which may follow a Python exception while the interpreter ends.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
#: A rank that one of these ended has failed itself, whatever it printed about its peers.
_FATAL = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS)
_LAST_LINES = 4
#: Lines among which an error of the program's log is searched for, where notes are below it.
_LAST_RECORDS = 20
#: Exceptions of a chain that are shown below the last.
_CHAIN = 3
#: Lines of a message that are shown below its first.
_DETAILS = 3
#: Seconds within which a program ends after the exception that ends it, unless its exit handlers take longer.
_EXIT_SECONDS = 10.0
#: How the launcher of DeepSpeed says that a signal ended one of its processes.
_CHILD_ENDED = re.compile(r"\bexits with return code = -(\d{1,2})$")
#: What may differ between the messages of one error on several ranks: numbers, sizes, addresses.
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]+(?:\.[0-9]+)?")


class Suspect:
    """Reads one failed pod. Made by the rules, for the length of one diagnosis.

    The matchers ask it for the traceback, the last line or the signal. Each is computed once, and never fails,
    whatever the program printed.
    """

    def __init__(self, pod: PodObservation, end: End) -> None:
        self.pod = pod
        self.end = end

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines that explain the end, without what a log has put around tracebacks."""
        return unwrapped(self._stream)

    @cached_property
    def _stream(self) -> tuple[str, ...]:
        """The stream that explains the end. An exception ends Python with 1, and its traceback is on stderr."""
        pod = self.pod
        if not pod.stderr or not pod.stdout:
            return pod.stderr or pod.stdout
        if self.end.exit_code == 1 and says_why(pod.stderr) and not _worker_is_silent(pod.stderr):
            return pod.stderr
        return pod.output or (*pod.stdout, *pod.stderr)

    @cached_property
    def _torchrun(self) -> tuple[str, Traceback | None]:
        """Below torchrun: which of its workers failed first, and that worker's traceback."""
        root = self._root_cause
        if root is None:
            return "", None
        by_rank = lines_by_rank(self.lines, root.rank - root.local_rank)
        last = {rank: last_traceback(lines) for rank, lines in by_rank.items()}
        found = {rank: each for rank, each in last.items() if each is not None and not each.is_launcher}
        # A worker that raised before the process group existed has no prefix.
        rank = root.rank if root.rank in found else None
        if -root.exit_code in _FATAL:
            found = {}  # it did not raise anything
        elif rank not in found or _complains(found[rank]):
            # torchrun saw a victim first: another worker raised an error of its own and was slower to exit.
            rank = next((each for each, last in found.items() if not _complains(last)), rank)
        if rank is None or rank == root.rank:
            return f"local rank {root.local_rank}, global rank {root.rank}", found.get(rank)
        return f"global rank {rank}", found[rank]

    @property
    def worker(self) -> str:
        """Below torchrun, the worker in the pod that failed: "local rank 1, global rank 3"; else empty."""
        return self._torchrun[0]

    @property
    def worker_signal(self) -> int | None:
        """The signal that ended that worker, where torchrun reports one."""
        root = self._root_cause
        if root is not None and root.exit_code < 0:
            return -root.exit_code
        if self._child_ended is not None:
            return self._child_ended
        return self._last_traceback.child_signal if self._last_traceback is not None else None

    @cached_property
    def _child_ended(self) -> int | None:
        """The signal that ended a process below DeepSpeed's launcher."""
        ended = next(filter(None, map(_CHILD_ENDED.search, self.lines[-_LAST_RECORDS:])), None)
        return int(ended[1]) if ended else None

    @cached_property
    def _root_cause(self) -> TorchrunFailure | None:
        return torchrun_root_cause(self.lines)

    @cached_property
    def _worker_lines(self) -> Sequence[str]:
        """Below torchrun without the lines of workers that failed later, as far as prefixes tell them apart."""
        root = self._root_cause
        return self.lines if root is None else without_other_workers(self.lines, root)

    @cached_property
    def _last_traceback(self) -> Traceback | None:
        return self._torchrun[1] or (None if self._worker_was_killed else last_traceback(self._worker_lines))

    @property
    def _worker_was_killed(self) -> bool:
        """Whether its launcher says that a signal ended the worker, so that no exception did."""
        return (self._child_ended if self._root_cause is None else -self._root_cause.exit_code) in _FATAL

    @cached_property
    def traceback(self) -> Traceback | None:
        """The one that ended the program; None where it was ended by something else."""
        found = self._last_traceback
        if found is None or not self._was_ended_by(found):
            return None
        return None if found.is_launcher and self._child_is_known(found) else found

    def _child_is_known(self, launcher: Traceback) -> bool:
        """Whether more is known about the process below a launcher than that it failed."""
        if self.worker or launcher.child_signal is not None:
            return True
        return launcher.type != "SignalException" and not all(map(is_noise, self._child_said))

    def _was_ended_by(self, found: Traceback) -> bool:
        root = self._root_cause
        if found.uncaught or (root is not None and root.exit_code == 1):
            return True  # below torchrun the other workers go on for a while
        late = self._seconds_after > _EXIT_SECONDS
        number = self.signal
        if number is not None and not found.is_launcher:
            if number == signal.SIGINT and found.type == "KeyboardInterrupt":
                return True
            return number in _CRASHES and not found.went_on and not late
        if self.end.exit_code == 1 and not self.pod.stderr:
            # One log with both streams: Python writes what is left of stdout below the traceback.
            return not found.went_on or not late
        return not found.went_on and not (late and self._stdout_went_on)

    @cached_property
    def _stdout_went_on(self) -> bool:
        """Whether the program printed progress on stdout below the traceback on stderr."""
        found = last_traceback(self.pod.output)
        return found is not None and found.went_on

    @property
    def _seconds_after(self) -> float:
        """Between the traceback and the end of the program, as far as both are known."""
        if self.end.finished_at is None or self.pod.error_at is None:
            return 0.0
        return self.end.finished_at - self.pod.error_at

    @property
    def exit_code(self) -> int:
        """Of the program, or of the worker below torchrun."""
        root = self._root_cause
        return root.exit_code if root is not None and root.exit_code > 0 else self.end.exit_code

    @property
    def signal(self) -> int | None:
        """The signal that ended the program, or the worker below its launcher; shells add 128 to it. Not vcjob's own."""
        if self.end.stopped:
            return None
        code = self.end.exit_code - 128
        return self.end.signal or self.worker_signal or (code if 0 < code < 32 else None)

    @cached_property
    def crash(self) -> Crash:
        """What native code and Python printed while they crashed; empty where no signal of a crash ended the program."""
        return crash_of(self._worker_lines) if self.signal in _CRASHES else Crash()

    @cached_property
    def _child_said(self) -> tuple[str, ...]:
        """The last lines of the processes below a launcher."""
        return last_lines(before_launcher(self._worker_lines), _LAST_LINES)

    @cached_property
    def said(self) -> tuple[str, ...]:
        """Its last lines that may be a reason."""
        return (self._child_said if self._has_launcher else ()) or last_lines(self.lines, _LAST_LINES)

    @property
    def _has_launcher(self) -> bool:
        found = self._last_traceback
        if self._root_cause is not None:
            return True
        return found is not None and (found.is_launcher or found.child_signal is not None)

    @cached_property
    def last_line(self) -> str:
        """What it said last; where that is a mere note of its log, the last error of the log above it."""
        last = "".join(self.said[-1:])
        if self._has_launcher or not is_minor_record(last):
            return last
        above = last_lines(self.lines, _LAST_RECORDS)
        return next((line for line in reversed(above) if is_error_record(line)), last)

    @property
    def reason(self) -> str:
        """What it said, in one line."""
        return self.traceback.exception if self.traceback else self.crash.what or self.last_line

    @property
    def reasons(self) -> tuple[str, ...]:
        """The same, and the exceptions from which that one was raised."""
        return tuple(each.exception for each in self.traceback.causes) if self.traceback else (self.reason,)

    @cached_property
    def error(self) -> tuple[int | None, str]:
        """Equal for ranks with the same error: the same exception apart from numbers, or the same end and last line."""
        if self.traceback is not None:
            return None, _NUMBER.sub("0", self.traceback.exception)
        return self.end.exit_code, self.last_line

    @cached_property
    def is_complaint(self) -> bool:
        """Whether its error is only that a peer has gone."""
        found = self.traceback
        if self.signal in _FATAL:
            return False
        if found is None:
            if self.end.reason == OOM_KILLED:
                return False
            said = [line for line in self._worker_lines if _WATCHDOG.search(line)]
            said += [self.reason] if self._torch_said_last else []
            return any(
                _PEER.search(line) and _TORCH.search(line) and not _OF_ITSELF.search(line) for line in said
            )
        return _complains(found)

    @property
    def _torch_said_last(self) -> bool:
        """Warnings of torch do not count: it prints them while it connects, and connects all the same."""
        return not is_noise(self.reason) and _TORCH.search(self.reason) is not None

    @property
    def is_about_communication(self) -> bool:
        """Whether torch's communication raised its error, about a peer or about the call itself."""
        found = self.traceback
        if found is None:
            return self.signal not in _FATAL and self._torch_said_last
        return self.is_complaint or found.in_distributed or _TORCH.search(found.text) is not None

    @property
    def may_have_crashed_in_communication(self) -> bool:
        """Whether native code crashed, and neither its message nor a frame says that it was other code than torch's
        communication."""
        if self.signal not in _CRASHES or self.traceback is not None or self.crash.what:
            return False
        frames = self.crash.frames
        return not frames or Traceback(tuple(reversed(frames)), "").in_distributed

    @property
    def moment(self) -> float:
        """When it failed: when its traceback was written, else when it ended."""
        ended = self.end.finished_at if self.end.finished_at is not None else float("inf")
        if self.traceback is not None and self.pod.error_at is not None:
            return min(ended, self.pod.error_at)
        return ended

    def evidence(self) -> tuple[Evidence, ...]:
        """The lines that show the cause: the traceback's end, or the last lines."""
        source = f"{self.pod.name}, {'stderr' if self._stream == self.pod.stderr else 'output'}"
        if self.traceback is not None:
            own, inner = self.traceback.own_frame, self.traceback.frames[-1:]
            places = [own] if own else []
            places += [frame for frame in inner if frame != own]
            more = [line.strip() for line in self.traceback.more if not is_minor_record(line)]
            details = more[:_DETAILS]
            return (
                Evidence(source, self.traceback.exception),
                *(Evidence(source, line) for line in details if line not in self.traceback.exception),
                *(Evidence(source, f"at {place}") for place in places),
                *(Evidence(source, line) for line in self._led_to_it(self.traceback)),
            )
        if self.crash.reason:
            own, inner = self.crash.own_frame, self.crash.frames[:1]
            places = [own] if own else []
            places += [frame for frame in inner if frame != own]
            return (
                Evidence(source, f"Fatal Python error: {self.crash.reason}"),
                *(Evidence(source, f"at {place}") for place in places),
            )
        lines = self.said[-_LAST_LINES:]
        if self.last_line not in lines:
            lines = (self.last_line, *lines)
        said = tuple(Evidence(source, line) for line in lines if line)
        return said or ((Evidence("container status", self.end.message),) if self.end.message else ())

    def _led_to_it(self, found: Traceback) -> Iterator[str]:
        """The exceptions from which this one follows, the nearest first; that of a thread; what the program below it
        printed."""
        for each in found.chain[1 : _CHAIN + 1]:
            yield each.exception
            if each.own_frame:
                yield f"at {each.own_frame}"
        if found.aside is not None:
            yield f"before, in another thread or process: {found.aside.exception}"
            yield from (f"at {place}" for place in (found.aside.own_frame,) if place)
        if found.is_of_child:
            yield from last_lines(before_child_error(self.lines), 1)
        if "device-side assert" in found.text:
            yield from [line for line in self.lines if "Assertion `" in line][:1]

    @property
    def failed_itself(self) -> bool:
        """It ended badly on its own, or it had raised an error of its own before it was ended and was slow to exit."""
        if not self.end.stopped:
            return True
        if self.traceback is None or self.traceback.type in _STOPPED or self.is_complaint:
            return False
        stopped_at, error_at = self.end.stopped_at, self.pod.error_at
        return stopped_at is None or error_at is None or error_at <= stopped_at


def _worker_is_silent(lines: Sequence[str]) -> bool:
    """Whether the worker that torchrun saw fail first has exited, and these lines do not say why."""
    root = torchrun_root_cause(lines)
    if root is None or root.exit_code <= 0:
        return False
    return not says_why(before_launcher(without_other_workers(lines, root)))


def _complains(found: Traceback) -> bool:
    """Whether it, or an exception that led to it, is a complaint about a peer."""
    return any(map(is_of_peer, found.chain))


def is_of_peer(found: Traceback) -> bool:
    """Whether it is a complaint itself, or was raised from one."""
    if not _PEER.search(found.text) or _OF_ITSELF.search(found.text):
        return False
    # A program may use the network itself; torch names itself in its message, or has a frame below the user's.
    if found.in_distributed or _TORCH.search(found.text) is not None:
        return True
    return found.type == "RuntimeError" and "closed by peer" in found.exception  # gloo's words


def suspects(observation: Observation) -> list[Suspect]:
    """Failed pods, the one that failed first at the front."""
    ended = [
        Suspect(pod, pod.end) for pod in observation.pods if pod.end is not None and pod.end.exit_code != 0
    ]

    def order(each: Suspect) -> tuple[bool, float, bool, float]:
        elsewhere = (each.pod.task, each.pod.index) != observation.recorded
        return each.is_complaint, round(each.moment, 2), elsewhere, each.moment

    return sorted((each for each in ended if each.failed_itself), key=order)
