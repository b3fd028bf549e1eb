"""Why a job failed: the rank that failed first, its cause, and the ranks that ended because of it.

`diagnose` calls its rules with an `Observation` of either backend. The first of `MATCHERS` that answers names the
cause. Pure functions that read no log file and send no request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vcjob.diagnosis.finding import Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.diagnosis.rules import exceptions, exits, lost_peers, meeting, watchdog
from vcjob.diagnosis.rules.collectives import mismatch
from vcjob.diagnosis.rules.verdict import Matcher, Verdict
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.suspect import Suspect, suspects
from vcjob.wellknown import causes, reasons

#: The first that answers decides.
MATCHERS: Sequence[Matcher] = (
    exits.start_error,
    exits.memory,
    meeting.wait_for_master,
    exits.pod_deadline,
    exits.probe,
    meeting.clients_missing,
    meeting.master_not_reached,
    meeting.init_timed_out,
    exceptions.missing_module,
    exceptions.missing_script,
    exceptions.known,
    exceptions.unknown_host,
    exits.interrupted,
    exceptions.any_exception,
    watchdog.collective_timeout,
    watchdog.heartbeat,
    exits.crash,
    exits.non_zero,
)
#: Reasons of the kubelet, and of the condition DisruptionTarget.
_EVICTED = frozenset(
    {"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "DeletionByTaintManager",
     "EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByPodGC", "TerminationByKubelet"}
)  # fmt: skip
_NOT_EVICTING = frozenset({"Running", "Completing", "Completed"})

_SIZES = "gloo also crashes where ranks call a collective with different sizes"
#: On a busy machine peers may complain before the end of a process is recorded.
NOTICED_SECONDS = 2.0


def failed_ranks(observation: Observation) -> Iterator[Finding]:
    """One finding for the first failure; ranks with the same error share it."""
    found = suspects(observation)
    if not found or observation.phase == "Completed":  # minSuccess was reached all the same
        return
    first = found[0]
    if observation.hang_findings and first.is_about_communication:
        return  # they waited for each other until torch gave up: `hang.recorded` says who did not come
    different = _different_collectives(observation, first)
    if different is not None:
        yield different
        return
    verdict, recorded = _verdict(first), observation.recorded_finding
    left = _left_early(observation, first) if first.is_complaint else None
    if left is not None and (recorded is None or recorded[0] == left.cause):
        yield left
        return
    lost = lost_peers.without_own_error(observation, found, _verdict) if first.is_complaint else None
    if lost is not None and (recorded is None or recorded[0] == lost.cause):
        yield lost
        return
    if recorded and (first.is_complaint or (not first.lines and verdict.cause == causes.NON_ZERO_EXIT)):
        yield _recorded(observation, *recorded)
        return
    same = [each for each in found if each.error == first.error and not each.is_complaint] or [first]
    names = tuple(dict.fromkeys(each.pod.name for each in same))
    named = frozenset(names)
    victims = tuple(pod.name for pod in observation.pods if pod.name not in named and _is_victim(pod))
    worker = f" ({first.worker})" if first.worker else ""
    message = f"{names[0]}{worker} {verdict.what}"
    if len(names) > 1:
        message += f"; {joined(names[1:])} failed with the same error"
    hint = "; ".join(filter(None, (verdict.hint, _SIZES if _may_differ_in_sizes(found) else "")))
    yield Finding(verdict.cause, message, Ranks(names, victims), first.evidence(), hint, verdict.confidence)


def _different_collectives(observation: Observation, first: Suspect) -> Finding | None:
    """What ranks called at one place, where that is why the first of them failed. gloo complains about it, or it crashes."""
    if first.is_about_communication:
        return mismatch.first_mismatch(observation)
    if first.may_have_crashed_in_communication:
        return mismatch.first_mismatch(observation, last=True)
    return None


def _may_differ_in_sizes(found: Sequence[Suspect]) -> bool:
    """Whether the first rank crashed where gloo may have, and another one lost its connection. No rank has reported more."""
    return found[0].may_have_crashed_in_communication and any(
        each.is_complaint and "gloo" in each.reason for each in found[1:]
    )


def evictions(observation: Observation) -> Iterator[Finding]:
    """Pods that the cluster removed."""
    gone = [pod for pod in observation.pods if pod.reason in _EVICTED]
    if gone and observation.phase not in _NOT_EVICTING:
        pod = gone[0]
        yield Finding(
            causes.EVICTED,
            f"{pod.name} was removed{f' from node {pod.node}' if pod.node else ''} ({pod.reason})"
            f"{f': {pod.message}' if pod.message else ''}",
            Ranks(tuple(each.name for each in gone)),
            (Evidence("pod status", pod.message or pod.reason),),
            "raise the sizeLimit of the emptyDir"
            if "EmptyDir" in pod.message
            else "a policy {event: PodEvicted, action: RestartJob} starts the job again",
            "high",
        )


def lost_nodes(observation: Observation) -> Iterator[Finding]:
    """Pods that the control plane can only wait for: their node does not respond."""
    lost = [pod for pod in observation.pods if pod.node_lost and pod.end is None]
    if lost and observation.phase in ("Pending", "Running", "Restarting", "Terminating", "Aborting"):
        names = [pod.name for pod in lost]
        nodes = sorted({pod.node for pod in lost})
        subject = "node" if len(nodes) == 1 else "nodes"
        verb = "does" if len(nodes) == 1 else "do"
        yield Finding(
            causes.NODE_LOST,
            f"the {subject} {joined(nodes)} of {joined(names)} {verb} not respond",
            Ranks(tuple(names)),
            tuple(
                Evidence(f"event {event.reason} on {event.object}", event.message)
                for event in observation.events
                if event.reason == "NodeNotReady"
            )[-3:],
            "see `kubectl describe node`; where the node does not come back, delete the Node object, and the pods "
            "are replaced",
            "high",
        )


def deadline(observation: Observation) -> Iterator[Finding]:
    if observation.phase == "Failed" and observation.reason == reasons.DEADLINE_EXCEEDED:
        yield Finding(
            causes.DEADLINE_EXCEEDED,
            observation.message or "the job ran longer than its activeDeadlineSeconds",
            hint="raise spec.activeDeadlineSeconds",
            confidence="high",
        )


def supervisor_lost(observation: Observation) -> Iterator[Finding]:
    """A local job whose supervisor was killed; its ranks end with it, so they show nothing of their own."""
    if observation.phase == "Failed" and observation.reason == reasons.SUPERVISOR_LOST:
        yield Finding(
            reasons.SUPERVISOR_LOST,
            observation.message,
            hint="start it again with `vcjob run`; if nobody killed the supervisor, see the kernel log for the "
            "out-of-memory killer (`dmesg | grep -i oom`)",
            confidence="high",
        )


def stopped_ranks(observation: Observation) -> Iterator[Finding]:
    """A Completed job whose ranks were still working."""
    cut = [
        pod.name
        for pod in observation.pods
        if pod.end is not None and pod.end.stopped and pod.rank is not None
    ]
    if observation.phase == "Completed" and cut:
        counted = "1 rank was" if len(cut) == 1 else f"{len(cut)} ranks were"
        yield Finding(
            causes.STILL_RUNNING,
            f"{counted} still running when the job completed, and stopped: {joined(cut)}",
            Ranks(tuple(cut)),
            hint="if they should finish, complete the job on their task, or raise minSuccess",
            confidence="low",
        )


def _verdict(suspect: Suspect) -> Verdict:
    for matcher in MATCHERS:
        verdict = matcher(suspect)
        if verdict is not None:
            return verdict
    raise AssertionError("the last matcher answers always")


def _recorded(observation: Observation, cause: str, message: str) -> Finding:
    """What the backend found when it happened; the logs that show it no longer exist."""
    recorded = [pod.name for pod in observation.pods if (pod.task, pod.index) == observation.recorded]
    victims = tuple(pod.name for pod in observation.pods if pod.name not in recorded and _is_victim(pod))
    evidence = (Evidence("status of the Job", observation.message),) if observation.message else ()
    return Finding(cause, message, Ranks(tuple(recorded), victims), evidence, confidence="high")


def _left_early(observation: Observation, complaint: Suspect) -> Finding | None:
    """Every failed rank only lost a peer: then one that ended with 0 before them is the cause."""
    left = [
        pod
        for pod in observation.pods
        if pod.rank is not None
        and pod.end is not None
        and pod.end.exit_code == 0
        and (pod.end.finished_at or 0.0) <= complaint.moment + NOTICED_SECONDS
    ]
    if not left:
        return None
    first = min(left, key=lambda pod: pod.end.finished_at or 0.0 if pod.end else 0.0)
    return Finding(
        causes.RANK_EXITED_EARLY,
        f"{first.name} ended with exit code 0 while the other ranks still communicated with it",
        Ranks((first.name,), tuple(pod.name for pod in observation.pods if _is_victim(pod))),
        complaint.evidence(),
        "make every rank run the same number of steps, and end with a barrier; its last lines may say why it ended: "
        f"`vcjob logs {observation.reference} --rank {first.rank}`",
        "medium",
    )


def _is_victim(pod: PodObservation) -> bool:
    return pod.end is not None and pod.end.exit_code != 0
