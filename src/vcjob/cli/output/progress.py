"""The progress of a job in `status` and `list`: as text, and in documents as an annotation of the Job.

The handle reads the progress from the log of rank 0 or from the cluster. Progress is never an error: where it is
unknown, it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcjob.errors import VcjobError

if TYPE_CHECKING:
    from vcjob.lifecycle.status import Status
    from vcjob.report.progress import Progress
    from vcjob.sdk.handle import Handle


def progress_of_job(job: Handle, status: Status) -> Progress | None:
    """The progress of a job that runs; None where it does not run or nothing certain is known."""
    if str(status.phase) != "Running":
        return None
    try:
        return job.progress()
    except VcjobError:  # deleted or damaged meanwhile: the caller shows that
        return None


def with_progress(document: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
    """The Job with its progress as an annotation, in JSON."""
    if progress is None:
        return document
    import msgspec

    from vcjob.wellknown.annotations import PROGRESS

    metadata = document["metadata"]
    text = msgspec.json.encode(progress).decode()
    annotations = {**(metadata.get("annotations") or {}), PROGRESS: text}
    return {**document, "metadata": {**metadata, "annotations": annotations}}
