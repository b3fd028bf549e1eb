"""Index sets in a stored status: the text is short, whatever was lost, and is read as it was written."""

from __future__ import annotations

import binascii
import json
import random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcjob.admission import limits
from vcjob.lifecycle import index_text
from vcjob.lifecycle.indexset import EMPTY, INDEX_LIMIT, IndexSet
from vcjob.lifecycle.status import Status, TaskMemory
from vcjob.lifecycle.task_state import replace_lost
from vcjob.wellknown.annotations import LIFECYCLE

EVERY_SECOND = IndexSet.of(range(0, 20_000, 2))


def after_losses(pods: int, tasks: int, times: int, choice: random.Random | None) -> Status:
    """Each time a random half of the pods is lost, or every second one, and a policy waits for their replacements."""
    size = pods // tasks
    every, second = IndexSet.span(0, size), IndexSet(int("01" * (size // 2) or "1", 2))
    memories = {}
    for number in range(tasks):
        memory = TaskMemory(seen=every, begun=every)
        for time in range(times):
            lost = IndexSet(choice.getrandbits(size)) if choice else second
            memory = replace_lost(memory, lost, 1_700_000_000.123 + time)
            memory = msgspec.structs.replace(memory, seen=every, begun=every)
        succeeded = IndexSet(choice.getrandbits(size)) if choice else second
        memories[f"task-{number}"] = msgspec.structs.replace(
            memory, succeeded=succeeded, failed=every - succeeded, seen=succeeded
        )
    return Status(tasks=memories, task_counts={name: {"Running": size} for name in memories})


@pytest.mark.parametrize("alternating", [True, False], ids=["every second pod", "random halves"])
@pytest.mark.parametrize("tasks", [1, 75, 2_000])
def test_the_status_of_a_job_with_all_pods_stays_below_its_limit(tasks: int, alternating: bool) -> None:
    """It had up to 18 bytes for each pod, and 2.8 MB of 150,000 pods: more than etcd stores."""
    status = after_losses(limits.MAX_REPLICAS, tasks, 20, None if alternating else random.Random(3))
    document = status.to_kube()
    specs = [{"name": name} for name in status.tasks]
    pods = limits.MAX_REPLICAS * limits._POD_BYTES
    assert len(msgspec.json.encode(document)) <= sum(map(limits._status_bytes, specs)) + pods
    assert Status.from_kube(json.loads(json.dumps(document))) == status


def test_a_status_without_thousands_of_ranges_has_no_bits() -> None:
    """People read it, and so do controllers of earlier releases."""
    status = after_losses(1_000, 1, 3, random.Random(3))
    task = json.loads(status.to_kube()["controlledResources"][LIFECYCLE])["tasks"]["task-0"]
    assert IndexSet.parse(task["seen"]) == status.memory("task-0").seen
    assert "~" not in json.dumps(task)


def test_a_set_of_few_ranges_is_never_written_as_bits() -> None:
    write = index_text.writer([EVERY_SECOND])
    assert write(IndexSet.span(0, 150_000)) == "0-149999"
    assert write(IndexSet.of([149_999])) == "149999"
    assert write(EMPTY) == ""


@given(st.sets(st.integers(0, INDEX_LIMIT - 1)))
@example(set(range(0, 200, 2)))
@example(set(range(1, 48, 2)))
@example({0})
def test_what_was_written_is_read(indexes: set[int]) -> None:
    held = IndexSet.of(indexes)
    for write in (index_text.writer([]), index_text.writer([EVERY_SECOND])):
        assert index_text.read(write(held)) == held
    assert len(write(held)) <= len(str(held)) + 1


@given(st.text(alphabet="~0123456789-,AZaz+/= \x00é"))
@example("~")
@example("~====")
@example("~AAAé")
def test_an_edited_text_is_read_without_an_error(text: str) -> None:
    held = index_text.read(text)
    assert held.mask.bit_length() <= INDEX_LIMIT


def test_bits_beyond_the_last_index_are_ignored() -> None:
    text = "~" + binascii.b2a_base64(b"\xff" * 1_000_000, newline=False).decode()
    assert index_text.read(text) == IndexSet.span(0, INDEX_LIMIT)
