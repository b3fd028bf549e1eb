"""Annotations that vcjob writes on Jobs for people and programs to read."""

from __future__ import annotations

#: The progress of the job, in JSON, as `vcjob.report.progress.Progress` has it.
PROGRESS = "vcjob.io/progress"
