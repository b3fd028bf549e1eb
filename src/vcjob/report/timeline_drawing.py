"""Draws a `Timeline` as text bars, as an SVG image and in Chrome's trace format.

Called by the methods of `Timeline`. Pure functions: they return text or data, and write nothing. Names from the job
are escaped in the image.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from vcjob.report.timeline import (
    BACKOFF,
    ENDING,
    IMAGE,
    IMPORTS,
    INIT,
    LABELS,
    MASTER,
    PREPARING,
    RUNNING,
    SCHEDULING,
    STARTING,
    WAITING,
    Span,
    Timeline,
)

#: The mark of each kind in a text bar, and its colour in an image.
_LOOK = {
    WAITING: ("·", "#d0d7de"),
    SCHEDULING: ("n", "#57a0d8"),
    IMAGE: ("p", "#39c5cf"),
    STARTING: ("s", "#e3b341"),
    INIT: ("i", "#a371f7"),
    MASTER: ("m", "#db6d28"),
    IMPORTS: ("░", "#bf8700"),
    PREPARING: ("▒", "#8ddb8c"),
    RUNNING: ("█", "#2da44e"),
    BACKOFF: ("~", "#cf222e"),
    ENDING: ("e", "#6e7781"),
}
_MIN_BAR, _MAX_BAR = 20, 120
_ROW, _LABEL, _CHART = 22, 200, 800


def text(timeline: Timeline, width: int) -> list[str]:
    """A legend and one bar per pod. In each column the kind that takes up most of its time is shown."""
    if not timeline.rows:
        return []
    label = max(len(row.name) for row in timeline.rows)
    columns = max(_MIN_BAR, min(_MAX_BAR, width - label - 3))
    used = timeline.totals
    legend = "  ".join(f"{mark} {LABELS[kind]}" for kind, (mark, _) in _LOOK.items() if kind in used)
    bars = [
        f"{row.name.ljust(label)}  {_bar(timeline, row.spans, columns)}".rstrip() for row in timeline.rows
    ]
    return [*bars, "", legend]


def _bar(timeline: Timeline, spans: tuple[Span, ...], columns: int) -> str:
    whole = timeline.end - timeline.start
    if whole <= 0:
        return ""
    covered = [(0.0, " ")] * columns
    for span in spans:
        first = (span.start - timeline.start) / whole * columns
        last = (span.end - timeline.start) / whole * columns
        for column in range(int(first), min(columns, int(last) + 1)):
            share = min(last, column + 1) - max(first, column)
            if share > covered[column][0]:
                covered[column] = (share, _LOOK[span.kind][0])
    return "".join(mark for _, mark in covered)


def svg(timeline: Timeline) -> str:
    """An image without scripts; a title on every bar says what it is and how long it took."""
    whole = max(timeline.end - timeline.start, 1e-9)
    height = _ROW * (len(timeline.rows) + 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL + _CHART + 20}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="8" y="16">{_xml(timeline.job)}: {_xml(timeline.summary)}</text>',
    ]
    for number, row in enumerate(timeline.rows, 1):
        top = number * _ROW + 4
        parts.append(f'<text x="8" y="{top + 14}">{_xml(row.name)}</text>')
        for span in row.spans:
            left = _LABEL + (span.start - timeline.start) / whole * _CHART
            wide = span.seconds / whole * _CHART
            title = (
                f"{LABELS[span.kind]} {span.detail}".strip()
                + f", {span.seconds:.1f}s, attempt {span.attempt}"
            )
            parts.append(
                f'<rect x="{left:.2f}" y="{top}" width="{wide:.2f}" height="{_ROW - 4}" '
                f"fill={quoteattr(_LOOK[span.kind][1])}><title>{_xml(title)}</title></rect>"
            )
    left, top = _LABEL, (len(timeline.rows) + 1) * _ROW + 10
    for kind in timeline.totals:
        parts.append(f'<rect x="{left}" y="{top}" width="12" height="12" fill="{_LOOK[kind][1]}"/>')
        parts.append(f'<text x="{left + 16}" y="{top + 11}">{_xml(LABELS[kind])}</text>')
        left += 40 + 7 * len(LABELS[kind])
    return "\n".join((*parts, "</svg>", ""))


def _xml(value: str) -> str:
    """Escaped, without the control characters that XML does not allow."""
    return escape("".join(c if c.isprintable() else "?" for c in value))


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """One thread per pod; times in microseconds since the job was created."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": timeline.job}}
    ]
    for number, row in enumerate(timeline.rows, 1):
        events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": row.name}})
        events += [
            {
                "name": LABELS[span.kind], "cat": "pod", "ph": "X", "pid": 1, "tid": number,
                "ts": round((span.start - timeline.start) * 1e6), "dur": round(span.seconds * 1e6),
                "args": {"attempt": span.attempt, "detail": span.detail},
            }
            for span in row.spans
        ]  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}
