"""`vcjob stop`: end a job.

The handle requests the end; this verb then waits until the job is over, or with `--no-wait` until the request was
accepted. `--now` gives the ranks no time to end on their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("stop")
@job_argument
@click.option("--now", is_flag=True, help="Kill its ranks without their grace period.")
@click.option("--no-wait", is_flag=True, help="Return before the last rank has ended.")
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, now: bool, no_wait: bool, output: str) -> None:
    """End a job (TerminateJob) and wait until all of its processes have ended."""
    from vcjob.cli.output.objects import write_result
    from vcjob.sdk.finding import find

    job = find(name, **where)
    job.stop(now=now)
    if no_wait:
        job.wait_for_command()
    else:
        job.wait()
    write_result(job, f"{job.name}: {job.phase}", output)
