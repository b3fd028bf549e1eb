"""The result of a job in a few lines: its phase, and where it failed, the failure first.

`run` prints it at the end, `status` for a job that is over. Text that ranks wrote is cleaned for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcjob.cli.output.tables import duration, painted, pod_table
from vcjob.wellknown.reasons import COMMAND_ISSUED

if TYPE_CHECKING:
    from vcjob.cli.output.style import Style
    from vcjob.lifecycle.status import Status
    from vcjob.report.failure import Culprit, FailureReport
    from vcjob.sdk.handle import Handle

_SHOWN_LINES = 12
#: What a phase means when a verb was the reason.
_BY_USER = {
    "Terminating": "you stopped it",
    "Terminated": "you stopped it",
    "Completing": "you ended it as Completed",
    "Completed": "you ended it as Completed",
    "Aborting": "you suspended it",
    "Aborted": "you suspended it",
    "Restarting": "you restarted it",
}


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
    else:
        if message := state_message(status):
            lines.append(f"  {style.clean(message)}")
        if report and report.cause:
            lines += finding_lines(report.cause, report.message, report.hint, style)
    pods = job.pods()
    if pods:
        lines.append("")
        lines += [f"  {style.clean(line)}" for line in pod_table(pods)]
    if phase == "Aborted" and status.suspended_by != "spec":
        lines.append(f"  suspended; continue with `vcjob resume {reference}`")
    elif phase == "Aborted":
        lines.append("  suspended by spec.suspend; set it to false to continue")
    return lines


def finding_lines(cause: str, message: str, hint: str, style: Style) -> list[str]:
    """A finding in one or two lines, as `status` and the summary show it."""
    lines = [f"  {style(cause, 'bold')}: {style.clean(message)}"]
    return [*lines, f"    hint: {style.clean(hint)}"] if hint else lines


def state_message(status: Status) -> str:
    """Why the job is in its phase. What the user did with a verb is said in the user's terms."""
    done = _BY_USER.get(str(status.phase)) if status.state.reason == COMMAND_ISSUED else None
    return done or status.state.message


def _failure(report: FailureReport, culprit: Culprit, style: Style, reference: str) -> list[str]:
    clean = style.clean
    headline = style(clean(f"{culprit.who} {culprit.how}"), "bold", "red")
    lines = [f"  {headline}, in container {clean(culprit.container)}"]
    lines.append(f"    {report.cause}: {clean(report.message)}")
    if culprit.message and culprit.message.strip() not in "\n".join((report.message, *culprit.stderr)):
        lines.append(f"    {clean(culprit.message)}")
    if culprit.exception and culprit.exception not in report.message:
        lines.append(f"    {clean(culprit.exception)}")
    if culprit.frame and culprit.frame not in report.message:
        lines.append(f"    at {clean(culprit.frame)}")
    if report.hint:
        lines.append(f"    hint: {clean(report.hint)}")
    if culprit.stderr:
        lines.append("  its last lines:")
        lines += [f"    | {clean(line)}" for line in culprit.stderr[-_SHOWN_LINES:]]
    if report.victims:
        lines.append(f"  only victims, ended after it: {', '.join(report.victims)}")
    which = f"--rank {culprit.rank}" if culprit.rank is not None else f"--task {culprit.task}"
    lines.append(f"  all of its output: vcjob logs {reference} {which}")
    return lines
