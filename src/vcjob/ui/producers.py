"""What streams send: changes of the job list, changes of one job, and log lines.

Each is a generator that runs in a thread of its own (see `streams`) and keeps what it sent last, so that a page of
a thousand ranks gets the ranks that changed and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vcjob.report.logs import Chunk, LogFilter
from vcjob.sdk.backend import Backend
from vcjob.ui import jobs
from vcjob.ui.streams import Produced

LIST_SECONDS = 2.0
JOB_SECONDS = 1.0
#: Lines in one message, and the longest line that is sent; the download has the whole line.
MAX_LINES, MAX_LINE = 1000, 16 * 1024


def job_list(backend: Backend, namespace: str | None) -> Iterator[Produced]:
    sent: list[dict[str, Any]] | None = None
    while True:
        every = namespace is None
        found = [jobs.summary(job) for job in backend.list(namespace, all_namespaces=every)]
        if found != sent:
            sent = found
            yield "jobs", found
        yield LIST_SECONDS


def one_job(backend: Backend, namespace: str, name: str) -> Iterator[Produced]:
    """First everything, then the parts that changed; of pods only those that changed or are gone."""
    sent: dict[str, Any] = {}
    pods: dict[str, dict[str, Any]] = {}
    while True:
        found = jobs.detail(backend.find(name, namespace))
        now = {pod["uid"]: pod for pod in found.pop("pods")}
        changed = [pod for uid, pod in now.items() if pods.get(uid) != pod]
        gone = [uid for uid in pods if uid not in now]
        if changed or gone or not sent:
            yield "pods", {"changed": changed, "gone": gone, "all": not sent}
        for part, value in found.items():
            if part not in sent or sent[part] != value:
                yield part, value
        sent, pods = found, now
        yield JOB_SECONDS


def log_lines(
    backend: Backend, namespace: str, name: str, chosen: LogFilter, *, tail: int | None
) -> Iterator[Produced]:
    for step in backend.find(name, namespace).log_chunks(chosen, follow=True, tail=tail):
        if isinstance(step, float):
            yield step
            continue
        lines = [line for chunk in step for line in lines_of(chunk)]
        for start in range(0, len(lines), MAX_LINES):
            yield "lines", lines[start : start + MAX_LINES]
    yield "end", {}


def lines_of(chunk: Chunk) -> Iterator[list[Any]]:
    """[prefix, stream, text]; a progress bar is its last segment, a very long line is cut."""
    of = chunk.origin
    for raw in chunk.data.split(b"\n")[:-1]:
        text = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1]
        cut = text[:MAX_LINE].decode(errors="replace")
        more = f" … ({len(text) - MAX_LINE} bytes more)" if len(text) > MAX_LINE else ""
        yield [of.rank, f"{of.task}-{of.index}", of.container, of.stream, cut + more]
