"""Reads the text of a Job from a file, standard input or a string.

Raises SourceError with the name of the source where it cannot be read as text at all.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from pathlib import Path as FilePath

from vcjob.errors import SourceError
from vcjob.spec.document import Document

MAX_BYTES = 4 * 1024 * 1024
_STDIN = "<stdin>"
#: How programs of Linux and macOS begin.
_EXECUTABLES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_SURROGATES = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def read_text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The name to show and the text of a file; `-` is standard input."""
    if str(path) == "-":
        return _STDIN, decode(sys.stdin.buffer.read(MAX_BYTES + 1), _STDIN)
    name = os.fspath(path)
    if name.endswith(".py"):
        raise SourceError(
            f"{name}: is a Python script, not a Job file",
            hint=f"run it with `vcjob run {name}`, or write a Job file for it with `vcjob init {name}`",
        )
    try:
        raw = _read(FilePath(name), name)
    except FileNotFoundError:
        raise no_such_file(name) from None
    except IsADirectoryError:
        raise SourceError(f"{name}: is a directory", hint="give the path of a file") from None
    except PermissionError:
        raise SourceError(f"{name}: permission denied", hint="check the permissions of the file") from None
    except (OSError, ValueError) as bad:
        reason = getattr(bad, "strerror", None) or str(bad)
        raise SourceError(f"{name!r}: cannot be read: {reason}", hint="check the path") from None
    refused = _program(name, raw)
    if refused is not None:
        raise refused
    return name, decode(raw, name)


def no_such_file(name: str) -> SourceError:
    """The error for a path of which there is no file; an address is not downloaded."""
    if name.startswith(("http://", "https://")):
        return SourceError(
            f"{name}: is an address, not a file",
            hint=f"download it first; a Job file may come from a pipe: `curl -fsSL {shlex.quote(name)} | vcjob run -`",
        )
    return SourceError(f"{name}: no such file", hint="check the path")


def _program(name: str, raw: bytes) -> SourceError | None:
    """The error for a program in place of a Job file, with what to run instead; None for any other file."""
    if name.endswith(".ipynb"):
        return SourceError(
            f"{name}: is a notebook, not a Job file",
            hint=f"save it as a script with `jupyter nbconvert --to script {shlex.quote(name)}` and run "
            f"{name.removesuffix('.ipynb')}.py, or call "
            "vcjob.run in the notebook",
        )
    first, _, _ = raw[:200].partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        return SourceError(
            f"{name}: is a Python script, and its name does not end in .py",
            hint="rename it, and run it again",
        )
    shell = first.startswith(b"#!") or name.endswith(".sh")
    if shell or raw.startswith(_EXECUTABLES):
        words = f"[{'bash, ' if name.endswith('.sh') else ''}{name}]"
        return SourceError(
            f"{name}: is a {'shell script' if shell else 'program'}, not a Job file",
            hint=f"write a Job file with `vcjob init`, and put `command: {words}` into it; or run the Python script that it "
            "starts: `vcjob run train.py`",
        )
    return None


def _read(path: FilePath, name: str) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise SourceError(f"{name}: is a device", hint="give the path of a file")
        return file.read(MAX_BYTES + 1)


def decode(raw: bytes, name: str) -> str:
    """Bytes as text: UTF-8, with or without a byte order mark."""
    if len(raw) > MAX_BYTES:
        raise SourceError(
            f"{name}: larger than {MAX_BYTES // 1024 // 1024} MiB",
            hint="a Job has a few kilobytes; check that this is the right file",
        )
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(f"{name}: is UTF-16 text", hint="save it as UTF-8")
    if b"\x00" in raw:
        raise SourceError(f"{name}: is a binary file", hint="a Job is YAML or JSON text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = raw.count(b"\n", 0, bad.start) + 1
        raise SourceError(f"{name}: is not UTF-8 text (line {line})", hint="save it as UTF-8") from None


def load_documents(text: str, name: str = "<text>") -> list[Document]:
    """The documents of YAML or JSON text. What is wrong with the text is in the `problems` of its document."""
    from vcjob.spec.yaml_reader import read_documents

    if len(text) > MAX_BYTES:
        raise SourceError(f"{name}: larger than {MAX_BYTES // 1024 // 1024} MiB", hint="split the text")
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        # JSON writes characters beyond U+FFFF as two escapes, YAML as one.
        text = _SURROGATES.sub(_joined, text)
    return read_documents(text, name)


def _joined(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08X}"
