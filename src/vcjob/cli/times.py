"""Times as people type them."""

from __future__ import annotations

import time

from vcjob.errors import UserError


def seconds_of(text: str) -> float:
    """`30`, `90s`, `1h30m`."""
    from vcjob.spec.duration import seconds

    try:
        value = float(text) if text.replace(".", "", 1).isdigit() else seconds(text)
    except ValueError as error:
        raise UserError(str(error), hint="write 30, 90s or 1h30m") from error
    if value < 0:
        raise UserError(f"`{text}` is a negative time")
    return value


def moment_of(text: str) -> float:
    """A time ago (`10m`) or a moment (`2026-02-03T10:00:00Z`), as epoch seconds."""
    if text[:4].isdigit() and "-" in text:
        from datetime import datetime

        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            raise UserError(
                f"`{text}` is no moment in time", hint="write 2026-02-03T10:00:00Z, or 10m"
            ) from error
    return time.time() - seconds_of(text)
