"""Answers taken apart as they come: whole, whatever the pieces; and what is no answer is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.kube.http.parser import Incoming

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = [b'{"type":"ADDED"}\n', b"\r\n", b'{"type":"BOOKMARK"}\n', b"x" * 300]


def in_chunks(contents: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(content), content) for content in contents) + end


def in_one(contents: list[bytes]) -> bytes:
    body = b"".join(contents)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def feed(incoming: Incoming, text: bytes, cuts: list[int]) -> list[bool]:
    """Whether the answer was whole after each of the pieces."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [incoming.feed(text[a:b]) for a, b in pairwise(places) if a < b]


@pytest.mark.parametrize("text", [in_chunks(EVENTS), in_one(EVENTS)], ids=["chunks", "length"])
def test_events_come_out_whole_wherever_the_network_cuts(text: bytes) -> None:
    for cut in range(1, len(text)):
        incoming = Incoming()
        assert feed(incoming, text, [cut]) == [False, True]
        assert b"".join(incoming.parts) == b"".join(EVENTS)
    incoming = Incoming()
    assert feed(incoming, text, list(range(len(text)))) == [False] * (len(text) - 1) + [True]
    assert b"".join(incoming.parts) == b"".join(EVENTS)


@given(
    contents=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=20),
    end=st.sampled_from([b"0\r\n\r\n", b"000;a=b\r\n\r\n", b"0\r\nTrailer: one\r\nAnother: two\r\n\r\n"]),
)
def test_any_chunks_in_any_pieces_are_the_same_text(
    contents: list[bytes], cuts: list[int], end: bytes
) -> None:
    incoming = Incoming()
    *before, last = feed(incoming, in_chunks(contents, end), cuts)
    assert last and not any(before)
    assert b"".join(incoming.parts) == b"".join(contents)
    assert all(incoming.parts), "nothing is not handed out"


def test_a_chunk_is_handed_out_before_it_is_whole() -> None:
    incoming = Incoming()
    incoming.feed(CHUNKED + b"5f5e100\r\n")  # a hundred million bytes
    for _ in range(3):
        assert incoming.feed(b"x" * 1000) is False
        assert [len(part) for part in incoming.parts] == [1000]
        incoming.parts.clear()
    assert incoming.rest == b""


def test_what_comes_after_the_answer_is_set_apart() -> None:
    for text in (in_chunks(EVENTS), in_one(EVENTS)):
        incoming = Incoming()
        assert incoming.feed(text + b"more") is True
        assert incoming.rest == b"more"
        assert b"".join(incoming.parts) == b"".join(EVENTS)


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 fine\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"event\r\n",
        CHUNKED + b"5\r\nhelloworld",
        CHUNKED + b"5;" + b"x" * 5000,
        CHUNKED + b"5;" + b"x" * 5000 + b"\r\nhello\r\n",
    ],
    ids=lambda text: repr(text[-25:]),
)
def test_what_is_no_http_is_refused_and_not_collected(text: bytes) -> None:
    for cuts in ([], list(range(0, len(text), 1000))):
        with pytest.raises(ValueError):
            feed(Incoming(), text, cuts)
