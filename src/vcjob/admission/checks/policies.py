"""Checks of policies and of the Job's other durations: each policy has a valid cause and action, and no two of one list
have the same cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vcjob.spec import duration
from vcjob.spec.job import Job, Policy, Task
from vcjob.spec.problem import Path, Problem, error, warning
from vcjob.spec.spelling import did_you_mean
from vcjob.spec.wording import show
from vcjob.wellknown.annotations import ON_HANG

ANY = "*"
EVENTS = (
    ANY,
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
ON_HANG_CHOICES = ("warn", "restart", "fail")


def check(job: Job) -> Iterator[Problem]:
    on_hang = job.metadata.annotations.get(ON_HANG, "warn")
    if on_hang not in ON_HANG_CHOICES:
        yield error(
            ("metadata", "annotations", ON_HANG),
            f"{show(on_hang)} is not one of {', '.join(ON_HANG_CHOICES)}",
            did_you_mean(on_hang, ON_HANG_CHOICES, "write one of them, or leave the annotation out"),
        )
    yield from _duration(job.spec.running_estimate, ("spec", "runningEstimate"))
    yield from _list(job.spec.policies, ("spec", "policies"), job.tasks)
    for number, task in enumerate(job.tasks):
        yield from _list(task.policies, ("spec", "tasks", number, "policies"), (task,))


def _list(policies: Sequence[Policy], where: Path, tasks: Sequence[Task]) -> Iterator[Problem]:
    seen: dict[str | int, int] = {}
    for number, policy in enumerate(policies):
        place = (*where, number)
        yield from _causes(policy, place)
        yield from _action(policy, place)
        yield from _timeout(policy, place)
        causes = (
            [policy.exit_code] if policy.exit_code is not None else list(dict.fromkeys(policy.all_events))
        )
        for cause in causes:
            before = seen.setdefault(cause, number)
            if before != number:
                what, key = (
                    ("exitCode", "exitCode")
                    if isinstance(cause, int)
                    else ("event", _event_key(policy, cause))
                )
                yield error(
                    (*place, key),
                    f"duplicate {what} `{show(cause)}`: policy {before + 1} of this list has the same one",
                    "remove one of the two policies",
                )
    events = [cause for cause in seen if isinstance(cause, str)]
    if ANY in events and len(events) > 1:
        yield error(
            (*where, seen[ANY]),
            f"`{ANY}` means every event: if there's {ANY} here, no other policy should be here",
            f"remove {_others(events)}",
        )
    yield from _exit_codes_without_effect(policies, where, tasks)


def _causes(policy: Policy, place: Path) -> Iterator[Problem]:
    events = policy.all_events
    if events and policy.exit_code is not None:
        yield error(
            (*place, "exitCode"),
            "a policy must not specify event and exitCode simultaneously",
            "write two policies",
        )
    elif not events and policy.exit_code is None:
        yield error(
            place,
            "the policy has no cause: either event and exitCode should be specified",
            f"add `event:` with one of {', '.join(EVENTS)}",
        )
    if policy.exit_code == 0:
        yield error(
            (*place, "exitCode"),
            "0 is not a valid error code: it means success",
            "use `event: TaskCompleted`",
        )
    for event in dict.fromkeys(events):
        if event not in EVENTS:
            yield error(
                (*place, _event_key(policy, event)),
                f"invalid policy event `{show(event)}`",
                _hint(event, EVENTS),
            )


def _event_key(policy: Policy, event: str) -> str:
    return "event" if policy.event == event else "events"


def _action(policy: Policy, place: Path) -> Iterator[Problem]:
    if not policy.action:
        yield error(place, "the policy has no action", f"add `action:` with one of {', '.join(ACTIONS)}")
    elif policy.action not in ACTIONS:
        message = f"invalid policy action `{show(policy.action)}`"
        yield error((*place, "action"), message, _hint(policy.action, ACTIONS))


def _timeout(policy: Policy, place: Path) -> Iterator[Problem]:
    if policy.timeout is None:
        if "PodPending" in policy.all_events:
            yield error(
                place,
                "PodPending needs a timeout, because every pod is pending at first",
                "add `timeout: 10m`",
            )
        return
    yield from _duration(policy.timeout, (*place, "timeout"), may_be_negative=False)


def _duration(text: str | None, where: Path, *, may_be_negative: bool = True) -> Iterator[Problem]:
    try:
        nanoseconds = duration.nanoseconds(text or "0")
    except duration.DurationTooLong:
        longest = f"{duration.LONGEST // (3600 * 10**9)}h"
        yield error(
            where,
            f"`{show(text)}` is longer than {longest}, the longest duration that Kubernetes can read",
            "write a shorter one",
        )
    except ValueError:
        return  # the schema check has reported it
    else:
        if nanoseconds < 0 and not may_be_negative:
            yield error(where, f"the timeout `{show(text)}` is negative", "write it without `-`")


def _exit_codes_without_effect(
    policies: Sequence[Policy], where: Path, tasks: Sequence[Task]
) -> Iterator[Problem]:
    restarting = [task.name for task in tasks if (task.pod_spec.get("restartPolicy") or "Always") != "Never"]
    if not restarting:
        return
    for number, policy in enumerate(policies):
        if policy.exit_code:
            yield warning(
                (*where, number, "exitCode"),
                f"this policy never acts on {_listed(restarting)}: the kubelet restarts the container before the policy applies",
                "write `restartPolicy: Never` in the template",
            )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"task {shown}" if len(names) == 1 else f"tasks {shown}{' and others' if len(names) > 3 else ''}"


def _others(events: Sequence[str]) -> str:
    return ", ".join(event for event in events if event != ANY)


def _hint(wrong: str, known: Sequence[str]) -> str:
    return did_you_mean(wrong, known, f"use one of {', '.join(known)}")
