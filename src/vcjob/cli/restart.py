"""`vcjob restart`: all pods anew."""

from __future__ import annotations

from vcjob.cli.actions import acting_command

command = acting_command(
    "restart",
    "End all pods of a job and start them anew (RestartJob); this counts as a retry.",
    "is being restarted",
)
