"""Which changes of a status are written at once, and which may be batched."""

from __future__ import annotations

import msgspec
import pytest

from vcjob.cluster.controller.status.changes import is_urgent, new_history, rejected_status
from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.decision_context import HISTORY_KEPT
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import HistoryEntry, Phase, State, Status, TaskMemory


def test_counters_and_messages_may_be_batched() -> None:
    old = Status(state=State(Phase.PENDING, "PodsPending", "0 of 3", 1.0))
    new = msgspec.structs.replace(
        old,
        pending=3,
        state=State(Phase.PENDING, "Unschedulable", "no room", 1.0),
        tasks={"a": TaskMemory(seen=IndexSet.span(0, 3))},
    )
    assert not is_urgent(old, new)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": State(Phase.RUNNING, "", "", 2.0)},
        {"retry_count": 1},
        {"commands": ("x",)},
        {"tasks": {"a": TaskMemory(attempts=Attempts({1: IndexSet.span(0, 1)}))}},
    ],
)
def test_what_pods_cannot_show_is_urgent(changes: dict[str, object]) -> None:
    old = Status(state=State(Phase.PENDING, "", "", 1.0))
    assert is_urgent(old, msgspec.structs.replace(old, **changes))


def test_a_rejected_job_is_failed_with_the_reason() -> None:
    status = rejected_status(Status(), "no tasks", 5.0)
    assert status.over and status.finished == 5.0
    assert status.to_kube()["state"]["message"] == "no tasks"


@pytest.mark.parametrize("before", [0, 1, HISTORY_KEPT - 1, HISTORY_KEPT, 3 * HISTORY_KEPT])
@pytest.mark.parametrize("added", [0, 1, 3])
def test_every_new_entry_of_the_history_is_found_also_where_each_displaces_an_old_one(
    before: int, added: int
) -> None:
    entries = [HistoryEntry(float(number), "RestartPod", f"r{number}") for number in range(before + added)]
    old = Status(history=tuple(entries[:before][-HISTORY_KEPT:]))
    new = Status(history=tuple(entries[-HISTORY_KEPT:]))
    assert new_history(old, new) == entries[before:]
