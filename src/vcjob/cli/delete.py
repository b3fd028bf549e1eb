"""`vcjob delete`: remove one job, or finished jobs.

The handles of the SDK do the work. A job that runs is ended first. A damaged run can be deleted by name; with
`--finished` it is left out, because nobody knows whether it has ended.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.completing import complete_jobs
from vcjob.cli.arguments.options import backend_options, output_option
from vcjob.errors import NoSuchJob, StoreError, UserError

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Handle


@click.command("delete")
@click.argument("name", metavar="[JOB]", required=False, shell_complete=complete_jobs)
@backend_options("The namespace of the job (default: default, or the context's).")
@click.option("--finished", is_flag=True, help="Instead of one job: all jobs that are over.")
@click.option(
    "--older-than",
    metavar="TIME",
    help="With --finished: only jobs that ended at least this long ago (7d, 12h).",
)
@output_option(("table", "json", "yaml"))
def command(*, name: str | None, where: Where, finished: bool, older_than: str | None, output: str) -> None:
    """End a job if it runs, and remove it with its logs; or remove finished jobs.

    JOB is a name, for the job with its earlier runs, or on this machine the uid of an earlier run, for that run alone.
    """
    if name is None and not finished:
        raise UserError("name one job, or use --finished", hint="see `vcjob delete --help`")
    if name is not None and finished:
        raise UserError(
            f"--finished deletes all jobs that are over, and {name!r} is one job",
            hint="leave one of them out",
        )
    if older_than is not None and not finished:
        raise UserError("--older-than is for --finished", hint="leave it out, or use --finished")
    documents = []
    for job in [_named(name, where)] if name is not None else _finished(where, older_than):
        if output != "table":  # a damaged run has no document, and it can be deleted
            documents.append(job.to_dict())
        job.delete()
        if output == "table":
            sys.stdout.write(f"{job.name}: deleted\n")
    if output != "table":
        from vcjob.cli.output.objects import as_list, write_object

        write_object(as_list(documents) if finished else documents[0], output)


def _named(name: str, where: Where) -> Handle:
    from vcjob.sdk.finding import find

    return find(name, **where)


def _finished(where: Where, older_than: str | None) -> list[Handle]:
    from vcjob.cli.arguments.times import seconds_of
    from vcjob.sdk.finding import jobs

    before = time.time() - (seconds_of(older_than) if older_than else 0.0)
    found = []
    for job in jobs(**where):
        with suppress(NoSuchJob, StoreError):  # deleted meanwhile; not known to be over
            status = job.status()
            if status.over and (status.finished or job.created) <= before:
                found.append(job)
    return found
