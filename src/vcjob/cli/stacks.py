"""`vcjob stacks`: where every rank of a running job is.

It prints the report of the handle, in which ranks at the same place are one group. The error for a job without
running ranks, or where py-spy cannot be used, comes from the handle.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("stacks")
@job_argument
@click.option("--rank", "ranks", type=int, multiple=True, help="Only this rank (repeatable).")
@click.option(
    "--image",
    help="On a cluster: an image with py-spy, for an ephemeral container in pods whose own image has none.",
)
@click.option("--full", is_flag=True, help="Show every frame of each group, innermost first.")
@output_option(("text", "json"))
def command(
    *, name: str, where: Where, ranks: tuple[int, ...], image: str | None, full: bool, output: str
) -> None:
    """Show where every rank is, from its Python stack; ranks at the same place are shown together.

    The stacks are read with py-spy from outside; the program needs no change and continues to run. On a cluster py-spy
    is run in the rank's container, with the right to create `pods/exec`.
    """
    from vcjob.sdk.finding import find

    report = find(name, **where).stacks(ranks=ranks, image=image)
    if output == "json":
        from vcjob.cli.output.json_text import to_json

        sys.stdout.write(to_json(report.to_dict()))
        return
    from vcjob.cli.output.style import Style

    style = Style(sys.stdout)
    for group in report.groups():
        sys.stdout.write(style.clean(str(group)) + "\n")
        for frame in group.frames if full else ():
            sys.stdout.write(style.clean(f"    {frame.function}  {frame.file}:{frame.line}") + "\n")
