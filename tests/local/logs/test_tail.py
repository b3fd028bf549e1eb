"""The end of a log, and when its traceback was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcjob.local.logs.index import ContainerIndex
from vcjob.local.logs.tail import merged, read_tail


def test_last_lines_are_bounded_and_progress_bars_show_their_last_state(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "\n" + "1%\r50%\r100%\nend\n")
    lines = read_tail(str(log), 3).lines
    assert lines[-2:] == ("100%", "end") and len(lines[0]) <= 64 * 1024
    assert read_tail(str(tmp_path / "none"), 3).lines == ()


def test_a_long_line_keeps_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        f"note\nTraceback (most recent call last):\nValueError: {'x' * 100_000}\n\tkeys: {'y' * 100_000}\n"
    )
    lines = read_tail(str(log), 200).lines
    assert [line[:11] for line in lines] == ["note", "Traceback (", "ValueError:", "\tkeys: yyyy"]
    assert sum(map(len, lines)) <= 64 * 1024
    log.write_text("old\n" * 100 + "\n".join(str(number) + "x" * 5000 for number in range(100)))
    lines = read_tail(str(log), 200).lines
    assert lines[-1].startswith("99x") and lines[0].startswith("84x"), "whole lines, the newest 64 KiB"
    assert sum(map(len, lines)) <= 64 * 1024


def test_no_more_of_a_progress_bar_is_read_than_may_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failed container is read by the supervisor, and a progress bar of days is one line of gigabytes."""
    log, read = tmp_path / "log", list[int]()
    log.write_text("start\n" + "\r 50%" * 1_000_000 + "\nValueError: x\n")
    pread = os.pread

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert read_tail(str(log), 200).lines == (" 50%", "ValueError: x")
    assert sum(read) <= 2 * 512 * 1024


def test_the_time_of_the_traceback_is_not_the_time_of_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "main.0.err"
    index = ContainerIndex([str(log)])
    text = ""
    for moment, line in ((10.0, "start"), (20.0, "Traceback (most recent call last):"), (30.0, "uploading")):
        text += f"{line}\n"
        log.write_text(text)
        index.received(0, len(text), moment)
    index.close()
    assert read_tail(str(log), 10).error_at == 20.0


def test_two_streams_are_merged_in_the_order_in_which_they_arrived(tmp_path: Path) -> None:
    logs = [tmp_path / "main.0.out", tmp_path / "main.0.err"]
    index = ContainerIndex([str(log) for log in logs])
    texts = ["", ""]
    arrived = [(0, "step 1\nstep 2\n"), (1, "warning\n"), (0, "step 3\n"), (1, "cannot go on\n"), (0, "end")]
    for moment, (stream, text) in enumerate(arrived):
        texts[stream] += text
        logs[stream].write_text(texts[stream])
        index.received(stream, len(texts[stream]), 10.0 + moment)
    output, errors = (read_tail(str(log), 10) for log in logs)
    expected = ("step 1", "step 2", "warning", "step 3", "cannot go on")
    assert merged(errors, output) == (*expected, "end"), "what the index does not cover yet is the newest"
    index.close()
    output, errors = (read_tail(str(log), 10) for log in logs)
    assert merged(errors, output) == (*expected, "end")
    assert merged(errors, output._replace(times=())) == (), "the order is not known"
