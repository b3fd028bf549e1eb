"""`vcjob complete`: the job has done enough."""

from __future__ import annotations

from vcjob.cli.actions import acting_command

command = acting_command(
    "complete", "End the pods of a job and call it Completed (CompleteJob).", "is being completed"
)
