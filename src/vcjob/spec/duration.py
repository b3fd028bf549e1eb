"""Go's durations, as Kubernetes writes them: `1h30m`, `90s`, `1.5h`, `300ms`."""

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
_LARGEST = 2**63 - 1


def nanoseconds(text: str) -> int:
    """The duration in nanoseconds; ValueError says what is wrong."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a duration")
    sign, parts = match.group(1), match.group(2)
    total = 0
    for amount, unit in _PART.findall(parts):
        whole, _, fraction = amount.partition(".")
        scale = _UNITS[unit]
        total += int(whole or 0) * scale
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
    if total > _LARGEST:
        raise ValueError(f"`{text}` is too long")
    return -total if sign == "-" else total


def seconds(text: str) -> float:
    return nanoseconds(text) / 1e9
