"""Lines that containers wrote: where they come from, and which of them are wanted.

Both backends read logs as `Chunk`s of a `LogOrigin` and obey a `LogFilter`. `Handle.logs`, the command line and the
page use these. Plain data: text is kept as the bytes that the container wrote.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec


class LogOrigin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance of one container, or one stream of it where the backend keeps them apart.

    Every chunk of a log has one. It tells attempts and restarts apart, whose lines must not be mixed.
    """

    rank: int | None
    task: str
    index: int
    attempt: int
    container: str
    #: It is the pod's own work, not a sidecar or an init step.
    main: bool
    restart: int
    #: "out" or "err"; on a cluster the two are one.
    stream: str = "out"

    @property
    def prefix(self) -> str:
        """`[rank task-index]`, with the container's name where it is not the pod's own work."""
        rank = "-" if self.rank is None else self.rank
        return f"[{rank} {self.task}-{self.index}{'' if self.main else ' ' + self.container}]"


class Chunk(NamedTuple):
    """Whole lines of one origin, each with its line break.

    Both backends return logs as chunks, because there may be many lines.
    """

    origin: LogOrigin
    data: bytes
    #: When the lines were received (epoch seconds), where that is known.
    received: float | None = None
    #: Where the last of the lines ends in its log file, in bytes; not known on a cluster.
    end: int | None = None


class _Pod(Protocol):
    """The attributes of a pod that a filter uses."""

    @property
    def rank(self) -> int | None: ...
    @property
    def task(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def attempt(self) -> int: ...


class LogFilter(NamedTuple):
    """Which logs are wanted; without ranks, tasks or an attempt those of all.

    `Handle.log_chunks` takes one; the backends select by it before they read.
    """

    ranks: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    attempt: int | None = None
    #: The previous instance of each container.
    previous: bool = False
    #: All instances of each container, not only the newest.
    every_try: bool = False
    #: Only the pod with this index in its task.
    pod_index: int | None = None
    #: Only standard error, where the backend keeps the streams apart.
    stderr: bool = False

    def takes(self, pod: _Pod) -> bool:
        if self.ranks and pod.rank not in self.ranks:
            return False
        if self.tasks and pod.task not in self.tasks:
            return False
        if self.pod_index is not None and pod.index != self.pod_index:
            return False
        return self.attempt is None or pod.attempt == self.attempt
