"""One job as one HTML file: its cause, ranks, events, Job and last log lines, without script and without a server.

`vcjob ui JOB --export FILE` writes it. Every text is escaped, and the file's own policy forbids script and requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from vcjob.report.logs import LogFilter
from vcjob.sdk import yaml_text
from vcjob.sdk.handle import Handle
from vcjob.ui import jobs
from vcjob.ui.producers import lines_of

#: Log lines of each rank in the file.
TAIL = 2000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def export(job: Handle) -> str:
    """The file's text. Blocks while it reads the job and its logs."""
    found = jobs.detail(job)
    style = Path(__file__).with_name("static").joinpath("style.css").read_text(encoding="utf-8")
    summary = found["job"]
    body = [
        f"<h1>{escape(job.name)} <span class='chip'>{escape(summary['phase'])}</span></h1>",
        f"<p class='dim'>{escape(job.namespace)} · created {_clock(job.created)} · restarts {summary['restarts']}</p>",
        *(_finding(finding) for finding in found["findings"]),
        _table(
            "Ranks",
            ("Rank", "Pod", "Phase", "Message"),
            ((pod.get("rank"), pod["name"], pod["phase"], pod.get("message")) for pod in found["pods"]),
        ),
        _table(
            "Events",
            ("Time", "Type", "Reason", "Message"),
            ((event["time"], event["type"], event["reason"], event["message"]) for event in found["events"]),
        ),
        _details("Job", yaml_text.to_yaml(job.to_dict())),
        _details(f"Logs (the last {TAIL} lines of each rank)", "\n".join(_log(job))),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(job.name)}</title><style>{style}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _finding(finding: dict[str, Any]) -> str:
    evidence = "\n".join(f"{each['source']}: {each['text']}" for each in finding.get("evidence", []))
    hint = f"<p>{escape(finding['hint'])}</p>" if finding.get("hint") else ""
    return (
        f"<section class='panel bad'><h2>{escape(finding['cause'])}</h2><p>{escape(finding['message'])}</p>{hint}"
        f"<pre>{escape(evidence)}</pre></section>"
    )


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    head = "".join(f"<th scope='col'>{column}</th>" for column in columns)
    lines = (
        "<tr>"
        + "".join(f"<td class='message'>{escape('' if cell is None else str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<h2>{title}</h2><div class='scroll'><table><tr>{head}</tr>{''.join(lines)}</table></div>"


def _details(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _log(job: Handle) -> Iterable[str]:
    for step in job.log_chunks(LogFilter(), tail=TAIL):
        for chunk in step if isinstance(step, list) else ():
            for _, _, _, _, text in lines_of(chunk):
                yield f"{chunk.origin.prefix} {text}"


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
