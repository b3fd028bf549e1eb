"""`vcjob logs`: what the ranks wrote."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from vcjob.cli.options import job_argument, output_option
from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.report.logs import Chunk
    from vcjob.sdk.backend import Where


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("--rank", "ranks", type=int, multiple=True, help="Only this rank.")
@click.option("--task", "tasks", multiple=True, help="Only this task.")
@click.option(
    "-c",
    "--container",
    "containers",
    multiple=True,
    help="Only this container; on a cluster the rank's own is the default.",
)
@click.option("--attempt", type=int, help="This attempt instead of the last.")
@click.option("-p", "--previous", is_flag=True, help="The try before the last, of each container.")
@click.option("--since", help="Only newer lines: 10m, 30s, or a moment.")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many last lines of each container.")
@click.option("--no-prefix", is_flag=True, help="The lines as they were written.")
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
    no_prefix: bool,
    output: str,
) -> None:
    """Show the lines of all ranks, each with `[rank task-index]` in front.

    Lines of one stream are in the order in which they were written; lines of different streams and ranks are in the
    order in which they arrived.
    """
    from vcjob.cli.screen import prefixed
    from vcjob.cli.times import moment_of
    from vcjob.sdk.finding import find
    from vcjob.sdk.handle import LogFilter

    job = find(name, **where)
    _check(job.replicas_by_task(), tasks)
    colours = sys.stdout.isatty()
    chosen = LogFilter(ranks, tasks, containers, attempt, previous)
    sys.stdout.flush()
    out = sys.stdout.buffer
    for step in job.log_chunks(
        chosen,
        follow=follow,
        since=None if since is None else moment_of(since),
        tail=tail,
        on_note=_show_note,
    ):
        if isinstance(step, float):
            out.flush()
            time.sleep(step)
            continue
        for chunk in step:
            out.write(
                _json_lines(chunk)
                if output == "json"
                else chunk.data
                if no_prefix
                else prefixed(chunk, colours)
            )
        if follow:
            out.flush()


def _show_note(note: str) -> None:
    sys.stderr.write(f"vcjob: {note}\n")


def _json_lines(chunk: Chunk) -> bytes:
    """One JSON object per line."""
    import msgspec

    from vcjob.sdk.handle import lines_of

    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines_of(chunk))


def _check(replicas: dict[str, int], tasks: tuple[str, ...]) -> None:
    for task in tasks:
        if task not in replicas:
            raise UserError(f"the job has no task {task!r}", hint=f"its tasks are: {', '.join(replicas)}")
