"""`vcjob restart`: replace all pods of a job."""

from __future__ import annotations

from vcjob.cli.actions import action_command

command = action_command(
    "restart",
    "End all pods of a job and start new ones (RestartJob). This counts as a retry.",
    "restarting",
)
