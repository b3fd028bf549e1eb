"""`vcjob resume`: a suspended job goes on."""

from __future__ import annotations

from vcjob.cli.actions import acting_command

command = acting_command(
    "resume", "Start the pods of a suspended job again (ResumeJob); this costs no retry.", "is being resumed"
)
