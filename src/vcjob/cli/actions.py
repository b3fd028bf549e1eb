"""What the verbs that act on a job have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from vcjob.cli.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


def acting_command(verb: str, help_text: str, done: str) -> click.Command:
    """The verb that asks for one action of the lifecycle and says so."""

    @click.command(verb, help=help_text)
    @job_argument
    @output_option(("table", "json", "yaml"))
    def command(name: str, where: Where, output: str) -> None:
        from vcjob.sdk.finding import find

        job = find(name, **where)
        act: Callable[[], None] = getattr(job, verb)
        act()
        job.wait_for_command()
        if output == "table":
            sys.stdout.write(f"{job.name}: {done}\n")
        else:
            from vcjob.cli.objects import write_object

            write_object(job.to_dict(), output)

    return command
