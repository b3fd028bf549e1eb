"""The aggregates of a backend's pods: the same in whatever order reports arrive."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import Failure, PodFact, PodPhase

facts = st.builds(
    PodFact,
    task=st.sampled_from(["a", "b"]),
    index=st.integers(0, 3),
    uid=st.just(""),
    attempt=st.integers(0, 1),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    ready=st.booleans(),
    terminating=st.booleans(),
    created=st.integers(0, 5).map(float),
    since=st.integers(0, 5).map(float),
    restarts=st.integers(0, 2),
    failure=st.none()
    | st.builds(Failure, st.just("wait-for-master"), st.sampled_from([1, 91]), init=st.booleans()),
    evicted=st.booleans(),
).map(lambda pod: msgspec.structs.replace(pod, uid=f"{pod.task}{pod.index}{pod.attempt}"))


def sums(observed: Observed) -> dict[tuple[str, int], Any]:
    return {
        (task, attempt): {
            "sets": {name: str(getattr(group, name)) for name in SETS},
            "pending since": group.pendings.first(group.pending),
            "unknown since": group.unknowns.first(group.unknown),
            "evicted since": group.evictions.first(group.evicted),
            "failures": {
                code: earliest.first(earliest.indexes)
                for code, earliest in group.failures.items()
                if earliest.indexes
            },
            "restarts": {times: str(held) for times, held in group.restarts.items()},
        }
        for task, groups in observed.groups.items()
        for attempt, group in groups.items()
    }


SETS = (
    "present", "pending", "running", "ready", "succeeded", "failed", "unknown", "terminating", "evicted",
    "wait_timed_out",
)  # fmt: skip


def wait_timed_out(pod: PodFact) -> bool:
    return pod.failure is not None and pod.failure.init and pod.failure.exit_code == 91


@given(
    st.lists(
        facts | st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 1)), max_size=30
    )
)
@settings(deadline=None)
def test_the_aggregates_depend_only_on_the_pods_that_exist(news: list[Any]) -> None:
    observed, pods = Observed(), dict[str, PodFact]()
    for item in news:
        if isinstance(item, tuple):
            uid = "{}{}{}".format(*item)
            observed.drop(uid)
            pods.pop(uid, None)
            continue
        observed.put(item)
        observed.put(item)
        old = pods.get(item.uid)
        if (
            old is not None
            and old.phase in ("Succeeded", "Failed")
            and item.phase not in ("Succeeded", "Failed")
        ):
            continue
        given = item
        if old is not None and old.terminating and not item.terminating:
            item = msgspec.structs.replace(item, terminating=True, since=old.since)
        if old is not None and old.done and old.phase != item.phase:
            item = msgspec.structs.replace(item, phase=old.phase, failure=old.failure, evicted=old.evicted)
        if old is not None:
            item = msgspec.structs.replace(item, restarts=max(item.restarts, old.restarts))
        if old is not None and wait_timed_out(old) and given.failure and given.failure.exit_code != 91:
            item = msgspec.structs.replace(item, failure=old.failure)  # the kubelet shows only the next try
        pods[item.uid] = item
    fresh = Observed()
    for pod in reversed(pods.values()):
        fresh.put(pod)
    assert sums(observed) == sums(fresh)
    assert {pod.uid: pod for pod in observed.pods.values()} == pods
    assert {uid: (p.task, p.index, p.attempt) for uid, p in pods.items()} == observed._keys


def test_every_phase_has_its_own_set() -> None:
    observed = Observed()
    for index, phase in enumerate(get_args(PodPhase)):
        observed.put(PodFact("a", index, f"u{index}", phase=phase, ready=phase == "Running"))
    observed.put(PodFact("a", 5, "u5", phase="Running", terminating=True))
    observed.put(PodFact("a", 6, "u6", phase="Failed", evicted=True))
    group = observed.groups["a"][0]
    assert {name: str(getattr(group, name)) for name in SETS} == {
        "present": "0-6",
        "pending": "0",
        "running": "1",
        "ready": "1",
        "succeeded": "2",
        "failed": "3,6",
        "unknown": "4",
        "terminating": "5",
        "evicted": "5-6",
        "wait_timed_out": "",
    }
    assert group.failures[None].indexes == IndexSet.of([3])


def test_an_older_report_does_not_revive_a_finished_pod() -> None:
    observed = Observed()
    observed.put(PodFact("a", 0, "u", phase="Failed"))
    observed.put(PodFact("a", 0, "u", phase="Running"))
    assert str(observed.groups["a"][0].failed) == "0"
    observed.put(PodFact("a", 0, "another", phase="Running"))
    assert str(observed.groups["a"][0].running) == "0"
    observed.drop("u")
    assert str(observed.groups["a"][0].running) == "0", "the one that is gone is another pod"
    observed.drop("another")
    assert (observed.groups, observed.pods) == ({}, {})


def test_restarts_are_not_forgotten() -> None:
    observed = Observed()
    observed.put(PodFact("a", 0, "u", phase="Running", restarts=4))
    observed.put(PodFact("a", 0, "u", phase="Running", ready=True))
    assert observed.groups["a"][0].restarts == {4: IndexSet.of([0])}
    observed.put(PodFact("a", 0, "another"))
    assert observed.groups["a"][0].restarts == {}


def test_a_deletion_is_never_taken_back() -> None:
    observed = Observed()
    observed.put(PodFact("a", 0, "u", phase="Running", terminating=True, since=5.0))
    observed.put(PodFact("a", 0, "u", phase="Running", since=1.0, restarts=1))
    assert observed.pod("a", 0, 0) == PodFact(
        "a", 0, "u", phase="Running", terminating=True, since=5.0, restarts=1
    )


def test_a_wait_timeout_stays_the_cause_when_the_kubelet_reports_only_the_next_try() -> None:
    """The kubelet may report only the later try, which our own request ended."""
    observed = Observed()
    pod = PodFact(task="a", index=0, uid="u", phase="Pending", restarts=1)
    in_vain = Failure("wait-for-master", 91, init=True)
    observed.put(msgspec.structs.replace(pod, failure=in_vain))
    ended = msgspec.structs.replace(pod, phase="Failed")
    deleted = msgspec.structs.replace(ended, failure=Failure("wait-for-master", 143, signal=15, init=True))
    observed.put(deleted)
    assert observed.pods["a", 0, 0].failure == in_vain
    own = Failure("main", 1)
    observed.put(msgspec.structs.replace(ended, failure=own))
    assert observed.pods["a", 0, 0].failure == own


@pytest.mark.parametrize("fields", [{"index": 2_000_000_000}, {"index": -1}, {"attempt": 10**30}])
def test_a_pod_whose_index_or_attempt_is_out_of_range_is_ignored(fields: dict[str, Any]) -> None:
    observed = Observed()
    place: dict[str, Any] = {"task": "worker", "index": 0, "uid": "u", **fields}
    assert not observed.put(PodFact(**place))
    assert (observed.pods, observed.groups) == ({}, {})


def test_a_pod_keeps_its_place_when_its_annotations_are_edited() -> None:
    observed = Observed()
    observed.put(PodFact("worker", 0, "u0"))
    observed.put(PodFact("worker", 1, "u1"))
    observed.put(PodFact("worker", 1, "u0", phase="Running"))
    assert {(pod.index, pod.uid, pod.phase) for pod in observed.pods.values()} == {
        (0, "u0", "Running"),
        (1, "u1", "Pending"),
    }
    observed.drop("u0")
    observed.drop("u1")
    assert (observed.pods, observed.groups) == ({}, {})
