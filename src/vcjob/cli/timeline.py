"""`vcjob timeline`: where the time of a job went.

The handle returns a `Timeline`, whose own methods draw it; this verb only chooses the format.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


@click.command("timeline")
@job_argument
@output_option(("text", "svg", "json", "chrome"))
def command(name: str, where: Where, output: str) -> None:
    """Show where the time of a job went, per rank: waiting, starting, init steps, running, restarts.

    `-o chrome` prints a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open, `-o svg` an image.
    """
    from vcjob.sdk.finding import find

    timeline = find(name, **where).timeline()
    if output == "svg":
        sys.stdout.write(timeline.to_svg())
    elif output == "text":
        from vcjob.cli.output.style import Style

        clean = Style(sys.stdout).clean
        lines = [*timeline.to_text(shutil.get_terminal_size((100, 24)).columns), timeline.summary]
        sys.stdout.write("\n".join(clean(line) for line in lines) + "\n")
    else:
        from vcjob.cli.output.json_text import to_json

        document = timeline.to_dict() if output == "json" else timeline.to_chrome_trace()
        sys.stdout.write(to_json(document))
