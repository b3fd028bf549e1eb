"""Go's durations, as Kubernetes writes them: `1h30m`, `90s`, `1.5h`, `300ms`.

Used by the checks of a Job, by the policies of the lifecycle and for options such as `--since`. Text that is no
duration raises ValueError with a message for the user, and text of any length is refused in bounded time.
"""

from __future__ import annotations

import re

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([-+]?)(0|(?:{_PART.pattern})+)")
LONGEST = 2**63 - 1
#: Longer text is not read: each duration of a Job is read, and a Job may have hundreds of thousands of bytes.
MAX_LENGTH = 64
# More digits do not fit into 64 bits; int() of very long text is refused by Python itself.
_MOST_DIGITS = 19


class DurationTooLong(ValueError):
    """The text is a duration, but above the 292 years that Go can represent.

    A ValueError of its own, because the checks of a Job report it in other words.
    """


def nanoseconds(text: str) -> int:
    """The duration in nanoseconds; ValueError says what is wrong, DurationTooLong that it is above `LONGEST`."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"`{text[:60]}…` has more than {MAX_LENGTH} characters")
    match = _WHOLE.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text[:60]}` is not a duration")
    sign, parts = match.group(1), match.group(2)
    total = 0
    for amount, unit in _PART.findall(parts):
        whole, _, fraction = amount.partition(".")
        whole, fraction, scale = whole.lstrip("0"), fraction[:_MOST_DIGITS], _UNITS[unit]
        total += int(whole or 0) * scale if len(whole) <= _MOST_DIGITS else LONGEST + 1
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
    if total > LONGEST:
        raise DurationTooLong(f"`{text[:60]}` is too long")
    return -total if sign == "-" else total


def seconds(text: str) -> float:
    return nanoseconds(text) / 1e9
