"""The progress of a job on a cluster, in an annotation of the Job: written by whoever follows it, read by everybody.

`run` and `logs -f` see the lines of rank 0 and write what those show, at most every ten seconds. A user who may not
change the Job follows it all the same: then nothing is written. A progress that nobody has renewed for a while is not
shown, because nobody knows how far the job is now.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from vcjob.cluster.client.jobs import JobKey
from vcjob.errors import VcjobError
from vcjob.report.logs import Chunk
from vcjob.report.podstate import PodState
from vcjob.report.progress import LONGEST_LINE, Progress, TimedLine, progress_of
from vcjob.sdk.cluster.connection import ClusterConnection
from vcjob.wellknown.annotations import PROGRESS

#: Seconds between two writes, and for how long a written progress is shown.
WRITE_SECONDS, SHOWN_SECONDS = 10.0, 120.0
#: The clock of whoever wrote it may be ahead of ours by this much.
CLOCK_SKEW_SECONDS = 60.0
_LINES = 200


class WrittenProgress(Progress, frozen=True, omit_defaults=True):
    """A progress and when it was written (epoch seconds)."""

    at: float = 0.0


#: Made at import: msgspec crashes if two threads resolve the fields of a type at the same time.
_WRITTEN = msgspec.json.Decoder(WrittenProgress)


class ProgressWriter:
    """Collects the lines of rank 0 and writes the progress that they show. Used by the follower and by `logs -f`.

    The progress becomes an annotation of the Job, so that other users see it. After a write that failed, nothing is
    written any more.
    """

    def __init__(self, connection: ClusterConnection, key: JobKey) -> None:
        self._connection = connection
        self._key = key
        self._lines: deque[TimedLine] = deque(maxlen=_LINES)
        self._due = 0.0
        self._writing: Future[None] | None = None
        self._refused = False

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Take in new lines, and write if it is due. Never waits and never fails."""
        if self._refused:
            return
        now = time.time()
        for chunk in chunks:
            if chunk.origin.rank == 0 and chunk.origin.main:
                for line in chunk.data.decode(errors="replace").split("\n")[-_LINES:]:
                    last = line.rstrip("\r").rsplit("\r", 1)[-1]
                    self._lines.append(TimedLine(last[: LONGEST_LINE + 1], chunk.received or now))
        if now >= self._due and self._lines and self._is_written():
            self._due = now + WRITE_SECONDS
            found = progress_of(self._lines)
            if found is not None:
                text = msgspec.json.encode(WrittenProgress(**msgspec.structs.asdict(found), at=now)).decode()
                jobs = self._connection.jobs
                self._writing = self._connection.loop.start(jobs.annotate(self._key, PROGRESS, text))

    def _is_written(self) -> bool:
        """Whether the last write is over; after one that failed, nothing is written any more."""
        if self._writing is None:
            return True
        if not self._writing.done():
            return False
        try:
            self._writing.result()
        except VcjobError:
            self._refused = True
        return not self._refused


def written_progress(job: dict[str, Any], now: float) -> Progress | None:
    """What the annotation of a Job says; None where it is absent, old or not ours."""
    text = (job["metadata"].get("annotations") or {}).get(PROGRESS)
    if not text:
        return None
    try:
        written = _WRITTEN.decode(text)
    except msgspec.MsgspecError:
        return None
    if not -CLOCK_SKEW_SECONDS <= now - written.at <= SHOWN_SECONDS:
        return None
    return Progress(**{name: getattr(written, name) for name in Progress.__struct_fields__})


def step_rates(pods: Iterable[PodState], progress: Progress | None) -> dict[str, float]:
    """The steps per second of pods, by name. What a Job's annotation says is that of rank 0; of others nothing is known."""
    if progress is None or progress.rate is None:
        return {}
    return {pod.name: progress.rate for pod in pods if pod.rank == 0}
