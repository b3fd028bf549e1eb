"""`vcjob logs`: what the ranks wrote.

The handle reads and merges the logs of either backend; this verb filters lines, adds the prefix and writes them. Log
lines are bytes: in a pipe they are passed on unchanged, for a terminal `output.log_text` makes them safe.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.completing import complete_tasks
from vcjob.cli.arguments.numbers import WholeNumber
from vcjob.cli.arguments.options import job_argument, output_option
from vcjob.cli.output.style import Style
from vcjob.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Chunk


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Continue until the job is over.")
@click.option("--rank", "ranks", type=int, multiple=True, help="Only this rank (repeatable).")
@click.option(
    "--task", "tasks", multiple=True, shell_complete=complete_tasks, help="Only this task (repeatable)."
)
@click.option(
    "-c",
    "--container",
    "containers",
    multiple=True,
    help="Only this container (repeatable); on a cluster the rank's own is the default.",
)
@click.option("--attempt", type=int, help="This attempt instead of the last.")
@click.option(
    "-p",
    "--previous",
    is_flag=True,
    help="Logs of each container's previous instance (as `kubectl logs --previous`).",
)
@click.option("--since", help="Only lines newer than this: 10m, 30s, 2d, or 2026-02-03T10:00:00Z.")
@click.option("--tail", type=WholeNumber(min=0), help="Only this many of the last lines of each container.")
@click.option("--grep", metavar="REGEX", help="Only lines that match this regular expression.")
@click.option("--stderr", is_flag=True, help="On this machine: only standard error.")
@click.option("--timestamps", is_flag=True, help="Each line with the time at which it was received.")
@click.option("--no-prefix", is_flag=True, help="Omit the `[rank task-index]` prefix.")
@output_option(("table", "json"))
def command(
    *,
    name: str,
    where: Where,
    follow: bool,
    ranks: tuple[int, ...],
    tasks: tuple[str, ...],
    containers: tuple[str, ...],
    attempt: int | None,
    previous: bool,
    since: str | None,
    tail: int | None,
    grep: str | None,
    stderr: bool,
    timestamps: bool,
    no_prefix: bool,
    output: str,
) -> None:
    """Show the lines of all ranks, each with `[rank task-index]` in front.

    Lines of one stream are in the order in which they were written; lines of different streams and ranks are in the
    order in which they arrived.
    """
    from vcjob.cli.arguments.times import moment_of
    from vcjob.cli.output.log_text import log_text
    from vcjob.sdk.finding import find
    from vcjob.sdk.handle import LogFilter
    from vcjob.sdk.log_choice import check_choice

    job = find(name, **where)
    if stderr and job.backend == "cluster":
        raise UserError(
            "--stderr is for jobs on this machine: a cluster keeps both streams of a container as one",
            hint="use --grep to choose lines",
        )
    chosen = LogFilter(ranks, tasks, containers, attempt, previous, stderr=stderr)
    check_choice(job, chosen, follow=follow)
    keep = _line_filter(grep)
    style = Style(sys.stdout)
    sys.stdout.flush()
    out = sys.stdout.buffer
    for step in job.log_chunks(
        chosen,
        follow=follow,
        since=None if since is None else moment_of(since),
        tail=tail,
        timestamps=timestamps,
        on_note=_show_note,
    ):
        if isinstance(step, float):
            out.flush()
            time.sleep(step)
            continue
        for chunk in step:
            kept = keep(chunk)
            if kept.data and output == "json":
                out.write(_json_lines(kept, timestamps))
            elif kept.data:
                out.write(log_text(kept, style, prefix=not no_prefix, timestamps=timestamps))
        if follow:
            out.flush()


def _line_filter(grep: str | None) -> Callable[[Chunk], Chunk]:
    """What `--grep` leaves of a chunk."""
    try:
        pattern = re.compile(os.fsencode(grep)) if grep is not None else None
    except re.error as error:
        raise UserError(f"`{grep}` is not a valid regular expression: {error}") from error

    def keep(chunk: Chunk) -> Chunk:
        if pattern is None:
            return chunk
        lines = chunk.data.split(b"\n")[:-1]
        return chunk._replace(data=b"".join(line + b"\n" for line in lines if pattern.search(line)))

    return keep


def _show_note(note: str) -> None:
    sys.stderr.write(f"vcjob: {Style(sys.stderr).clean(note)}\n")


def _json_lines(chunk: Chunk, timestamps: bool) -> bytes:
    """One JSON object per line."""
    import msgspec

    from vcjob.cli.output.log_text import timestamp
    from vcjob.sdk.handle import lines_of

    if not timestamps:
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines_of(chunk))
    time_of_all = timestamp(chunk)
    documents = ({**msgspec.to_builtins(line), "time": time_of_all} for line in lines_of(chunk))
    return b"".join(msgspec.json.encode(document) + b"\n" for document in documents)
