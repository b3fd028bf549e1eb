"""Bounds the memory of decoded specs: a Job of 0.9 MB can take twenty times that as objects of Python.

The reconciler says when it begins and ends to work on a large Job. Of those that it does not work on, the ones used last
keep their decoded spec and plan, up to a number of bytes of JSON; the others are decoded again when something happens to
them. Small Jobs are not counted. Nothing here makes a request.
"""

from __future__ import annotations

from collections import OrderedDict

from vcjob.cluster.controller.cache.job_state import JobState, QueueKey

#: Bytes of JSON whose decoded form is kept: at most about 250 MB of memory.
MAX_BYTES = 12 * 1024 * 1024


class DecodedJobs:
    """The large Jobs that keep their decoded spec, the one used last at the end.

    The reconciler says when it begins and ends to use a Job. It bounds the memory for such specs; a spec that was
    dropped is decoded again.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[QueueKey, tuple[JobState, int]] = OrderedDict()

    def begin(self, state: JobState) -> None:
        """The Job is in use: its spec is not dropped."""
        self._kept.pop(state.key, None)

    def end(self, state: JobState) -> None:
        """The Job is in use no longer. Drops the specs of those used least lately."""
        for key in [key for key, (known, _) in self._kept.items() if known.plan is None]:
            del self._kept[key]  # released or deleted meanwhile
        if state.plan is not None and state.resource is not None:
            self._kept[state.key] = (state, len(state.resource.spec))
        left = sum(size for _, size in self._kept.values())
        for key, (known, size) in list(self._kept.items()):
            if left <= MAX_BYTES:
                return
            if known.drop_decoded():
                del self._kept[key]
                left -= size
