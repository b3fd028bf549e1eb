"""Feeds damaged HTTP responses to the response parser of the Kubernetes client.

Four kinds of cases: valid responses cut into random pieces (must give the same body), valid responses that end
early (must never be complete), responses with one known fault (must be rejected) and random damage (any outcome,
but always the same however the bytes are cut, and no exception except ProtocolError).
A failure prints the case; `--seed` repeats a run.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from bench.fuzz.command_line import fuzz_main
from vcjob.kube.http.parser import ProtocolError, ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
#: A response with one fault, and a part of the message that names the fault.
MALFORMED: list[tuple[bytes, str]] = [
    (OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "Duplicate Content-Length"),
    (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "Duplicate Content-Length"),
    (OK + b"Content-Length: 1_0\r\n\r\nhellohello", "Invalid character in Content-Length"),
    (OK + b"Content-Length: +5\r\n\r\nhello", "Invalid character in Content-Length"),
    (OK + b"Content-Length: -1\r\n\r\nhello", "Invalid character in Content-Length"),
    (OK + b"Content-Length: 0x5\r\n\r\nhello", "Invalid character in Content-Length"),
    (OK + b"Content-Length: 5, 5\r\n\r\nhello", "Invalid character in Content-Length"),
    (OK + b"Content-Length: many\r\n\r\nhello", "Invalid character in Content-Length"),
    (OK + b"Content-Length:\r\n\r\nhello", "Empty Content-Length"),
    (OK + b"Content-Length: 99999999999999999999\r\n\r\n", "Content-Length overflow"),
    (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "can't be present with"),
    (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "can't be present with"),
    (OK + b"Transfer-Encoding: gzip\r\n\r\nhello", "unsupported Transfer-Encoding"),
    (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "unsupported Transfer-Encoding"),
    (OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "unsupported Transfer-Encoding"),
    (OK + b"Transfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "unsupported Transfer-Encoding"),
    (OK + b"Content-Length : 5\r\n\r\nhello", "Invalid header field char"),
    (OK + b"Content-Length: 5\nX: y\r\n\r\nhello", "Missing expected CR"),
    (OK + b"X: y\r\n folded\r\nContent-Length: 0\r\n\r\n", "Unexpected whitespace"),
    (OK + b"no header\r\n\r\n", "Invalid header token"),
    (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "Missing expected CR"),
    (b"HTTP/1.1 fine\r\n\r\n", "Invalid status code"),
    (b"HTTP/1.1 2000 OK\r\n\r\n", "Invalid response status"),
    (b"HTTP/1.1 099 OK\r\n\r\n", "unexpected status 99"),
    (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "unexpected status 101"),
    (b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", "unsupported version 2.0"),
    (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "Expected HTTP/"),
    (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"1_0\r\nhellohellohelloh\r\n0\r\n\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"\r\nhello\r\n0\r\n\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"event\r\n", "Invalid character in chunk size"),
    (CHUNKED + b"5\nhello\n0\n\n", "Missing expected CR after chunk size"),
    (CHUNKED + b"5\r\nhelloworld\r\n", "Expected LF after chunk data"),
    (CHUNKED + b"10000000000000000000\r\nhello\r\n", "Chunk size overflow"),
]  # fmt: skip
TOKENS = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b":", b";", b",", b"0", b"5", b"f", b"0x", b"+", b"-", b"_", b"HTTP/1.1 ",
    b"HTTP/1.0 200 OK\r\n", b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"\xff", b"204", b"101",
]  # fmt: skip
Outcome = tuple[str, int, bytes]


def valid_response(chance: random.Random) -> tuple[bytes, bytes, bool]:
    """A response, its body, and whether the response says where it ends."""
    contents = [chance.randbytes(chance.randrange(1, 60)) for _ in range(chance.randrange(6))]
    body = b"".join(contents)
    text = chance.choice(
        [b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"]
    )
    text += chance.choice([b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 429 Busy\r\n", b"HTTP/1.0 500 \r\n"])
    for name in (b"Date", b"Audit-Id", b"Warning", b"Retry-After", b"connection"):
        if chance.randrange(2):
            text += name + chance.choice([b":", b": ", b":\t"]) + b"v" * chance.randrange(40) + b"\r\n"
    framing = chance.randrange(3)
    if framing == 0:
        return text + b"\r\n" + body, body, False
    if framing == 1:
        return text + b"content-length: %d\r\n\r\n%b" % (len(body), body), body, True
    chunks = b"".join(
        b"%0*x%b\r\n%b\r\n" % (chance.randrange(1, 4), len(part), chance.choice([b"", b";a=b"]), part)
        for part in contents
    )
    end = chance.choice([b"0\r\n\r\n", b"00\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n"])
    return text + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + end, body, True


def damage(chance: random.Random, text: bytes) -> bytes:
    raw = bytearray(text)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(raw) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            raw[place : place + 1] = chance.randbytes(1)
        elif kind == 1:
            del raw[place : place + chance.randrange(1, 20)]
        elif kind == 2:
            raw[place:place] = chance.choice(TOKENS)
        else:
            start = chance.randrange(len(raw) + 1)
            raw[place:place] = raw[start : start + chance.randrange(40)]
    return bytes(raw)


def pieces(chance: random.Random, text: bytes) -> list[bytes]:
    size = chance.choice([1, 2, 7, 30, 200])
    cut, start = [], 0
    while start < len(text):
        end = start + chance.randrange(1, size + 1)
        cut.append(text[start:end])
        start = end
    return cut


def parse(parts: list[bytes]) -> Outcome:
    """What the parser makes of the bytes and of the end of the connection: outcome, status, body."""
    parser = ResponseParser()
    try:
        for part in parts:
            if parser.feed(part):
                break
        outcome = "complete" if parser.end() else "incomplete"
    except ProtocolError as error:
        assert str(error), "no reason"
        return "rejected", 0, b""
    return outcome, parser.status, b"".join(parser.body)


def check(chance: random.Random, number: int) -> str:
    """Run one case; AssertionError where the parser is wrong."""
    text, body, framed = valid_response(chance)
    kind = number % 4
    if kind == 0:
        outcome, _, found = parse(pieces(chance, text))
        assert (outcome, found) == ("complete", body), text
    elif kind == 1:
        cut = chance.randrange(len(text) if framed else len(text) - len(body))
        outcome, _, found = parse(pieces(chance, text[:cut]))
        assert outcome == "incomplete", text[:cut]
        assert body.startswith(found), text[:cut]
    elif kind == 2:
        text, _ = chance.choice(MALFORMED)
        outcome, _, _ = parse(pieces(chance, text))
        assert outcome == "rejected", text
    else:
        text = damage(chance, text)
        whole = parse([text])
        assert parse(pieces(chance, text)) == whole, text
        assert len(whole[2]) <= len(text), text
        outcome = whole[0]
    return outcome


def run(count: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        try:
            outcomes[check(chance, number)] += 1
        except Exception:
            print(f"case {number} of seed {seed} failed", file=sys.stderr)
            raise
    return outcomes


def main() -> int:
    return fuzz_main("fuzz.http", __doc__, run)


if __name__ == "__main__":
    sys.exit(main())
