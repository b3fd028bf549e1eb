"""Reading files: an unreadable one is reported in one sentence with a hint."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vcjob.errors import SourceError
from vcjob.spec.source import MAX_BYTES, decode, read_text


def refused(path: object) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_text(path)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_a_file_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a: é\r\n", newline="")
    assert read_text(file) == (str(file), "a: é\r\n")
    assert read_text(str(file)) == (str(file), "a: é\r\n")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.yaml")
    assert (error.message, error.hint) == (f"{tmp_path}/none.yaml: no such file", "check the path")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.message == f"{tmp_path}: is a directory"
    assert error.hint == "give the path of a file"


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = refused(tmp_path / "file" / "job.yaml")
    assert error.message == f"'{tmp_path}/file/job.yaml': cannot be read: Not a directory"
    assert error.hint == "check the path"


@pytest.mark.parametrize(
    ("name", "reason"), [("a\x00b", "embedded null"), ("x" * 5000, "File name too long")]
)
def test_an_impossible_path_is_refused(name: str, reason: str) -> None:
    assert reason in refused(name).message


def test_a_device_is_refused() -> None:
    error = refused("/dev/zero")
    assert (error.message, error.hint) == ("/dev/zero: is a device", "give the path of a file")


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    error = refused(tmp_path / "x")
    assert (error.message, error.hint) == (
        f"{tmp_path}/x: permission denied",
        "check the permissions of the file",
    )


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"\x01\x00\x01")
    assert refused(file).message == f"{file}: is a binary file"


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("train.sh", b"python train.py\n", "is a shell script, not a Job file", "command: [bash, train.sh]"),
        ("train", b"#!/bin/sh\nkind: Job\n", "is a shell script, not a Job file", "command: [train]"),
        ("train", b"\x7fELF\x02\x00\x01", "is a program, not a Job file", "command: [train]"),
        ("train", b"#!/usr/bin/env python3\n", "is a Python script, and its name", "rename it"),
        (
            "train.ipynb",
            b'{"cells": []}',
            "is a notebook, not a Job file",
            "nbconvert --to script train.ipynb",
        ),
    ],
)
def test_a_program_in_place_of_a_job_file_is_answered_with_what_to_run(
    name: str,
    content: bytes,
    message: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    error = refused(name)
    assert error.message.startswith(f"{name}: {message}") and hint in (error.hint or "")


def test_an_address_is_not_downloaded() -> None:
    error = refused("https://example.com/job.yaml?a=1&b=2")
    assert error.message == "https://example.com/job.yaml?a=1&b=2: is an address, not a file"
    assert "curl -fsSL 'https://example.com/job.yaml?a=1&b=2' | vcjob run -" in (error.hint or "")


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "latin1.yaml"
    file.write_bytes(b"a: 1\nb: caf\xe9\n")
    assert refused(file).message.endswith("is not UTF-8 text (line 2)")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf16_is_refused_by_name_where_it_says_so(encoding: str) -> None:
    raw = "a: 1".encode(encoding)
    raw = raw if encoding == "utf-16" else (b"\xfe\xff" if encoding.endswith("be") else b"\xff\xfe") + raw
    with pytest.raises(SourceError, match="is UTF-16 text"):
        decode(raw, "f")


def test_a_utf8_byte_order_mark_is_taken_off() -> None:
    assert decode(b"\xef\xbb\xbfa: 1", "f") == "a: 1"


def test_fifty_megabytes_of_nonsense_are_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.truncate(50 * 1024 * 1024)
    error = refused(file)
    assert error.message.endswith("larger than 4 MiB")
    assert "right file" in (error.hint or "")


def test_the_largest_file_is_still_read() -> None:
    assert len(decode(b"a" * MAX_BYTES, "f")) == MAX_BYTES
    with pytest.raises(SourceError):
        decode(b"a" * (MAX_BYTES + 1), "f")


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a: 1")))
    assert read_text("-") == ("<stdin>", "a: 1")


def test_too_much_on_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b" " * (MAX_BYTES + 5))))
    assert refused("-").message == "<stdin>: larger than 4 MiB"
