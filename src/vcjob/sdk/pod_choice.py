"""Which container a command is run in: by rank, or by task and index; by default the rank's own container.

Used by `Handle.exec` of both backends; `running_pods` also by `stacks` and `top`. A choice that does not name
exactly one running pod is an error that lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vcjob.errors import UserError
from vcjob.report.failure import pod_name
from vcjob.report.podstate import ContainerState, PodState

if TYPE_CHECKING:
    from vcjob.sdk.handle import Handle


def choose_container(
    job: Handle, rank: int | None, task: str | None, index: int | None, container: str | None
) -> tuple[PodState, ContainerState]:
    """A running container; UserError that lists what runs where the choice does not name exactly one pod."""
    running = running_pods(job)
    found = [
        pod
        for pod in running
        if (rank is None or pod.rank == rank)
        and (task is None or pod.task == task)
        and (index is None or pod.index == index)
    ]
    if len(found) != 1:
        problem = "several pods match" if found else "no running pod matches"
        raise UserError(
            f"{problem}: choose one with a rank, or with a task and an index",
            hint=f"running are: {', '.join(pod_name(pod) for pod in running)}",
        )
    pod = found[0]
    named = [each for each in _running(pod) if container in (None, each.name)]
    if not named:
        raise UserError(
            f"no container {container!r} of {pod_name(pod)} is running",
            hint=f"running are: {', '.join(each.name for each in _running(pod))}",
        )
    return pod, next((each for each in named if each.role == "main"), named[0])


def running_pods(job: Handle, ranks: Sequence[int] = ()) -> list[PodState]:
    """The pods that run, or those of these ranks; UserError where there is none."""
    running = [pod for pod in job.pods() if _running(pod) and not pod.finished and pod.deleted_at is None]
    if not running:
        raise UserError(
            f"no pod of the job {job.name!r} is running: it is {job.phase}",
            hint="`vcjob why` says why, `vcjob timeline` shows where the time went",
        )
    chosen = [pod for pod in running if not ranks or pod.rank in ranks]
    if not chosen:
        raise UserError(
            f"no running pod has the rank {', '.join(map(str, ranks))}",
            hint=f"running are: {', '.join(pod_name(pod) for pod in running)}",
        )
    return chosen


def _running(pod: PodState) -> list[ContainerState]:
    return [
        each for each in pod.containers if each.started_at is not None and not (each.ended or each.waiting)
    ]
