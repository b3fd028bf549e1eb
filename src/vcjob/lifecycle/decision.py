"""What `decide()` answers."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import Step


class Decision(msgspec.Struct, frozen=True):
    """Write `status` if it differs from the one given in, then do `steps`, then decide anew at `wake_at`.

    `status` is the same object as the one given in when nothing changed. `wake_at` is the next moment at which
    time alone changes the answer (None: only an event can). `ready_tasks` are those whose dependsOn is met: a
    PodGroup counts these alone.
    """

    status: Status
    steps: tuple[Step, ...]
    wake_at: float | None
    ready_tasks: tuple[str, ...]
