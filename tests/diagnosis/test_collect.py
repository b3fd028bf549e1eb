"""What the diagnosis knows of a job: the newest attempt of every pod, and the pod that the status names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.lifecycle.simulation import job, task
from vcjob.diagnosis.collect import counted_container, newest_attempts, observe
from vcjob.diagnosis.observation import End, PodObservation
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit, Status
from vcjob.report.podstate import ContainerState, Ended, PodState

JOB = job(task("worker", 2))


def container(code: int | None = None, **fields: Any) -> ContainerState:
    ended = None if code is None else Ended(code, "Error" if code else "Completed", 2.0)
    return ContainerState(**{"name": "main", "role": "main", "ended": ended, **fields})


def pod(index: int = 0, *containers: ContainerState, **fields: Any) -> PodState:
    return PodState(
        "worker", index, f"train-worker-{index}", f"u{index}", containers=list(containers), **fields
    )


def observed(*pods: PodState, culprit: Culprit | None = None) -> list[PodObservation]:
    return observe("cluster", JOB, msgspec.structs.replace(Status(), culprit=culprit), pods, 9.0).pods


def test_only_the_newest_attempt_of_the_newest_version_counts() -> None:
    old, new = pod(0, attempt=0, version=1), pod(0, attempt=1, version=1)
    assert newest_attempts([new, old, pod(1, version=0)]) == [new]


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_pod_that_the_status_calls_evicted_is_evicted_in_that_attempt(attempt: int) -> None:
    (known,) = observed(pod(0, attempt=1), culprit=Culprit("worker", 0, attempt=attempt, event="PodEvicted"))
    assert known.reason == ("Evicted" if attempt == 1 else "")


def test_another_event_makes_no_pod_evicted() -> None:
    (known,) = observed(pod(0), culprit=Culprit("worker", 0, event="PodFailed"))
    assert known.reason == ""


def test_the_pod_that_the_status_names_is_shown_although_it_is_deleted() -> None:
    culprit = Culprit(
        "worker", 1, attempt=2, rank=1, event="PodFailed", failure=Failure("main", 7, message="gone")
    )
    here, deleted = observed(pod(0), culprit=culprit)
    assert (here.index, here.end) == (0, None)
    assert (deleted.pod, deleted.attempt, deleted.phase) == ("train-worker-1", 2, "Failed")
    assert deleted.end is not None and deleted.end.exit_code == 7


def test_the_first_container_that_failed_counts_in_a_failed_pod() -> None:
    failing = container(3, name="proxy", role="sidecar")
    found, ended = counted_container(pod(0, container(0), failing, phase="Failed"))
    assert found is failing and ended is failing.ended


def test_the_main_container_counts_where_none_failed() -> None:
    main = container(0)
    assert counted_container(pod(0, main, phase="Succeeded")) == (main, main.ended)
    assert counted_container(pod(0)) == (None, None)


@pytest.mark.parametrize(
    ("phase", "end", "running", "failed"),
    [
        ("Running", None, True, False),
        ("Running", End(1), False, True),
        ("Failed", End(1), False, True),
        ("Failed", End(143, stopped=True), False, False),
        ("Succeeded", End(0), False, False),
        ("Pending", None, False, False),
    ],
)
def test_a_rank_runs_or_has_failed_on_its_own(
    phase: str, end: End | None, running: bool, failed: bool
) -> None:
    state = PodObservation("p", "worker", 0, phase=phase, end=end)
    assert (state.running, state.failed) == (running, failed)
