"""Text that others wrote, on a terminal: nothing in it can act on the terminal or pass for another rank's line."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vcjob as sdk
from tests.command_line import on_terminal
from tests.local.conftest import PATIENCE, job, task
from vcjob.cli.output.log_text import log_text
from vcjob.cli.output.style import Style
from vcjob.cli.output.terminal_text import escape, escape_log_line, escape_log_lines
from vcjob.report.logs import Chunk, LogOrigin

ORIGIN = LogOrigin(rank=1, task="worker", index=0, attempt=0, container="main", main=True, restart=0)
ALLOWED = {"\t"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def acts_on_a_terminal(text: str) -> bool:
    return any((ord(c) < 0x20 and c not in ALLOWED) or 0x7F <= ord(c) <= 0x9F for c in text)


@given(st.text())
def test_no_control_character_survives_in_a_value(text: str) -> None:
    assert not acts_on_a_terminal(escape(text))


@given(st.text(alphabet=st.sampled_from("ab \x1b[]0;12mKJH\r\x07\x9b\x08\t")))
def test_of_a_log_line_only_colours_survive_and_they_end_with_it(line: str) -> None:
    shown = escape_log_line(line)
    plain = re.sub("\x1b\\[[0-9;:]*m", "", shown)
    assert not acts_on_a_terminal(plain)
    assert "\x1b" not in shown or shown.endswith("\x1b[0m")


@given(st.binary())
def test_any_bytes_are_printed_without_an_error(data: bytes) -> None:
    lines = escape_log_lines(data)
    assert lines.count(b"\n") == data.count(b"\n")


def test_control_characters_become_visible() -> None:
    assert escape("a\x1b[2Jb\x07\x7f\x9b\tc") == "a^[[2Jb^G^?\\x9b\tc"
    assert escape("one\r\ntwo\nthree") == "one two three"
    assert escape("naïve 训练") == "naïve 训练"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  1%\r 50%\r100%", "100%"),  # a progress bar
        ("100%\r", "100%"),  # and a line break of another system
        ("done\r[0 master-0] all is well", "[0 master-0] all is well"),
        ("\x1b[1mbold", "\x1b[1mbold\x1b[0m"),
        ("\x1b[2J\x1b[Hgone", "^[[2J^[[Hgone"),
        ("\x1b[A\x1b[K 50%", " 50%"),  # what nested progress bars use
        ("\x1b]0;title\x07", "^[]0;title^G"),
    ],
)
def test_a_log_line_is_shown_as_it_would_look_in_the_end(line: str, shown: str) -> None:
    assert escape_log_line(line) == shown


def test_a_log_line_cannot_pass_for_another_rank_s() -> None:
    chunk = Chunk(ORIGIN, b"x\r[0 master-0] loss 0.1\n")
    assert log_text(chunk, Style(Terminal())).endswith(b" [0 master-0] loss 0.1\n")
    assert b"[1 worker-0]" in log_text(chunk, Style(Terminal()))


def test_files_and_pipes_get_the_bytes_as_they_are() -> None:
    raw = b"\x1b[2J\r50%\xff\x00\n"
    assert log_text(Chunk(ORIGIN, raw), Style(io.StringIO()), prefix=False) == raw
    assert Style(io.StringIO()).clean("\x1b[2J") == "\x1b[2J"


def test_a_pipe_gets_the_last_state_of_a_progress_bar_behind_the_rank() -> None:
    data = b"10%\r20%\r30%\nplain\nwindows\r\n\r40%\r50%\r\n\r\n"
    assert log_text(Chunk(ORIGIN, data), Style(io.StringIO())).split(b"\n")[:-1] == [
        b"[1 worker-0] 30%", b"[1 worker-0] plain", b"[1 worker-0] windows", b"[1 worker-0] 50%", b"[1 worker-0] ",
    ]  # fmt: skip


def test_no_color_takes_the_colours_from_rank_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = Chunk(ORIGIN, b"hello\n")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert log_text(chunk, Style(Terminal())) == b"\x1b[32m[1 worker-0]\x1b[0m hello\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert log_text(chunk, Style(Terminal())) == b"[1 worker-0] hello\n"


def test_plain_text_is_not_copied() -> None:
    data = b"step 1\tloss 0.5\n" * 1000
    assert escape_log_lines(data) is data


HOSTILE = "printf '\\033]0;owned\\007\\033[2J\\033[1mloud\\n' >&2; exit 3"


@pytest.mark.parametrize("words", [("status", "job"), ("logs", "job"), ("events", "job"), ("list",)])
def test_no_verb_passes_a_rank_s_control_sequences_to_the_terminal(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path / "home"))
    handle = sdk.run(job(task("a", HOSTILE)), cwd=tmp_path)
    handle.wait(PATIENCE)
    _, shown = on_terminal(tmp_path, *words)
    assert "\x1b]" not in shown and "\x1b[2J" not in shown and "\x07" not in shown
    if words[0] == "logs":
        assert "^[]0;owned^G^[[2J\x1b[1mloud\x1b[0m" in shown


def test_the_live_view_passes_no_control_sequence_of_a_rank_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text(sdk.to_yaml(job(task("a", HOSTILE))))
    _, shown = on_terminal(tmp_path, "run", "job.yaml")
    assert "\x1b]0;" not in shown and "\x1b[2J" not in shown


def test_json_keeps_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path / "home"))
    sdk.run(job(task("a", "printf '\\033[2Jx\\n'")), cwd=tmp_path).wait(PATIENCE)
    _, shown = on_terminal(tmp_path, "logs", "job", "-o", "json")
    assert json.loads(shown)["text"] == "\x1b[2Jx"
