"""Matchers for how a process ended: signals, memory limits, probes, commands that cannot be executed.

`failure` asks them about a failed rank; `non_zero` always answers, so it comes last. The local pod uses
`shows_a_killed_child` to recognise that the kernel killed one of its processes. Pure functions.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from pathlib import PurePosixPath

from vcjob.diagnosis.rules.refusals import REQUIRED_FILE, Refusal, refusal
from vcjob.diagnosis.rules.remedies import HINTS
from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.suspect import Suspect
from vcjob.report.failure import signal_name
from vcjob.report.podstate import OOM_KILLED
from vcjob.wellknown import causes, reasons

_KILLED = signal.SIGKILL
#: Signals that the kernel sends because of what the program did.
_OWN_DOING: dict[int, str] = {
    signal.SIGPIPE: "it wrote to a pipe or a connection whose other end was closed: see why the reader ended",
    signal.SIGXCPU: "it used all the CPU time that it may use: raise the limit (`ulimit -t`)",
    signal.SIGXFSZ: "a file that it wrote grew too large: raise the limit (`ulimit -f`)",
    signal.SIGALRM: "a timer that it had set ended it: look for signal.alarm or setitimer",
    signal.SIGSYS: "it made a system call that is forbidden: see seccompProfile in the pod's securityContext",
}
_MAIN = ("", "main", "?")
#: The kubelet's message about a pod that it ended.
_POD_DEADLINE = "active on the node longer than the specified deadline"
#: Names have at most 253 characters. The limit keeps the cost of a long hostile line linear.
_NO_CONFIG = re.compile(r"(?:ConfigMap|Secret)\b.{0,300}?(?:does not exist|not found)")
#: Errors about a path that is not the command's.
_NOT_ITS_COMMAND = re.compile(r"volume|mount|subPath|hostPath|log file", re.IGNORECASE)
#: What shells exit with where a command cannot be executed, or does not exist.
_NOT_EXECUTED = (126, 127)
#: What the dynamic loader says before it ends with 127: the program exists.
_LOADER = re.compile(r"error while loading shared libraries: |symbol lookup error: ")
_START_ERRORS = (reasons.START_ERROR, "ContainerCannotRun")
#: Programs that start others: the file that cannot be executed is rarely one of them.
_STARTERS = frozenset({"sh", "bash", "dash", "ash", "zsh", "env", "nohup", "timeout", "tini", "dumb-init"})
_NO_INTERPRETER = re.compile(r"interpreter", re.IGNORECASE)
_NOT_PERMITTED = re.compile(r"permission denied", re.IGNORECASE)
_NO_FILE = re.compile(r"no such file|not found", re.IGNORECASE)
_NO_MEMORY = re.compile(r"\b(?:_Array)?MemoryError\b|std::bad_alloc|Cannot allocate memory")
#: What programs print about a child that SIGKILL ended: DataLoader, subprocess, multiprocessing, torchrun, shells.
_CHILD_KILLED = re.compile(
    r"\bKilled\b|\bkilled by signal|\bSIGKILL\b|exit ?code\s{0,9}[:=]?\s{0,9}-9\b|exit (?:status|code) 137\b"
    r"|exited unexpectedly|abruptly|unexpectedly terminated"
)
#: The files of torch in /dev/shm, for which `exceptions` has a cause.
_SHARED = "</torch_"
#: What torchrun says when it was sent a signal.
_GOT_SIGNAL = re.compile(r"got signal: (\d{1,3})")
#: Characters of each message that are searched.
_LONGEST = 2000
_SEE_LINE = "set PYTHONFAULTHANDLER=1 to see the Python line"
#: What Python says about a signal, and nothing else.
_ONLY_THE_SIGNAL = frozenset(
    {"", "Aborted", "Floating point exception", "Floating-point exception", "Illegal instruction"}
)
_PROBE = re.compile(r"(?:liveness|startup) probe", re.IGNORECASE)


def start_error(suspect: Suspect) -> Verdict | None:
    """The container could not be started: its volumes or settings, or a command that cannot be executed."""
    could_not_start = suspect.end.reason in _START_ERRORS
    refused = refusal(suspect.said or suspect.end.message.splitlines()[-1:])
    if refused is not None and (refused.by_runtime or suspect.end.exit_code in _NOT_EXECUTED):
        return _refused(refused)
    if not could_not_start and suspect.end.exit_code not in _NOT_EXECUTED:
        return None
    if not could_not_start and _LOADER.search(suspect.last_line[:_LONGEST]):
        return _not_loaded(suspect.last_line)
    said = (suspect.end.message, suspect.pod.message, suspect.last_line)
    text = " ".join(each[:_LONGEST] for each in said)
    if _NO_CONFIG.search(text):
        return Verdict(
            reasons.CONTAINER_CONFIG,
            f"could not start: {suspect.end.message}",
            "create the ConfigMap or Secret in the namespace, or, locally, in the Job's file",
        )
    other = Verdict(
        causes.START_ERROR,
        f"could not start: {suspect.end.message or suspect.pod.message or 'no reason is given'}",
        "check the volumes, the paths and the workingDir of the container",
    )
    if could_not_start and _NOT_ITS_COMMAND.search(suspect.end.message[:_LONGEST]):
        return other
    command, unnamed = suspect.pod.command[0] if suspect.pod.command else "", "its command"
    if not could_not_start and PurePosixPath(command).name in _STARTERS:
        command, unnamed = "", "a command that it runs"
    if " " in command.strip():
        words = ", ".join(f'"{word}"' for word in command.split())
        return Verdict(
            causes.COMMAND_IS_ONE_WORD,
            f"could not start: there is no program named {command!r}",
            f"write the command as a list of words: [{words}]",
        )
    if _NO_INTERPRETER.search(text):
        return Verdict(
            causes.COMMAND_NOT_FOUND,
            "could not start: the first line of its script names an interpreter that does not exist",
            "correct the #! line, or install that interpreter in the image",
        )
    if suspect.end.exit_code == 126 or _NOT_PERMITTED.search(text):
        return Verdict(
            causes.COMMAND_NOT_EXECUTABLE,
            f"could not start: {command or unnamed} is not executable",
            f"run `chmod +x {command}`" if command else "make it executable with chmod +x",
        )
    if suspect.end.exit_code == 127 or _NO_FILE.search(text):
        return Verdict(
            causes.COMMAND_NOT_FOUND,
            f"could not start: {command or unnamed} does not exist",
            "torchrun is part of PyTorch: use an image that contains it, or, locally, an environment with torch"
            if PurePosixPath(command).name == "torchrun"
            else "check the command and the image (or, locally, PATH)",
        )
    return other if could_not_start else None


def _not_loaded(said: str) -> Verdict:
    """A library of the program is missing, or does not fit."""
    hint = next((hint for pattern, hint in HINTS if pattern.search(said[:_LONGEST])), "")
    return Verdict(causes.START_ERROR, f"could not start: {said}", hint)


def _refused(refused: Refusal) -> Verdict:
    """What a shell, `env` or the runtime says about the file that it could not execute."""
    file, why = refused.file or "its command", refused.why
    if refused.has_return and not refused.by_runtime:
        return Verdict(
            causes.COMMAND_NOT_FOUND,
            "could not start: its script has Windows line ends (CRLF), which are read as part of a name",
            "convert the script: `sed -i 's/\\r$//' FILE`",
        )
    if "bad interpreter" in why or REQUIRED_FILE in why:
        return Verdict(
            causes.COMMAND_NOT_FOUND,
            f"could not start: the first line of {file} names an interpreter that does not exist",
            "correct the #! line, which may have a Windows line end (CRLF), or install that interpreter in the image",
        )
    if "format" in why or "binary file" in why:
        return Verdict(
            causes.COMMAND_NOT_EXECUTABLE,
            f"could not start: this machine cannot execute {file}",
            "use an image and a program for the architecture of the node (`uname -m`); a script needs a first line "
            "such as #!/bin/sh",
        )
    if "directory" in why and "no such" not in why:
        return Verdict(
            causes.COMMAND_NOT_EXECUTABLE,
            f"could not start: {file} is a directory",
            "write the path of a program",
        )
    if "permission" in why and refused.file and "/" not in refused.file:
        return Verdict(
            causes.COMMAND_NOT_FOUND,
            f"could not start: {file} does not exist in the folders of PATH, or is not executable there",
            "check the name; `Permission denied` is also said where a folder of PATH cannot be read",
        )
    if "permission" in why:
        return Verdict(
            causes.COMMAND_NOT_EXECUTABLE,
            f"could not start: {file} is not executable",
            f"run `chmod +x {file}`",
        )
    return Verdict(
        causes.COMMAND_NOT_FOUND,
        f"could not start: {file} does not exist",
        "check the command, the image (or, locally, PATH) and the first line (#!) of the script",
    )


def memory(suspect: Suspect) -> Verdict | None:
    """The kernel killed it for lack of memory, or an allocation failed."""
    end, limit = suspect.end, f" of {suspect.pod.memory_limit}" if suspect.pod.memory_limit else ""
    killed = _KILLED in (end.signal, end.exit_code - 128)
    if end.reason == OOM_KILLED and (killed or _lost_a_child(suspect)):
        return Verdict(
            causes.OUT_OF_MEMORY,
            f"was killed: it used more memory than its limit{limit}"
            if killed
            else f"lost a process that was killed: together they used more memory than the limit{limit}",
            "raise resources.limits.memory, or use a smaller batch or fewer DataLoader workers",
        )
    if end.reason == causes.HOST_OUT_OF_MEMORY:
        return Verdict(
            causes.HOST_OUT_OF_MEMORY,
            f"{'was killed by the kernel' if killed else 'lost a process that the kernel killed'}: {end.message}",
            "use a smaller batch or fewer DataLoader workers, or give this machine, or the container in which vcjob "
            "runs, more memory",
            "high" if killed else "medium",
        )
    said = next(filter(_NO_MEMORY.search, suspect.reasons), None)
    if said is not None and _SHARED not in said:
        return Verdict(
            causes.HOST_OUT_OF_MEMORY,
            f"could not allocate memory: {said}",
            "use a smaller batch, or a machine with more memory",
        )
    return None


def shows_a_killed_child(lines: Iterable[str]) -> bool:
    """Whether a program says that a process of its own was killed."""
    return any(_CHILD_KILLED.search(line[:_LONGEST]) for line in lines)


def _lost_a_child(suspect: Suspect) -> bool:
    """The kernel killed one of its processes, perhaps long before: its own error must not say something else."""
    return suspect.traceback is None or shows_a_killed_child(suspect.lines)


def pod_deadline(suspect: Suspect) -> Verdict | None:
    """The kubelet ended the pod because of its own activeDeadlineSeconds."""
    said = suspect.pod.message or suspect.end.message
    if suspect.pod.reason != reasons.DEADLINE_EXCEEDED and _POD_DEADLINE not in said:
        return None
    return Verdict(
        causes.DEADLINE_EXCEEDED,
        f"was ended by its pod's activeDeadlineSeconds{f': {said}' if said else ''}",
        "raise activeDeadlineSeconds in the pod template",
    )


def probe(suspect: Suspect) -> Verdict | None:
    """The container was ended because its probe failed."""
    text = suspect.end.message or suspect.pod.message
    if not _PROBE.search(text):
        return None
    return Verdict(
        causes.PROBE_FAILED,
        f"was ended: {text}",
        "correct the probe, or raise its failureThreshold or initialDelaySeconds",
    )


def crash(suspect: Suspect) -> Verdict | None:
    """Signals. vcjob's own never reach this rule, because they are no failure of the rank."""
    number = (
        suspect.end.signal
        or suspect.worker_signal
        or (suspect.end.exit_code - 128 if 128 < suspect.end.exit_code < 160 else None)
    )
    if number is None:
        return None
    name, at = signal_name(number), suspect.crash.own_frame
    where = f" at {at}" if at else ""
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return Verdict(
            causes.SEGMENTATION_FAULT,
            f"crashed in native code ({name}){where}",
            f"{'' if at else f'{_SEE_LINE}, and '}check versions of torch and CUDA",
        )
    if number in (signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
        reason = suspect.crash.reason
        said = suspect.crash.what or ("" if reason in _ONLY_THE_SIGNAL else reason)
        return Verdict(
            causes.ABORTED,
            f"was aborted by native code ({name}){where}{f': {said}' if said else ''}",
            next((hint for pattern, hint in HINTS if pattern.search(said)), "" if at else _SEE_LINE),
        )
    if number == signal.SIGKILL:
        return Verdict(
            causes.KILLED,
            "was killed by SIGKILL, which vcjob did not send",
            "the kernel's out-of-memory killer is the usual sender: see the kernel log (`dmesg | grep -i oom`)",
            "medium",
        )
    if number in _OWN_DOING:
        return Verdict(causes.KILLED, f"was ended by {name}", _OWN_DOING[number])
    return _ended_by(name)


def interrupted(suspect: Suspect) -> Verdict | None:
    """Python, or torchrun, turned a signal into an exception."""
    found = suspect.traceback
    if found is None or found.type not in ("KeyboardInterrupt", "SignalException"):
        return None
    sent = _GOT_SIGNAL.search(found.exception)
    name = (
        signal_name(int(sent[1])) if sent else "SIGINT" if found.type == "KeyboardInterrupt" else "a signal"
    )
    return _ended_by(name)


def non_zero(suspect: Suspect) -> Verdict | None:
    """The last resort: its exit code and its last line."""
    said = f": {suspect.last_line}" if suspect.last_line else " and printed nothing"
    where = "" if suspect.pod.container in _MAIN else f" in container {suspect.pod.container}"
    hint = next((hint for pattern, hint in HINTS if pattern.search(suspect.last_line[:_LONGEST])), "")
    return Verdict(
        causes.NON_ZERO_EXIT, f"ended with exit code {suspect.exit_code}{where}{said}", hint, "medium"
    )


def _ended_by(name: str) -> Verdict:
    message = f"was ended by {name}, which vcjob did not send"
    return Verdict(causes.KILLED, message, "find out who sent the signal", "medium")
