"""HTTP responses are read completely, however they are cut into pieces, and malformed ones are rejected."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fuzz import http as fuzz_http
from vcjob.kube.http.parser import MAX_OVERHEAD, ProtocolError, ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EVENTS = [b'{"type":"ADDED"}\n', b"\r\n", b'{"type":"BOOKMARK"}\n', b"x" * 300]


def with_chunks(contents: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(content), content) for content in contents) + end


def with_length(contents: list[bytes]) -> bytes:
    body = b"".join(contents)
    return OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def feed(parser: ResponseParser, text: bytes, cuts: list[int]) -> list[bool]:
    """Whether the response was complete after each of the pieces."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [parser.feed(text[a:b]) for a, b in pairwise(places) if a < b]


@pytest.mark.parametrize("text", [with_chunks(EVENTS), with_length(EVENTS)], ids=["chunks", "length"])
def test_a_body_is_complete_wherever_the_network_cuts(text: bytes) -> None:
    for cut in range(1, len(text)):
        parser = ResponseParser()
        assert feed(parser, text, [cut]) == [False, True]
        assert b"".join(parser.body) == b"".join(EVENTS)
    parser = ResponseParser()
    assert feed(parser, text, list(range(len(text)))) == [False] * (len(text) - 1) + [True]
    assert b"".join(parser.body) == b"".join(EVENTS)


@given(
    contents=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=20),
    end=st.sampled_from([b"0\r\n\r\n", b"000;a=b\r\n\r\n", b"0\r\nTrailer: one\r\nWarning: two\r\n\r\n"]),
)
def test_any_chunks_in_any_pieces_give_the_same_body(
    contents: list[bytes], cuts: list[int], end: bytes
) -> None:
    parser = ResponseParser()
    *before, last = feed(parser, with_chunks(contents, end), cuts)
    assert last and not any(before)
    assert b"".join(parser.body) == b"".join(contents)
    assert all(parser.body), "no empty piece"
    assert parser.warnings == [], "a trailer is not a header"


def test_part_of_a_chunk_is_handed_out_before_the_chunk_is_complete() -> None:
    parser = ResponseParser()
    parser.feed(CHUNKED + b"5f5e100\r\n")  # a hundred million bytes
    for _ in range(3):
        assert parser.feed(b"x" * 1000) is False
        assert [len(part) for part in parser.body] == [1000]
        parser.body.clear()


def test_one_parser_reads_the_responses_of_a_connection_one_after_the_other() -> None:
    parser = ResponseParser()
    for number in range(3):
        assert parser.feed(OK + b"Warning: w%d\r\nContent-Length: 1\r\n\r\n%d" % (number, number))
        assert (parser.status, parser.body, parser.warnings, parser.keep_alive) == (
            200, [b"%d" % number], [f"w{number}"], True,
        )  # fmt: skip
        parser.reset()


@pytest.mark.parametrize("extra", [b"more", OK, with_length([b"another"]), b"\x00"])
def test_bytes_after_a_response_are_no_part_of_it_and_end_the_connection(extra: bytes) -> None:
    for text in (with_chunks(EVENTS), with_length(EVENTS)):
        parser = ResponseParser()
        assert parser.feed(text + extra) is True
        assert not parser.keep_alive
        assert b"".join(parser.body) == b"".join(EVENTS)


def test_an_interim_response_leaves_nothing_behind() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nWarning: early\r\nRetry-After: 9\r\nContent-Length: 4\r\n\r\n"
    parser = ResponseParser()
    assert parser.feed(interim * 2 + OK + b"\r\nbody") is False
    assert (parser.status, parser.warnings, parser.retry_after) == (200, [], None)
    assert parser.end() is True, "the 4 of the interim response is not the length of this one"
    assert parser.body == [b"body"]


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
    ],
)
def test_whether_the_connection_stays_open(head: bytes, keep_alive: bool) -> None:
    parser = ResponseParser()
    assert parser.feed(head + b"Content-Length: 2\r\n\r\nok") is True
    assert parser.keep_alive is keep_alive


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(status: int) -> None:
    parser = ResponseParser()
    assert parser.feed(b"HTTP/1.1 %d X\r\n\r\n" % status) is True
    assert parser.body == []


@pytest.mark.parametrize(("text", "reason"), fuzz_http.MALFORMED, ids=lambda value: repr(value)[-40:])
def test_a_malformed_response_is_rejected_with_the_reason_wherever_it_is_cut(
    text: bytes, reason: str
) -> None:
    for cut in range(len(text)):
        with pytest.raises(ProtocolError, match=reason):
            feed(ResponseParser(), text, [cut])
    with pytest.raises(ProtocolError, match=reason):
        feed(ResponseParser(), text, list(range(len(text))))


@pytest.mark.parametrize(
    "text", [with_chunks(EVENTS), with_length(EVENTS), OK + b"Content-Length: 0\r\n\r\n", CHUNKED + b"0\r\n\r\n"]
)  # fmt: skip
def test_a_response_that_ends_early_is_never_complete(text: bytes) -> None:
    for cut in range(len(text)):
        parser = ResponseParser()
        assert parser.feed(text[:cut]) is False
        assert parser.end() is False


def test_a_body_without_a_length_ends_with_the_connection_but_its_headers_do_not() -> None:
    text = OK + b"Date: now\r\n\r\n"
    for cut in range(len(text)):
        parser = ResponseParser()
        assert parser.feed(text[:cut]) is False
        assert parser.end() is False
    parser = ResponseParser()
    assert (parser.feed(text + b"all"), parser.end()) == (False, True)
    assert parser.body == [b"all"]


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (OK + b"X: ", b"x" * 1000),
        (OK, b"X: " + b"x" * 1000 + b"\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
        (CHUNKED + b"5;", b"x" * 1000),
        (CHUNKED + b"0\r\nX: ", b"x" * 1000),
    ],
    ids=["one header", "headers", "interim responses", "chunk extension", "trailer"],
)
def test_endless_headers_are_rejected_and_not_collected(head: bytes, piece: bytes) -> None:
    parser = ResponseParser()
    parser.feed(head)
    with pytest.raises(ProtocolError, match="headers too long"):
        for _ in range(MAX_OVERHEAD // len(piece) + 1):
            parser.feed(piece)


def test_a_sample_of_the_fuzzed_responses() -> None:
    outcomes = fuzz_http.run(2000, seed=1)
    assert min(outcomes["complete"], outcomes["incomplete"], outcomes["rejected"]) > 100
