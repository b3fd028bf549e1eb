"""`vcjob wait`: wait until a job is over.

The handle waits; the exit code is 0 if the job is Completed or has reached the phase of `--until`, 1 if it has ended
otherwise, and 124 if the time of `--timeout` has run out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option
from vcjob.errors import JobFailed

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("wait")
@job_argument
@click.option("--timeout", type=str, help="Give up after this time (30, 90s, 1h30m) with exit code 124.")
@click.option("--until", metavar="PHASE", help="Wait until the job has this phase, such as Running.")
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, timeout: str | None, until: str | None, output: str) -> None:
    """Wait until a job is over: exit code 0 if it is Completed, 1 if it is not.

    With --until, exit code 0 also if it has reached that phase.
    """
    from vcjob.cli.arguments.times import seconds_of
    from vcjob.cli.output.objects import write_result
    from vcjob.cli.output.style import Style
    from vcjob.cli.output.summary import state_message
    from vcjob.sdk.finding import find

    job = find(name, **where)
    phase = job.wait(None if timeout is None else seconds_of(timeout), until=until)
    reason = Style(sys.stdout).clean(state_message(job.status()))
    write_result(job, f"{job.name}: {phase}{f' ({reason})' if reason else ''}", output)
    if phase not in ("Completed", until):
        raise click.exceptions.Exit(JobFailed.exit_code)
