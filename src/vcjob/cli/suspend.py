"""`vcjob suspend`: end the pods and keep the job."""

from __future__ import annotations

from vcjob.cli.actions import action_command

command = action_command(
    "suspend",
    "End the pods of a job but keep it, to be resumed (AbortJob).",
    "suspended; continue with `vcjob resume {job}`",
)
