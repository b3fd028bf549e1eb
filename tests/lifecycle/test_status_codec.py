"""The form of a status in Kubernetes: what other releases, Volcano or users have written is read or rejected."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.lifecycle.simulation import START, Simulation, job, task
from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import (
    FINAL,
    Condition,
    Culprit,
    Eviction,
    HistoryEntry,
    Phase,
    State,
    Status,
    TaskMemory,
)
from vcjob.lifecycle.status_codec import go_duration
from vcjob.lifecycle.step import CreatePods
from vcjob.wellknown.annotations import LIFECYCLE

sets = st.sets(st.integers(0, 200), max_size=20).map(IndexSet.of)
times = st.floats(0, 4e9, allow_nan=False)
words = st.text(max_size=8)
failures = st.builds(
    Failure, words, st.none() | st.integers(0, 255), st.none() | st.integers(1, 64), words, words
)
culprits = st.builds(
    Culprit, words, st.integers(0, 99), st.integers(0, 9), st.none() | st.integers(0, 99), words, failures
)
runs = st.builds(
    HistoryEntry,
    times,
    words,
    words,
    words,
    st.integers(0, 9),
    st.integers(0, 9),
    words,
    words,
    st.none() | culprits,
)
memories = st.builds(
    TaskMemory,
    st.dictionaries(st.integers(1, 5), sets.filter(bool), max_size=2).map(
        lambda groups: Attempts(dict(zip(groups, _disjoint(list(groups.values())))))
    ),
    sets,
    sets,
    sets,
    st.lists(st.builds(Eviction, times, sets), max_size=2).map(tuple),
    sets,
)
counts = st.integers(0, 10_000)
statuses = st.builds(
    Status,
    st.builds(State, st.sampled_from(Phase), words, words, st.none() | times),
    counts,
    st.dictionaries(words, st.dictionaries(st.sampled_from(["Running", "Failed"]), counts), max_size=2),
    *[counts] * 8,
    st.none() | times,
    st.lists(st.builds(Condition, st.sampled_from(Phase), times), max_size=3).map(tuple),
    st.dictionaries(words, memories, max_size=2),
    *[st.none() | times] * 3,
    words,
    st.none() | runs,
    st.none() | culprits,
    st.lists(runs, max_size=2).map(tuple),
    *[st.lists(words, max_size=3).map(tuple)] * 3,
    st.dictionaries(words, times, max_size=2),
    words,
    words,
    st.dictionaries(words, words, max_size=2),
)


def _disjoint(groups: list[IndexSet]) -> list[IndexSet]:
    taken, found = IndexSet(), []
    for place, group in enumerate(groups):
        group = (group - taken) | IndexSet.of([300 + place])
        taken |= group
        found.append(group)
    return found


@given(statuses)
@settings(deadline=None)
def test_a_status_survives_encoding_and_decoding(status: Status) -> None:
    assume(status.finished is not None or status.phase not in (*FINAL, Phase.ABORTED))
    assert Status.from_kube(json.loads(json.dumps(status.to_kube()))) == status


def test_a_status_of_kubernetes_form() -> None:
    world = Simulation(job(task("worker", 2), task("other", 1))).running()
    world.set_pod("worker", 1, "Succeeded")
    document = world.settle().to_kube()
    own = document["controlledResources"].pop(LIFECYCLE)
    assert document == {
        "state": {
            "phase": "Running",
            "reason": "MinAvailableReached",
            "message": "3 of 3 pods are running or have ended",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        },
        "minAvailable": 3,
        "taskStatusCount": {
            "worker": {"phase": {"Running": 1, "Succeeded": 1}},
            "other": {"phase": {"Running": 1}},
        },
        "running": 2,
        "succeeded": 1,
        "conditions": [
            {"status": "Pending", "lastTransitionTime": "2023-11-14T22:13:20Z"},
            {"status": "Running", "lastTransitionTime": "2023-11-14T22:13:20Z"},
        ],
        "controlledResources": {},
    }
    assert json.loads(own)["tasks"]["worker"] == {"begun": "0-1", "seen": "0-1", "succeeded": "1"}


def test_a_status_that_volcano_wrote_can_be_read_and_continued() -> None:
    status = Status.from_kube(
        {
            "state": {"phase": "Running", "lastTransitionTime": "2023-11-14T22:13:20Z"},
            "conditions": [{"status": "Pending", "lastTransitionTime": "2023-11-14T22:13:19Z"}],
            "controlledResources": {"plugin-svc": "svc"},
            "runningDuration": "1m5.5s",
            "version": 2,
            "retryCount": 1,
        }
    )
    assert status.state == State(Phase.RUNNING, since=START)
    assert status.conditions == (Condition(Phase.PENDING, START - 1),)
    assert (status.version, status.retry_count, status.running_duration) == (2, 1, 65.5)
    assert status.resources == {"plugin-svc": "svc"}
    world = Simulation(job(policies=[{"event": "JobUpdated", "action": "TerminateJob"}]))
    world.stored = json.dumps(status.to_kube())
    decision = world.decide()
    assert (decision.status.phase, decision.status.started) == (Phase.RUNNING, START)
    assert decision.status.resources == {"plugin-svc": "svc"}


def test_fields_that_a_later_release_has_added_are_ignored() -> None:
    world = Simulation(job(task("worker", 2))).running()
    written = world.settle().to_kube()
    own = json.loads(written["controlledResources"][LIFECYCLE])
    for part in (own, own["tasks"]["worker"], written, written["state"], written["conditions"][0]):
        part["later"] = {"of": ["another", "type"]}
    written["controlledResources"][LIFECYCLE] = json.dumps(own)
    assert Status.from_kube(written) == world.settle()


def test_fields_that_an_earlier_release_did_not_write_are_their_defaults() -> None:
    world = Simulation(job(task("worker", 2))).running()
    written = world.settle().to_kube()
    own = json.loads(written["controlledResources"][LIFECYCLE])
    del own["spec_digest"]
    written["controlledResources"][LIFECYCLE] = json.dumps(own)
    world.stored = json.dumps(written)
    decision = world.decide()
    assert not any(isinstance(step, CreatePods) for step in decision.steps)
    assert decision.status.phase is Phase.RUNNING and decision.status.spec_digest


def test_no_status_at_all_is_a_new_job() -> None:
    assert Status.from_kube(None) == Status.from_kube({}) == Status()


def test_durations_as_go_writes_them() -> None:
    assert [go_duration(s) for s in (0, 59.9, 60, 3600, 3725)] == ["0s", "59s", "1m0s", "1h0m0s", "1h2m5s"]


HOSTILE_TASKS = {
    "many attempts": {"a": {"attempts": {str(n): "149999" for n in range(1, 4000)}}},
    "many tasks": {f"t{n}": {"seen": "149999"} for n in range(4000)},
    "many evictions": {"a": {"evictions": [[1.0, "149999"]] * 4000}},
}


@pytest.mark.slow
@pytest.mark.parametrize("tasks", HOSTILE_TASKS.values(), ids=HOSTILE_TASKS.keys())
def test_a_status_edited_to_waste_memory_is_rejected_before_it_does(tasks: dict[str, Any]) -> None:
    document = {"controlledResources": {LIFECYCLE: json.dumps({"tasks": tasks})}}
    tracemalloc.start()
    with pytest.raises(ValueError, match="32 MiB"):
        Status.from_kube(document)
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


def test_indexes_in_a_status_that_no_job_can_have_are_ignored() -> None:
    own = {"tasks": {"worker": {"seen": "0-2,2000000000,²,-4", "attempts": {"9" * 5000: "1", "2": "0-x"}}}}
    memory = Status.from_kube({"controlledResources": {LIFECYCLE: json.dumps(own)}}).memory("worker")
    assert (memory.seen, memory.attempts) == (IndexSet.of([0, 1, 2]), Attempts())


@pytest.mark.parametrize("written", [-7, 2**31 - 1, 2**31, 10**30])
def test_counters_that_somebody_edited_can_still_grow_and_be_written(written: int) -> None:
    """The API server takes 32 bits, and a pod whose attempt has more is not recognised: it would be replaced without end."""
    status = Status.from_kube({"version": written, "retryCount": written})
    assert 0 <= status.version < 2**31 - 1 and 0 <= status.retry_count < 2**31 - 1
    own = {"tasks": {"worker": {"attempts": {str(written): "0-2"}}}}
    memory = Status.from_kube({"controlledResources": {LIFECYCLE: json.dumps(own)}}).memory("worker")
    assert memory.attempts == Attempts()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
own_fields = st.sampled_from(
    ["tasks", "since", "condition_times", "started", "finished", "history", "holding"]
)
public_fields = st.sampled_from(
    ["state", "conditions", "taskStatusCount", "running", "version", "controlledResources", "runningDuration"]
)


@given(st.dictionaries(public_fields, json_values), st.dictionaries(own_fields, json_values))
@settings(deadline=None)
def test_a_status_that_somebody_edited_is_read_or_rejected_with_a_value_error(
    public: dict[str, Any], own: dict[str, Any]
) -> None:
    for document in (public, {"controlledResources": {LIFECYCLE: json.dumps(own)}}):
        try:
            status = Status.from_kube(document)
        except ValueError:
            continue
        check_that_it_continues(status)


@given(
    st.sampled_from([None, *Phase]),
    st.dictionaries(public_fields, json_values),
    st.text() | st.dictionaries(own_fields, json_values).map(json.dumps),
)
@settings(deadline=None)
def test_the_phase_of_a_status_that_somebody_edited_is_kept_where_it_can_be_read(
    phase: Phase | None, public: dict[str, Any], own: str
) -> None:
    kept = {} if phase is None else {"state": {"phase": str(phase)}}
    for document in (public, {**public, "controlledResources": {LIFECYCLE: own}}):
        status = Status.readable({**document, **kept})
        assert phase is None or status.phase == phase
        assert LIFECYCLE not in status.resources
        check_that_it_continues(status)


def check_that_it_continues(status: Status) -> None:
    """The Job is decided about, and what is written can be read and written again without a difference."""
    status = decide(job(), status, Observed(), START).status
    again = Status.from_kube(json.loads(json.dumps(status.to_kube())))
    assert Status.from_kube(json.loads(json.dumps(again.to_kube()))) == again


kube_times = st.sampled_from(
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "1969-12-31T23:59:59Z"]
) | st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat())


@given(kube_times, kube_times, st.sampled_from(["Pending", "Running", "Completed", "Failed", "Aborted"]))
@settings(deadline=None)
def test_a_job_continues_whatever_times_somebody_wrote_into_its_status(
    transition: str, condition: str, phase: str
) -> None:
    state = {"phase": phase, "lastTransitionTime": transition}
    conditions = [{"status": phase, "lastTransitionTime": condition}]
    check_that_it_continues(Status.from_kube({"state": state, "conditions": conditions}))


@pytest.mark.parametrize("time", ["2026-01-01t00:00:00z", "2026-02-30T00:00:00Z", "yesterday", ""])
def test_a_time_that_cannot_be_read_counts_as_absent_and_the_rest_of_the_status_stays(time: str) -> None:
    """The API server accepts small letters too. A completed Job ran again."""
    written = Simulation(job()).running().settle().to_kube()
    written["state"] |= {"phase": "Completed", "lastTransitionTime": time}
    written["conditions"][0]["lastTransitionTime"] = time
    status = Status.from_kube(written)
    assert (status.phase, status.shape != "") == (Phase.COMPLETED, True)
    check_that_it_continues(status)
    del written["controlledResources"]
    status = Status.from_kube(written)
    assert (status.phase, status.state.since) == (Phase.COMPLETED, None)
    check_that_it_continues(status)


def test_a_time_that_kubernetes_cannot_express_makes_a_status_unreadable() -> None:
    with pytest.raises(ValueError):
        Status.from_kube({"controlledResources": {LIFECYCLE: '{"since": 1e300}'}})


def test_an_empty_document_is_the_status_of_a_new_job() -> None:
    assert Status.from_kube({}) == Status.from_kube({"state": {}}) == Status()
