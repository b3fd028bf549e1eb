"""The end of a run in a few lines: what came of it, and, where it failed, why: the failure first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcjob.cli.tables import duration, painted, pod_table

if TYPE_CHECKING:
    from vcjob.cli.style import Style
    from vcjob.lifecycle.status import Status
    from vcjob.report.failure import Culprit, FailureReport
    from vcjob.sdk.handle import Handle

_SHOWN_LINES = 12


def summary(job: Handle, status: Status, style: Style, reference: str) -> list[str]:
    """The lines of the summary. `reference` names the job in the commands that are shown."""
    took = None
    if status.started is not None and status.finished is not None:
        took = status.finished - status.started
    phase = str(status.phase)
    verb = "in" if phase == "Completed" else "after"
    head = f"{style(job.name, 'bold')}: {painted(phase, style)}{'' if took is None else f' {verb} {duration(took)}'}"
    if status.restarts:
        head += f", {status.restarts} {'restart' if status.restarts == 1 else 'restarts'}"
    lines = ["", head]
    report = job.failure() if phase not in ("Completed", "Aborted") else None
    if report and report.culprit:
        lines += _failure(report, report.culprit, style, reference)
    elif status.state.message:
        lines.append(f"  {status.state.message}")
    pods = job.pods()
    if pods:
        lines.append("")
        lines += [f"  {line}" for line in pod_table(pods)]
    if phase == "Aborted":
        lines.append(f"  resume it with `vcjob resume {reference}`")
    return lines


def _failure(report: FailureReport, culprit: Culprit, style: Style, reference: str) -> list[str]:
    lines = [f"  {style(f'{culprit.who} {culprit.how}', 'bold', 'red')}, in container {culprit.container}"]
    if culprit.message and culprit.message not in "\n".join(culprit.stderr):
        lines.append(f"    {culprit.message}")
    if culprit.exception:
        lines.append(f"    {culprit.exception}")
    if culprit.frame:
        lines.append(f"    at {culprit.frame}")
    if culprit.way_out:
        lines.append(f"    {culprit.way_out}")
    if culprit.stderr:
        lines.append("  its last lines:")
        lines += [f"    | {line}" for line in culprit.stderr[-_SHOWN_LINES:]]
    if report.victims:
        lines.append(f"  only victims, ended after it: {', '.join(report.victims)}")
    which = f"--rank {culprit.rank}" if culprit.rank is not None else f"--task {culprit.task}"
    lines.append(f"  all of its output: vcjob logs {reference} {which}")
    return lines
