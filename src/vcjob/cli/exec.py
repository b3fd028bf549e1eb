"""`vcjob exec`: run a command next to a rank.

The handle runs it; input, output and terminal are passed through. The exit code is the command's own. UserError if
the choice names no pod, or several.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.completing import complete_tasks
from vcjob.cli.arguments.options import job_argument

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("exec")
@job_argument
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--rank", type=int, help="The rank.")
@click.option("--task", shell_complete=complete_tasks, help="The task, for pods without a rank.")
@click.option("--index", type=int, help="The index of the pod in its task.")
@click.option("-c", "--container", help="The container.  [default: the rank's own]")
@click.pass_context
def command(
    context: click.Context,
    *,
    name: str,
    where: Where,
    words: tuple[str, ...],
    rank: int | None,
    task: str | None,
    index: int | None,
    container: str | None,
) -> None:
    """Run a command next to a rank: with its environment, folder and mounts.

    \b
    vcjob exec JOB --rank 1 -- nvidia-smi
    vcjob exec JOB --rank 1 -- bash

    On a cluster it runs in the rank's container, as with `kubectl exec`. The exit code is the command's. The
    command ends with the pod.
    """
    from vcjob.sdk.finding import find

    sys.stdout.flush()
    context.exit(find(name, **where).exec(words, rank=rank, task=task, index=index, container=container))
