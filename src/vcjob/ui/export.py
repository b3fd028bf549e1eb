"""One job as one HTML file: its cause, charts, ranks, events, Job and last log lines, without script or a server.

`vcjob ui JOB --export FILE` writes it, and `Handle.show()` puts it into a notebook. Every text is escaped, and the
file's own policy forbids script and requests.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from vcjob.errors import VcjobError
from vcjob.report.logs import Chunk, LogFilter
from vcjob.sdk import yaml_text
from vcjob.sdk.handle import Handle
from vcjob.sdk.log_lines import chunks_of
from vcjob.ui import jobs
from vcjob.ui.diagnosing import Diagnosis
from vcjob.ui.history import History
from vcjob.ui.producers.log_stream import lines_of

#: Log lines of each rank in the file, and of all ranks together; with many ranks each has fewer.
TAIL, MAX_LINES, MIN_TAIL = 2000, 50_000, 20
MAX_CHARACTERS = 16 * 1024 * 1024
MAX_NOTES = 20
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_DARK = re.compile(r':root\[data-theme="dark"\] \{(.*?)\}', re.DOTALL)
#: The colours of phases, as in `phases.js`.
_LOOKS = {"Pending": "wait", "Running": "run", "Succeeded": "ok", "Failed": "bad"}
_EVENT = ("time", "type", "reason", "object", "message", "count")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def export(job: Handle, *, tail: int = TAIL, diagnosis: Diagnosis | None = None) -> str:
    """The file's text. Blocks while it reads the job and its logs. `diagnosis`: kept by a caller that shows it again."""
    found = jobs.detail(job, diagnosis or Diagnosis())
    summary = found["job"]
    failure = found["failure"] or {"culprit": {}, "victims": []}
    body = [
        f"<h1>{escape(job.name)} <span class='chip'>{escape(summary['phase'])}</span></h1>",
        f"<p class='dim'>{escape(job.namespace)} · created {_clock(job.created)} · restarts {summary['restarts']}</p>",
        *(f"<p class='dim'>{_plain(each)}</p>" for each in found["missing"]),
        *(_finding(finding, summary["phase"]) for finding in found["findings"]),
        _details("Last lines of the rank that failed first", "\n".join(lines), open_=True)
        if (lines := failure["culprit"].get("stderr", [])[-12:])
        else "",
        _charts(job, {pod.get("rank") for pod in found["pods"]}),
        _squares(found["pods"], failure["culprit"].get("pod", "")),
        _table(
            "Ranks",
            ("Rank", "Attempt", "Pod", "Phase", "Message"),
            (
                (pod.get("rank"), pod.get("attempt", 0), pod["name"], pod["phase"], pod.get("message"))
                for pod in found["pods"]
            ),
        ),
        _table(
            "Events",
            ("Time", "Type", "Reason", "Object", "Message", "Count"),
            ([event[part] for part in _EVENT] for event in found["events"]),
        ),
        _details("Job", yaml_text.to_yaml(job.to_dict())),
        _details(f"Logs (at most the last {tail} lines of each rank)", _log(job, tail, len(found["pods"]))),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(job.name)}</title><style>{_style()}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _style() -> str:
    """The page's style; without script the theme follows the browser's."""
    style = Path(__file__).with_name("static").joinpath("style.css").read_text(encoding="utf-8")
    dark = _DARK.search(style)
    return style + (f"@media (prefers-color-scheme:dark) {{ :root {{{dark[1]}}} }}" if dark else "")


def _charts(job: Handle, ranks: set[int | None]) -> str:
    history = History()
    with suppress(VcjobError):  # the logs below say why
        history.read(job, ranks)
    points = history.points()
    drawn = [
        _chart(title, [(at, float(value)) for at, value in enumerate(values) if value is not None])
        for title, values in (("Step", [each[1] for each in points]), ("Loss", [each[2] for each in points]))
    ]
    return f"<div class='charts'>{''.join(drawn)}</div>"


def _chart(title: str, points: list[tuple[int, float]]) -> str:
    if len(points) < 2:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    placed = " ".join(
        f"{300 * (x - points[0][0]) / (points[-1][0] - points[0][0]):.1f},{61 - 58 * (y - low) / ((high - low) or 1):.1f}"
        for x, y in points
    )
    return (
        f"<figure class='chart'><figcaption><b>{title}</b> {points[-1][1]:.4g} ({low:.4g} – {high:.4g})</figcaption>"
        f"<svg viewBox='0 0 300 64' preserveAspectRatio='none' role='img' aria-label='{title}'>"
        f"<polyline points='{placed}'/></svg></figure>"
    )


def _squares(pods: list[dict[str, Any]], culprit: str) -> str:
    """One square for each rank: its newest attempt, as the page shows it."""
    newest = {
        (pod["task"], pod["index"]): pod for pod in sorted(pods, key=lambda each: each.get("attempt", 0))
    }
    shown = (
        f"<li><button disabled class='{_LOOKS.get(pod['phase'], 'wait')}{' first' if pod['name'] == culprit else ''}'"
        f" title='{escape(pod['name'])}: {pod['phase']}'>{pod.get('rank', '·')}</button></li>"
        for pod in sorted(newest.values(), key=lambda each: (each.get("rank", 1 << 30), each["name"]))
    )
    return f"<ul class='ranks' aria-label='Ranks'>{''.join(shown)}</ul>"


def _finding(finding: dict[str, Any], phase: str) -> str:
    evidence = "\n".join(f"{each['source']}: {each['text']}" for each in finding.get("evidence", []))
    hint = f"<p>{escape(finding['hint'])}</p>" if finding.get("hint") else ""
    return (
        f"<section class='panel {'bad' if phase == 'Failed' else 'wait'}'>"
        f"<h2>{escape(finding['cause'])}</h2><p>{_plain(finding['message'])}</p>{hint}"
        f"<pre>{_plain(evidence)}</pre></section>"
    )


def _table(title: str, columns: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th scope='col'>{column}</th>" for column in columns)
    lines = (
        "<tr>"
        + "".join(f"<td class='message'>{_plain('' if cell is None else str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<h2>{title}</h2><div class='scroll'><table><tr>{head}</tr>{''.join(lines)}</table></div>"


def _details(title: str, text: str, *, open_: bool = False) -> str:
    return f"<details{' open' if open_ else ''}><summary>{escape(title)}</summary><pre>{_plain(text)}</pre></details>"


def _log(job: Handle, tail: int, pods: int) -> str:
    """The newest lines of every rank; what is left out or cannot be read is said in the first lines."""
    kept: deque[str] = deque()
    notes: dict[str, None] = {}
    size = dropped = 0
    share = min(tail, max(MIN_TAIL, MAX_LINES // max(1, pods)))
    try:
        for chunk in chunks_of(job.log_chunks(LogFilter(), tail=share, on_note=notes.setdefault)):
            for line in _lines(chunk):
                kept.append(line)
                size += len(line)
                while len(kept) > MAX_LINES or size > MAX_CHARACTERS:
                    size -= len(kept.popleft())
                    dropped += 1
    except VcjobError as error:
        notes.setdefault(f"not all logs can be read: {error.message}")
    if dropped:
        notes.setdefault(f"{dropped} older lines are left out; `vcjob logs {job.name}` shows them")
    return "\n".join([*(f"vcjob: {note}" for note in islice(notes, MAX_NOTES)), *kept])


def _lines(chunk: Chunk) -> Iterable[str]:
    return (f"{chunk.origin.prefix} {line[4]}" for line in lines_of(chunk))


def _plain(text: str) -> str:
    """Escaped, and without colours and other control characters of terminals."""
    return escape(_CONTROL.sub("", text))


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
