"""The env plugin: tells every container the index of its pod in the task.

The registry has it as `env`; a plan calls `shape` for each task. The variables have Volcano's names, and an extension
of vcjob adds the attempt of the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.goflags import Flag, parse_flags
from vcjob.spec.problem import Problem

FLAGS = (
    Flag(
        "attempt",
        "bool",
        False,
        ours=True,
        meaning="Set `VCJOB_ATTEMPT`: how often this pod was replaced, counted from 0.",
    ),
)


class EnvOptions(msgspec.Struct, frozen=True):
    """The arguments of the env plugin."""

    attempt: bool = False


class EnvPlugin(Plugin[EnvOptions]):
    """The variables VK_TASK_INDEX and VC_TASK_INDEX, and on request VCJOB_ATTEMPT.

    In the registry as `env`. It adds no objects and finds no problems but those of its arguments.
    """

    name: ClassVar[str] = "env"
    order: ClassVar[int] = 30

    def parse(self, arguments: Sequence[str]) -> tuple[EnvOptions, list[Problem]]:
        read, problems = parse_flags(FLAGS, arguments)
        return EnvOptions(attempt=read.boolean("attempt")), problems

    def shape(self, draft: PodDraft, options: EnvOptions) -> None:
        draft.inject_env("VK_TASK_INDEX", draft.index)
        draft.inject_env("VC_TASK_INDEX", draft.index)
        if options.attempt:
            draft.inject_env("VCJOB_ATTEMPT", draft.attempt)
