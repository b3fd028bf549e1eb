"""`vcjob events`: the events of a job and its pods.

It prints what the handle returns: Kubernetes Events, which the local backend makes in the same form. A field that an
event lacks is shown as `-`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("events")
@job_argument
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, output: str) -> None:
    """Show the events of a job and its pods, oldest first."""
    from vcjob.sdk.finding import find

    events = find(name, **where).events()
    if output != "table":
        from vcjob.cli.output.objects import as_list, write_object

        write_object(as_list(events), output)
        return
    from vcjob.cli.output.style import Style
    from vcjob.cli.output.tables import table

    clean = Style(sys.stdout).clean
    rows = [(_when(e), e.get("type") or "-", e.get("reason") or "-", _message(e)) for e in events]
    lines = table(("TIME", "TYPE", "REASON", "MESSAGE"), [tuple(map(clean, row)) for row in rows])
    sys.stdout.write("\n".join(lines) + "\n")


def _when(event: dict[str, Any]) -> str:
    from vcjob.report.events import event_time

    moment = event_time(event)
    return f"{moment[:19]}Z" if moment else "-"


def _message(event: dict[str, Any]) -> str:
    """The message on one line, with the object unless it is the Job itself."""
    about = event.get("involvedObject") or {}
    who = "" if about.get("kind") == "Job" else f"{about.get('kind', '?').lower()} {about.get('name', '?')}: "
    return who + " ".join((event.get("message") or "").split("\n"))
