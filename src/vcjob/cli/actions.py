"""The verbs `suspend`, `resume`, `restart` and `complete`: each sends one action to a job.

Each finds the job through the SDK, calls the method of the same name on its handle, and waits until the request was
accepted, not until the job has reached the phase. Errors of the handle are shown by `cli.main`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import job_argument, output_option

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where


def _action_command(verb: str, help_text: str, done: str) -> click.Command:
    """The verb that sends one action to a job. `done` is what it prints; `{job}` names the job in a command."""

    @click.command(verb, help=help_text)
    @job_argument
    @output_option(("table", "json", "yaml"))
    def command(name: str, where: Where, output: str) -> None:
        from vcjob.cli.output.job_reference import job_reference
        from vcjob.cli.output.objects import write_result
        from vcjob.sdk.finding import find

        job = find(name, **where)
        act: Callable[[], None] = getattr(job, verb)
        act()
        job.wait_for_command()
        write_result(job, f"{job.name}: {done.format(job=job_reference(job, where))}", output)

    return command


suspend = _action_command(
    "suspend",
    "End the pods of a job but keep it, to be resumed (AbortJob).",
    "suspended; continue with `vcjob resume {job}`",
)
resume = _action_command(
    "resume", "Start the pods of a suspended job again (ResumeJob). This costs no retry.", "resumed"
)
restart = _action_command(
    "restart", "End all pods of a job and start new ones (RestartJob). This counts as a retry.", "restarting"
)
complete = _action_command(
    "complete", "End the pods of a job and mark it Completed (CompleteJob).", "ending as Completed"
)
