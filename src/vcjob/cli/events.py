"""`vcjob events`: what happened to a job."""

from __future__ import annotations

import sys

import click

from vcjob.cli.options import job_argument, output_option


@click.command("events")
@job_argument
@output_option(("table", "json", "yaml"))
def command(name: str, namespace: str | None, output: str) -> None:
    """Show what happened to a job, oldest first."""
    from vcjob.sdk.finding import find

    events = find(name, namespace=namespace).events()
    if output != "table":
        from vcjob.cli.objects import as_list, write_object

        write_object(as_list(events), output)
        return
    from vcjob.cli.looks import table

    rows = [(e["lastTimestamp"], e["type"], e["reason"], e["message"].replace("\n", " ")) for e in events]
    sys.stdout.write("\n".join(table(("TIME", "TYPE", "REASON", "MESSAGE"), rows)) + "\n")
