"""The time index of a log: it finds the offset of a time, restores the order of two streams, and stays small."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcjob.local.logs import index
from vcjob.local.logs.index import ContainerIndex, offset_at, read_index


def test_the_index_finds_the_place_of_a_moment(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    writer = ContainerIndex([path])
    for moment, size in enumerate((2, 4, 6)):
        writer.received(0, size, 100.0 + moment)
    assert list(read_index(path)) == [(100.0, 2), (101.0, 4), (102.0, 6)]
    assert [offset_at(path, moment) for moment in (99.0, 100.5, 101.0, 500.0)] == [0, 2, 2, 6]


def test_every_change_between_the_streams_is_recorded_and_nothing_else_within_a_tenth_of_a_second(
    tmp_path: Path,
) -> None:
    out, err = str(tmp_path / "out"), str(tmp_path / "err")
    writer = ContainerIndex([out, err])
    for number, stream in enumerate((0, 0, 0, 1, 1, 0, 1)):
        writer.received(stream, number + 1, 100.0 + number / 1000)
    assert [size for _, size in read_index(out)] == [1, 3, 6]
    assert [size for _, size in read_index(err)] == [4, 5]
    writer.close()
    assert [size for _, size in read_index(err)] == [4, 5, 7]


def test_a_clock_that_is_set_back_does_not_change_the_order(tmp_path: Path) -> None:
    out, err = str(tmp_path / "out"), str(tmp_path / "err")
    writer = ContainerIndex([out, err])
    writer.received(0, 1, 2000.0)
    writer.received(1, 1, 1000.0)
    assert read_index(out)[0] < read_index(err)[0]


def test_the_index_of_a_long_run_stays_small(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    writer = ContainerIndex([path])
    for number in range(20_000):
        writer.received(0, number + 1, 10.0 * number)
    assert len(read_index(path)) <= 15_000


def test_an_index_of_changing_streams_has_a_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LARGEST_INDEX", 1600)
    out, err = str(tmp_path / "out"), str(tmp_path / "err")
    writer = ContainerIndex([out, err])
    for number in range(1000):
        writer.received(number % 2, number + 1, 100.0 + number / 10_000)
    assert len(read_index(out)) == 100


def test_an_index_that_was_cut_off_in_the_middle_of_an_entry_is_read_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    writer = ContainerIndex([str(path)])
    writer.received(0, 1, 100.0)
    writer.received(0, 2, 200.0)
    whole = Path(index.index_path(str(path))).read_bytes()
    Path(index.index_path(str(path))).write_bytes(whole[:-3])
    assert list(read_index(str(path))) == [(100.0, 1)]
