"""Names that vcjob writes into Jobs for people and programs to read: annotations, and keys of the status."""

from __future__ import annotations

#: The progress of the job, in JSON, as `vcjob.report.progress.Progress` has it.
PROGRESS = "vcjob.io/progress"

#: In `status.controlledResources` of a local run: the port of this machine that is used for MASTER_PORT.
MASTER_PORT = "vcjob.io/master-port"
