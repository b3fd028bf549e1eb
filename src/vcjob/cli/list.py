"""`vcjob list`: the jobs of this machine, or of a cluster."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from vcjob.cli.options import backend_options, output_option
from vcjob.errors import NoSuchJob, RunDamaged

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("list")
@backend_options("Only jobs of this namespace; on a cluster the context's own is the default.")
@click.option("-A", "--all-namespaces", is_flag=True, help="On a cluster: the jobs of all namespaces.")
@output_option(("table", "json", "yaml"))
def command(where: Where, all_namespaces: bool, output: str) -> None:
    """Show the jobs of this machine (or of a cluster), running and ended, oldest first."""
    from vcjob.sdk.finding import jobs

    found = jobs(**where, all_namespaces=all_namespaces)
    if output != "table":
        from vcjob.cli.objects import as_list, write_object

        documents = []
        for job in found:
            try:
                documents.append(job.to_dict())
            except NoSuchJob:  # deleted since it was listed
                continue
            except RunDamaged as error:
                _show_damage(error)
        write_object(as_list(documents), output)
        return
    from vcjob.cli.style import Style
    from vcjob.cli.tables import duration, painted, table

    rows = []
    for job in found:
        try:
            status, replicas = job.status(), job.replicas
        except NoSuchJob:  # deleted since it was listed
            continue
        except RunDamaged as error:
            _show_damage(error)
            rows.append((job.name, "Damaged", "-", "-", "-", "-", job.namespace))
            continue
        began, ended = status.started or job.created, status.finished
        took = None if began is None else (ended or time.time()) - began
        up = status.running + status.succeeded
        rows.append((
            job.name, str(status.phase), f"{up}/{replicas}", str(status.restarts), duration(took),
            duration(None if began is None else time.time() - began), job.namespace,
        ))  # fmt: skip
    style = Style(sys.stdout)
    for place, line in enumerate(
        table(("NAME", "PHASE", "PODS", "RESTARTS", "DURATION", "AGE", "NAMESPACE"), rows)
    ):
        phase = rows[place - 1][1] if place else ""
        sys.stdout.write((line.replace(phase, painted(phase, style), 1) if phase else line) + "\n")


def _show_damage(error: RunDamaged) -> None:
    sys.stderr.write(f"warning: {error.message}\n  hint: {error.hint}\n")
