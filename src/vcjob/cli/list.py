"""`vcjob list`: the jobs of this machine, or of a cluster.

The SDK lists the handles, and each is read once. A job that was deleted meanwhile is left out; a damaged run is
listed with a warning.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from vcjob.cli.arguments.numbers import WholeNumber
from vcjob.cli.arguments.options import backend_options, output_option
from vcjob.errors import NoSuchJob, StoreError

if TYPE_CHECKING:
    from vcjob.lifecycle.status import Status
    from vcjob.report.progress import Progress
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Handle

#: A job, its status and its document; a damaged one has neither.
_Listed: TypeAlias = "tuple[Handle, Status | None, dict[str, Any] | None]"
_SHOWN = 50
_HEADINGS: tuple[str, ...] = ("NAME", "PHASE", "PODS", "RESTARTS", "DURATION", "AGE", "NAMESPACE")


@click.command("list")
@backend_options("Only jobs of this namespace; on a cluster the context's own is the default.")
@click.option("-A", "--all-namespaces", is_flag=True, help="On a cluster: the jobs of all namespaces.")
@click.option("--running", is_flag=True, help="Only jobs that are not over.")
@click.option(
    "--phase", "phases", metavar="PHASE", multiple=True, help="Only jobs in this phase (repeatable)."
)
@click.option(
    "-l", "--selector", metavar="LABELS", help="Only jobs with these labels: team=vision,tier!=test."
)
@click.option(
    "--limit",
    type=WholeNumber(min=0),
    help=f"Show only this many of the newest jobs; 0 for all.  [default: {_SHOWN} in a table, else all]",
)
@output_option(("table", "json", "yaml"))
def command(
    *,
    where: Where,
    all_namespaces: bool,
    running: bool,
    phases: tuple[str, ...],
    selector: str | None,
    limit: int | None,
    output: str,
) -> None:
    """Show the jobs of this machine or of a cluster, running and ended, the newest last.

    PODS counts the pods that run or have succeeded. A job that is complete ends the pods that it no longer needs, so
    there all count that have not failed.
    """
    from vcjob.sdk.finding import jobs

    found = select(jobs(**where, all_namespaces=all_namespaces), running, phases, selector)
    if limit is None:
        limit = _SHOWN if output == "table" else 0
    shown = found[-limit:] if limit else found
    if output == "table":
        _show_table(shown, older=len(found) - len(shown))
        return
    from vcjob.cli.output.objects import as_list, write_object
    from vcjob.cli.output.progress import with_progress

    documents = [
        with_progress(document, _progress(job, status))
        for job, status, document in shown
        if document is not None
    ]
    write_object(as_list(documents), output)


def select(jobs: list[Handle], running: bool, phases: tuple[str, ...], selector: str | None) -> list[_Listed]:
    """The jobs that the options ask for, each as it was read once."""
    from vcjob.cli.arguments.selectors import label_selector

    wanted = {phase.lower() for phase in phases}
    has_labels = label_selector(selector) if selector else None
    found: list[_Listed] = []
    for job in jobs:
        try:
            status, document = job.read()
        except NoSuchJob:  # deleted since it was listed
            continue
        except StoreError as error:
            hint = f"  hint: {error.hint}\n" if error.hint else ""
            sys.stderr.write(f"warning: {error.message}\n{hint}")
            found.append((job, None, None))
            continue
        if (running and status.over) or (wanted and str(status.phase).lower() not in wanted):
            continue
        if has_labels is None or has_labels(document["metadata"].get("labels") or {}):
            found.append((job, status, document))
    return found


def _show_table(jobs: list[_Listed], older: int) -> None:
    from vcjob.cli.output.style import Style
    from vcjob.cli.output.tables import painted, table

    style = Style(sys.stdout)
    rows = []
    for job, status, _ in jobs:
        with suppress(NoSuchJob):
            cells = (*_row(job, status), _short(_progress(job, status)))
            rows.append(tuple(style.clean(cell) for cell in cells))
    headings = (*_HEADINGS, "PROGRESS")
    if all(row[-1] == "-" for row in rows):  # no column for what nobody reports
        headings, rows = _HEADINGS, [row[:-1] for row in rows]
    for place, line in enumerate(table(headings, rows)):
        phase = rows[place - 1][1] if place else ""
        sys.stdout.write((line.replace(phase, painted(phase, style), 1) if phase else line) + "\n")
    if older:
        sys.stdout.flush()
        jobs_text = "1 older job" if older == 1 else f"{older} older jobs"
        sys.stderr.write(f"vcjob: {jobs_text} not shown; `vcjob list --limit 0` shows all\n")


def _progress(job: Handle, status: Status | None) -> Progress | None:
    from vcjob.cli.output.progress import progress_of_job

    return None if status is None else progress_of_job(job, status)


def _short(progress: Progress | None) -> str:
    """The part of the progress that fits into a column."""
    if progress is None:
        return "-"
    if progress.percent is not None and progress.epoch is None:
        return f"{progress.percent:.0f}%"
    return str(progress).partition(",")[0]


def _row(job: Handle, status: Status | None) -> tuple[str, ...]:
    from vcjob.cli.output.tables import duration

    if status is None:
        return job.name, "Damaged", "-", "-", "-", "-", job.namespace
    began, ended = status.started or job.created, status.finished
    up = status.up(job.replicas)
    return (
        job.name, str(status.phase), f"{up}/{job.replicas}", str(status.restarts),
        duration((ended or time.time()) - began), duration(time.time() - job.created), job.namespace,
    )  # fmt: skip
