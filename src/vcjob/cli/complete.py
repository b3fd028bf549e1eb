"""`vcjob complete`: end the pods of a job and mark it Completed."""

from __future__ import annotations

from vcjob.cli.actions import action_command

command = action_command(
    "complete", "End the pods of a job and mark it Completed (CompleteJob).", "ending as Completed"
)
