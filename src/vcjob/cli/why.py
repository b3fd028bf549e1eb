"""`vcjob why`: the causes of a pending, failed or hung job, with their evidence.

It prints the findings of the handle, the most likely cause first; the rules are in `vcjob.diagnosis`. What could not
be read is a note on standard error. A job without a problem is no error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.cli.output.style import Style
    from vcjob.diagnosis.finding import Finding
    from vcjob.lifecycle.status import Status
    from vcjob.sdk.backend import Where


@click.command("why")
@job_argument
@output_option(("table", "json", "yaml"))
def command(name: str, where: Where, output: str) -> None:
    """Show why a job is pending, failed or hangs: the most likely cause first, with its evidence and what helps.

    With -o json: {"findings": [{"cause", "message", "ranks", "evidence", "hint", "confidence"}]}. The causes are
    listed in the reference. A job without a problem has no findings.
    """
    from vcjob.sdk.finding import find

    job = find(name, **where)
    findings = job.why()
    if job.unread():
        sys.stderr.write(f"note: {job.unread()}\n")
    if output != "table":
        import msgspec

        from vcjob.cli.output.objects import write_object

        write_object({"findings": msgspec.to_builtins(findings)}, output)
        return
    from vcjob.cli.output.style import Style

    style = Style(sys.stdout)
    if not findings:
        from vcjob.cli.output.job_reference import job_reference

        status = job.status()
        said = status.state.message
        sys.stdout.write(f"{job.name} is {job.phase}; no problem was found{f': {said}' if said else ''}\n")
        if earlier := _last_restart(status):
            events = f"`vcjob events {job_reference(job, where)}`"
            sys.stdout.write(f"  restarted before: {style.clean(earlier)}; see {events}\n")
    for number, finding in enumerate(findings):
        lines = _lines(finding, style, running=job.phase == "Running")
        sys.stdout.write("\n" * (number > 0) + "\n".join(lines) + "\n")


def _last_restart(status: Status) -> str:
    """Why the job, or a part of it, was last restarted because of a failure or a hang; empty where it was not."""
    from vcjob.wellknown.reasons import COMMAND_ISSUED

    for entry in reversed(status.history):
        if entry.action.startswith("Restart") and entry.reason != COMMAND_ISSUED:
            return (entry.culprit and entry.culprit.finding) or entry.message
    return ""


def _lines(finding: Finding, style: Style, *, running: bool) -> list[str]:
    clean = style.clean
    lines = [f"{style(finding.cause, 'bold', 'red')}: {clean(finding.message)}"]
    lines += [f"  {clean(each.source)}: {clean(each.text)}" for each in finding.evidence]
    if finding.ranks.victims:
        effect = "waiting because of it" if running else "ended because of it"
        lines.append(f"  {effect}: {', '.join(finding.ranks.victims)}")
    if finding.hint:
        lines.append(f"  hint: {clean(finding.hint)}")
    if finding.confidence != "high":
        lines.append(f"  confidence: {finding.confidence}")
    return lines
