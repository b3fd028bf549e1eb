"""`vcjob suspend`: the pods end, the job stays."""

from __future__ import annotations

from vcjob.cli.actions import acting_command

command = acting_command(
    "suspend", "End the pods of a job but keep it, to be resumed (AbortJob).", "is being suspended"
)
