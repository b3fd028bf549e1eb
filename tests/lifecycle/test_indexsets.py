"""Index sets, attempts and the earliest index."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.earliest_index import EarliestIndex
from vcjob.lifecycle.indexset import INDEX_LIMIT, IndexSet
from vcjob.lifecycle.rules import TaskRules
from vcjob.spec.job import PartitionPolicy, Task

sets = st.sets(st.integers(0, 300))


@given(sets, sets, st.integers(0, 300))
@settings(deadline=None)
def test_an_index_set_behaves_as_a_set(left: set[int], right: set[int], index: int) -> None:
    a, b = IndexSet.of(left), IndexSet.of(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert set(a.with_index(index)) == left | {index}
    assert set(a.without_index(index)) == left - {index}
    assert (len(a), bool(a), index in a) == (len(left), bool(left), index in left)
    assert (a == b, hash(a) == hash(IndexSet.of(left))) == (left == right, True)
    assert list(a) == sorted(left)
    assert not a or a.first() == min(left)


@given(sets)
@settings(deadline=None)
def test_the_text_of_an_index_set_reads_back(indexes: set[int]) -> None:
    assert IndexSet.parse(str(IndexSet.of(indexes))) == IndexSet.of(indexes)


def test_index_sets_are_written_as_ranges() -> None:
    assert str(IndexSet.of([*range(42), 43, 50, 51])) == "0-41,43,50-51"
    assert (str(IndexSet()), IndexSet.parse("")) == ("", IndexSet())
    assert str(IndexSet.span(0, 10_000)) == "0-9999"
    assert (IndexSet.span(3, 3), IndexSet.span(2, 4)) == (IndexSet(), IndexSet.of([2, 3]))
    assert repr(IndexSet.of([1])) == "IndexSet('1')"
    assert IndexSet.of([1]) != "1"


@given(st.lists(st.tuples(sets, st.booleans()), max_size=8), sets)
@settings(deadline=None)
def test_attempts_count_up_for_each_index_on_its_own(
    rounds: list[tuple[set[int], bool]], among: set[int]
) -> None:
    attempts, expected = Attempts(), dict.fromkeys(range(301), 0)
    for indexes, jump in rounds:
        if jump:
            behind = {i for i in indexes if expected[i] < 5}
            attempts, raised = attempts.adopted({5: IndexSet.of(indexes)})
            assert set(raised) == behind
            expected |= dict.fromkeys(behind, 5)
        else:
            attempts = attempts.advanced(IndexSet.of(indexes))
            expected |= {i: expected[i] + 1 for i in indexes}
    assert {i: attempts.of(i) for i in expected} == expected
    parts = dict(attempts.split(IndexSet.of(among)))
    assert {i: attempt for attempt, part in parts.items() for i in part} == {i: expected[i] for i in among}
    for attempt in range(14):
        assert set(attempts.on(attempt, IndexSet.of(among))) == {i for i in among if expected[i] == attempt}
    assert Attempts.parse(attempts.to_json()) == attempts
    assert attempts.adopted({0: IndexSet.of(among)}) == (attempts, IndexSet())


@given(
    st.dictionaries(st.integers(0, 9), sets, max_size=5), st.dictionaries(st.integers(0, 9), sets, max_size=5)
)
@settings(deadline=None)
def test_an_index_is_on_the_highest_attempt_of_its_pods_and_its_record(
    recorded: dict[int, set[int]], seen: dict[int, set[int]]
) -> None:
    attempts = Attempts.parse({str(attempt): str(IndexSet.of(held)) for attempt, held in recorded.items()})
    before = {index: attempts.of(index) for index in range(301)}
    adopted, raised = attempts.adopted({attempt: IndexSet.of(held) for attempt, held in seen.items()})
    highest = {i: max((a for a, held in seen.items() if i in held), default=0) for i in before}
    assert {i: adopted.of(i) for i in before} == {i: max(before[i], highest[i]) for i in before}
    assert set(raised) == {i for i in before if highest[i] > before[i]}
    assert Attempts.parse(adopted.to_json()) == adopted


def test_pods_of_many_attempts_make_few_groups_and_never_lower_an_attempt() -> None:
    attempts = Attempts({3: IndexSet.of([7])})
    for size in (90, 1_000):
        seen = {attempt: IndexSet.of([attempt]) for attempt in range(1, size + 1)}
        adopted, raised = attempts.adopted(seen)
        assert len(adopted.groups) <= 100
        assert len(raised) == size
        assert all(adopted.of(index) >= index for index in range(1, size + 1))
        assert adopted.of(size) == size, "the pod of the highest attempt is current"


def test_an_attempt_that_leaves_no_room_for_later_ones_is_not_adopted() -> None:
    seen = {2**30 - 1: IndexSet.of([0]), 2**30: IndexSet.of([1]), 2**31 - 1: IndexSet.of([2])}
    assert Attempts().adopted(seen) == (Attempts({2**30 - 1: IndexSet.of([0])}), IndexSet.of([0]))


@given(
    st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 50)), max_size=60),
    st.sets(st.integers(0, 20)),
)
@settings(deadline=None)
def test_the_earliest_index_is_that_of_a_linear_search(
    changes: list[tuple[int, int | None]], among: set[int]
) -> None:
    earliest, expected = EarliestIndex(), dict[int, int]()
    for index, time in changes:
        if time is None:
            earliest.discard(index)
            expected.pop(index, None)
        else:
            earliest.add(index, time)
            expected[index] = time
        found = min(((t, i) for i, t in expected.items() if i in among), default=None)
        assert earliest.first(IndexSet.of(among)) == found
        due = {i for i, t in expected.items() if i in among and t + 5.0 <= 30.0}
        assert set(earliest.due(IndexSet.of(among), 5.0, 30.0)) == due
        assert set(earliest.indexes) == set(expected)
        assert len(earliest._heap) <= 2 * len(expected) + 9, "outdated entries are removed"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2000000000", ""),
        ("0-2000000000", f"0-{INDEX_LIMIT - 1}"),
        ("149999,150000", "149999"),
        ("²,٣,1_0,+1,0x5, 7", ""),
        ("-1,1-,--,5-3,,1-2-3", ""),
        ("9" * 5000, ""),
        (f"1,{'9' * 5000}", "1"),
        ("3,1-2,2-4", "1-4"),
    ],
)
def test_text_that_is_no_range_of_possible_indexes_is_ignored(text: str, found: str) -> None:
    assert str(IndexSet.parse(text)) == found


def test_reading_many_overlapping_ranges_is_linear() -> None:
    text = ",".join(["0-149999"] * 50_000)
    assert IndexSet.parse(text) == IndexSet.span(0, INDEX_LIMIT)


@given(st.text(alphabet="0123456789-,²x ", max_size=60))
@settings(deadline=None)
def test_reading_an_index_set_never_raises(text: str) -> None:
    assert IndexSet.parse(text).mask < 1 << INDEX_LIMIT


@given(sets, st.integers(1, 40))
@settings(deadline=None)
def test_the_summary_is_the_start_of_the_text(indexes: set[int], limit: int) -> None:
    found, whole = IndexSet.of(indexes), str(IndexSet.of(indexes))
    if len(whole) <= limit:
        assert found.summary(limit) == whole
    else:
        cut = whole[:limit].rpartition(",")[0]
        assert found.summary(limit) == f"{cut},… ({len(indexes)} in all)"


@given(sets, st.integers(0, 20), st.integers(0, 320))
@settings(deadline=None)
def test_a_partition_is_restarted_as_a_whole(indexes: set[int], size: int, replicas: int) -> None:
    rules = TaskRules(Task("worker", replicas, partition_policy=PartitionPolicy(partition_size=size)), None)
    size = size or 1
    wanted = {i for index in indexes for i in range(index // size * size, index // size * size + size)}
    assert set(rules.partitions(IndexSet.of(indexes))) == {i for i in wanted if i < replicas}


def test_a_set_of_high_indexes_is_read_and_written_without_a_text_as_long_as_the_highest() -> None:
    """A status may have thousands of them, so that a text of 150,000 digits for each took half a second."""
    for text in (
        str(INDEX_LIMIT - 1),
        f"0,7-9,{INDEX_LIMIT - 3}-{INDEX_LIMIT - 1}",
        ",".join(map(str, [*range(0, 40, 2), INDEX_LIMIT - 1])),
    ):
        tracemalloc.start()
        try:
            written = str(IndexSet.parse(text))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert written == text
        assert peak < INDEX_LIMIT  # a few times the 19 kB of the set
