"""Text for messages and events: what happened to a pod, and lists and texts cut to a bounded length.

Used by the decisions of the lifecycle, by the controller for pending reasons, and by the diagnosis for the message of
the status. Pure functions: they never fail, however long or odd the names in a Job are.
"""

from __future__ import annotations

import signal as signals

from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit
from vcjob.plugins.wait import CONTAINER_NAME, WAIT_TIMEOUT_EXIT_CODE, last_error

_SHOWN = 5


def pod_label(culprit: Culprit) -> str:
    """`rank 2 (worker-1)`, or `worker-1` where the pod has no rank."""
    pod = f"{culprit.task}-{culprit.index}"
    return pod if culprit.rank is None else f"rank {culprit.rank} ({pod})"


def join_names(names: list[str], *, separator: str = ", ") -> str:
    """The names for a message that must stay short, whatever a Job contains."""
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return separator.join(names[:_SHOWN]) + rest


def shorten(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, with a mark where something was cut off."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "…"


def describe(culprit: Culprit) -> str:
    if culprit.event == "PodEvicted":
        return f"{pod_label(culprit)} was evicted{_because(culprit.failure)}"
    if culprit.event == "PodPending":
        return f"{pod_label(culprit)} is still pending"
    if culprit.event == "Unknown":
        return f"the state of {pod_label(culprit)} is unknown: its node does not answer"
    if culprit.event == "TaskFailed" and culprit.failure is None:
        return (
            f"{pod_label(culprit)} keeps restarting although no container failed: restartPolicy Always, the default, "
            "also restarts a container that exits with code 0; set restartPolicy to OnFailure or Never"
        )
    if culprit.event == "TaskFailed":
        return f"{pod_label(culprit)} keeps restarting{_because(culprit.failure)}"
    return f"{pod_label(culprit)} failed{_because(culprit.failure)}"


def _because(failure: Failure | None) -> str:
    if failure is None:
        return ""
    parts = [_container(failure)] if failure.container else []
    if failure.message and _waited_in_vain(failure):
        parts.append(last_error(failure.message))
    elif failure.message:
        parts.append(failure.message.strip())
    elif failure.reason and failure.reason not in ("Error", "OOMKilled"):
        parts.append(failure.reason)
    return f": {'; '.join(parts)}" if parts else ""


def _waited_in_vain(failure: Failure) -> bool:
    return failure.container == CONTAINER_NAME and failure.exit_code == WAIT_TIMEOUT_EXIT_CODE


def _container(failure: Failure) -> str:
    kind = "init container" if failure.init else "container"
    if _waited_in_vain(failure):
        return f"{kind} {failure.container} timed out waiting for the master"
    if failure.signal:
        ending = f"was killed by signal {failure.signal}{_signal_name(failure.signal)}"
    elif failure.exit_code is None:
        ending = "failed"
    else:
        ending = f"exited with code {failure.exit_code}"
    memory = " for using more memory than its limit" if failure.reason == "OOMKilled" else ""
    return f"{kind} {failure.container} {ending}{memory}"


def _signal_name(number: int) -> str:
    try:
        return f" ({signals.Signals(number).name})"
    except ValueError:
        return ""
