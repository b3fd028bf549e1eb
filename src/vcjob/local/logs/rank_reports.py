"""Finds the reports of the agents of a pod's ranks in the folder of the pod.

Used by the supervisor's watch for hangs and by the diagnosis of a failed job. A report that does not exist, is half
written or cannot be understood is left out.
"""

from __future__ import annotations

import os
import re

from vcjob.diagnosis.rank_report import RankReport, decode_report
from vcjob.local.machine import files
from vcjob.report.timeline import RankStart

_NAME = re.compile(r"rank-state\.(\d+)\.json")
_LARGEST = 32 << 20


def read_reports(folder: str) -> list[RankReport]:
    """The reports in the folder of a pod, of the processes that belong to a rank."""
    found = []
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.getsize(path) > _LARGEST:
                continue
            report = decode_report(files.read_bytes(path) or b"")
        except OSError:
            continue
        if report is not None:
            found.append(report)
    return found


def read_starts(folder: str) -> list[RankStart]:
    """What the ranks of a pod have reported about their start."""
    return [RankStart(report.imported_at, report.first_call_at) for report in read_reports(folder)]
