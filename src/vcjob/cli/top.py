"""`vcjob top`: what every rank of a running job uses.

The handle measures; this verb prints the report, on a terminal again and again until the job ends. UserError if no
rank runs.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.numbers import Number
from vcjob.cli.arguments.options import job_argument, output_option
from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.report.usage import UsageReport
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Handle

#: Seconds without a running rank: the ranks have ended and the job is about to, or it restarts.
_BETWEEN_ATTEMPTS = 30.0


@click.command("top")
@job_argument
@click.option("--rank", "ranks", type=int, multiple=True, help="Only this rank (repeatable).")
@click.option(
    "--interval",
    type=Number(0.1, 60),
    default=1.0,
    show_default=True,
    help="Measure over this many seconds.",
)
@click.option("--once", is_flag=True, help="Print one snapshot, as in a pipe.")
@output_option(("table", "json"))
def command(
    *, name: str, where: Where, ranks: tuple[int, ...], interval: float, once: bool, output: str
) -> None:
    """Show CPU, memory, GPU use and step rate of every rank: again and again on a terminal, once in a pipe."""
    from vcjob.sdk.finding import find

    job = find(name, **where)
    report = job.usage(ranks=ranks, seconds=interval)
    if output == "json":
        from vcjob.cli.output.json_text import to_json

        sys.stdout.write(to_json(report.to_dict()))
        return
    lines = _table(report)
    sys.stdout.write("\n".join(lines) + "\n")
    while sys.stdout.isatty() and not once:
        sys.stdout.flush()
        following = _next_report(job, ranks, interval)
        if following is None:
            return  # the job has ended while it was watched
        height, lines = len(lines), _table(following)
        sys.stdout.write(f"\033[{height}A\033[J" + "\n".join(lines) + "\n")


def _next_report(job: Handle, ranks: tuple[int, ...], interval: float) -> UsageReport | None:
    """The next measurement, or None when the job has ended. Raises UserError when no rank has run for a while."""
    deadline = time.monotonic() + _BETWEEN_ATTEMPTS
    while True:
        try:
            return job.usage(ranks=ranks, seconds=interval)
        except UserError:
            if job.done:
                return None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _table(report: UsageReport) -> list[str]:
    from vcjob.cli.output.style import Style
    from vcjob.cli.output.tables import rank_heading, table

    headings = [rank_heading(report.ranks), "POD", "CPU", "MEMORY", "PROCESSES", "I/O WAIT"]
    headings += ["GPU", "GPU MEMORY"] if report.has_gpus else []
    headings += ["STEPS/S"] if report.has_steps else []
    rows = []
    for usage in report.ranks:
        cells = [
            "-" if usage.rank is None else str(usage.rank), usage.pod, _percent(usage.cpu_percent),
            usage.memory_text, "-" if usage.processes is None else str(usage.processes), _percent(usage.io_wait_percent),
        ]  # fmt: skip
        cells += [_percent(usage.gpu_percent), usage.gpu_memory_text] if report.has_gpus else []
        cells += [_rate(usage.steps_per_second)] if report.has_steps else []
        rows.append(cells)
    clean = Style(sys.stdout).clean
    return [clean(line) for line in table(headings, rows)]


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
