"""The time of an event, from whichever field has it."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.report.events import event_time

CREATED = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}}
FIRST = {"firstTimestamp": "2026-01-01T00:00:02Z"}
ONCE = {"eventTime": "2026-01-01T00:00:03.000000Z"}
SERIES = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:04.000000Z"}}
LAST = {"lastTimestamp": "2026-01-01T00:00:05Z"}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({**CREATED, **FIRST, **ONCE, **SERIES, **LAST}, "2026-01-01T00:00:05Z"),
        ({**CREATED, **FIRST, **ONCE, **SERIES, "lastTimestamp": None}, "2026-01-01T00:00:04.000000Z"),
        ({**CREATED, **FIRST, **ONCE, "series": None}, "2026-01-01T00:00:03.000000Z"),
        ({**CREATED, **FIRST}, "2026-01-01T00:00:02Z"),
        (CREATED, "2026-01-01T00:00:01Z"),
        ({}, None),
    ],
    ids=["last", "series", "once", "first", "created", "none"],
)
def test_the_time_of_an_event_is_that_of_its_last_occurrence(
    event: dict[str, Any], expected: str | None
) -> None:
    assert event_time(event) == expected
