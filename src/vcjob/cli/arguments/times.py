"""Durations and points in time as users type them: `90s`, `7d`, `2026-02-03T10:00:00Z`.

`wait`, `logs` and `delete` read their options with it. UserError, with examples, for anything else.
"""

from __future__ import annotations

import time

from vcjob.errors import UserError


def seconds_of(text: str) -> float:
    """`30`, `90s`, `1h30m`, `7d`."""
    from vcjob.spec.duration import seconds

    days, has_days, rest = text.partition("d")
    try:
        if has_days:
            value = float(days) * 86_400 + (seconds(rest) if rest else 0.0)
        else:
            value = float(text) if text.replace(".", "", 1).isdigit() else seconds(text)
    except ValueError as error:
        raise UserError(f"`{text}` is not a duration", hint="write 30, 90s, 1h30m or 7d") from error
    if value < 0:
        raise UserError(f"`{text}` is a negative time")
    return value


def moment_of(text: str) -> float:
    """A duration before now (`10m`) or a point in time (`2026-02-03T10:00:00Z`), as epoch seconds."""
    if text[:4].isdigit() and "-" in text:
        from datetime import datetime

        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            raise UserError(
                f"`{text}` is not a point in time", hint="write 2026-02-03T10:00:00Z, or 10m"
            ) from error
    return time.time() - seconds_of(text)
