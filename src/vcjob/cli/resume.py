"""`vcjob resume`: start the pods of a suspended job again."""

from __future__ import annotations

from vcjob.cli.actions import action_command

command = action_command(
    "resume", "Start the pods of a suspended job again (ResumeJob). This costs no retry.", "resumed"
)
