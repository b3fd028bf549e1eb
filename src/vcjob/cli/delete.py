"""`vcjob delete`: forget a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("delete")
@job_argument
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, output: str) -> None:
    """End a job if it runs, and remove it with its logs.

    JOB is a name, for the job with its earlier runs, or on this machine the uid of an earlier run, for that run alone.
    """
    from vcjob.sdk.finding import find

    job = find(name, **where)
    document = None if output == "table" else job.to_dict()
    job.delete()
    if document is None:
        sys.stdout.write(f"{job.name}: deleted\n")
    else:
        from vcjob.cli.objects import write_object

        write_object(document, output)
