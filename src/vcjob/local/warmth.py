"""Whether a run starts its ranks warm: forked from a process that has already imported torch."""

from __future__ import annotations

from collections.abc import Callable

from vcjob.local.launch import Launcher, PlainLauncher
from vcjob.local.run import Setting
from vcjob.spec.job import Job

ANNOTATION = "vcjob.io/warm"


class Warmth:
    """Chooses the launcher of the pods of one run."""

    def __init__(self, setting: Setting, job: Job, say: Callable[[str], None]) -> None:
        self.wanted = setting.warm or job.metadata.annotations.get(ANNOTATION) == "true"
        self._say = say

    def launcher(self, plain: PlainLauncher) -> Launcher:
        return plain

    def close(self) -> None:
        pass
