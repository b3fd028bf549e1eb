"""The result of `decide()`: the new status, the steps to execute, and when to decide again.

Both backends receive it from `lifecycle.decide` and carry it out. It is plain data and knows neither files nor the
Kubernetes API.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import Step


class Decision(msgspec.Struct, frozen=True):
    """Write `status` if it differs from the one passed in, then execute `steps`, then decide again at `wake_at`.

    `status` is the same object as the one passed in when nothing changed. `wake_at` is the next time at which
    the decision changes without an event (None: never; now: there is more to decide at once). `ready_tasks` are
    the tasks whose dependsOn is met: a PodGroup counts only these. `paused`: the spec must not take effect, so that
    nothing is created or changed by it either, whatever the phase.
    """

    status: Status
    steps: tuple[Step, ...]
    wake_at: float | None
    ready_tasks: tuple[str, ...]
    paused: bool = False
