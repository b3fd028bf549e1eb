"""Events as both backends return them: documents in the form of Kubernetes Events.

The CLI, the web page, the diagnosis and the cluster client sort and show them by the same time.
"""

from __future__ import annotations

from typing import Any


def event_time(event: dict[str, Any]) -> str | None:
    """When it happened last. An event that happened several times has `lastTimestamp` or, from newer clients, a series;
    one that happened once may have `eventTime` alone."""
    return (
        event.get("lastTimestamp")
        or (event.get("series") or {}).get("lastObservedTime")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or (event.get("metadata") or {}).get("creationTimestamp")
    )
