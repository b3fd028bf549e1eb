"""`vcjob status`: one job, why it is in its phase, and its ranks.

A job that is over is shown as at the end of `vcjob run` (`output.summary`), any other with its phase, progress and
first finding. With `-o json` or `-o yaml` it prints the Job with `pods` and `failure`.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option
from vcjob.errors import VcjobError
from vcjob.wellknown.annotations import MASTER_PORT

if TYPE_CHECKING:
    from vcjob.cli.output.style import Style
    from vcjob.sdk import Status
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Handle


@click.command("status")
@job_argument
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, output: str) -> None:
    """Show the phase of a job, the reason, and its ranks. JOB is a name, or on this machine also the uid of a run.

    With -o json or yaml, `status` has the `pods` with their ranks, and the `failure` of a job that failed.
    """
    from vcjob.cli.output.progress import progress_of_job, with_progress
    from vcjob.sdk.finding import find

    job = find(name, **where)
    if output != "table":
        from vcjob.cli.output.objects import write_object

        status, document = job.read()
        document = with_progress(document, progress_of_job(job, status))
        write_object({**document, "status": {**document.get("status", {}), **_details(job, status)}}, output)
        return
    from vcjob.cli.output.job_reference import job_reference
    from vcjob.cli.output.style import Style
    from vcjob.cli.output.summary import state_message, summary
    from vcjob.cli.output.tables import duration, painted, pod_table

    style = Style(sys.stdout)
    status = job.status()
    if status.over:
        lines = summary(job, status, style, job_reference(job, where))[1:]
    else:
        since = status.state.since
        age = "" if since is None else f" for {duration(time.time() - since)}"
        lines = [f"{style(job.name, 'bold')}: {painted(str(status.phase), style)}{age}"]
        if message := state_message(status):
            lines.append(f"  {style.clean(message)}")
        if progress := progress_of_job(job, status):
            lines.append(f"  {progress}")
        lines += _first_finding(job, message, style)
        if str(status.phase) == "Aborted" and status.suspended_by != "spec":
            lines.append(f"  suspended; continue with `vcjob resume {job_reference(job, where)}`")
        if port := status.resources.get(MASTER_PORT):
            lines.append(f"  using port {port} of 127.0.0.1 for MASTER_PORT")
        lines += ["", *(f"  {style.clean(line)}" for line in pod_table(job.pods()))]
    trouble = style.clean(job.trouble())
    if trouble and trouble not in "\n".join(lines):
        lines.insert(1, f"  {style(trouble, 'red')}")
    older = job.earlier_runs()
    if older:
        lines += ["", f"  earlier runs: {', '.join(f'{run.uid} ({run.phase})' for run in older[:5])}"]
    sys.stdout.write("\n".join(lines) + "\n")


def _details(job: Handle, status: Status) -> dict[str, object]:
    """For `-o json`: the pods with their ranks, and of a job that failed the report, in the form of the SDK's types."""
    import msgspec

    details: dict[str, object] = {}
    with suppress(VcjobError):  # a user of a cluster may be allowed to read Jobs but not pods
        details["pods"] = msgspec.to_builtins(job.pods())
        if status.over and str(status.phase) != "Completed":
            details["failure"] = msgspec.to_builtins(job.failure())
    return details


def _first_finding(job: Handle, message: str, style: Style) -> list[str]:
    """The first finding about a job that is not over, unless the message of its state says the same."""
    from vcjob.cli.output.summary import finding_lines

    first = next(iter(job.why()), None)
    if first is None or first.confidence == "low":
        return []
    if first.message == message:
        return [f"  hint: {style.clean(first.hint)}"] if first.hint else []
    return finding_lines(first.cause, first.message, first.hint, style)
