"""How large a race is."""

from __future__ import annotations

import msgspec


class Size(msgspec.Struct, frozen=True, kw_only=True):
    #: (a) and (d): the pods of the one large Job.
    pods: int = 1000
    #: (b): Jobs of three pods.
    jobs: int = 300
    #: (c): Jobs in a stream, and how many a second.
    stream: int = 1000
    rate: float = 50.0
    #: (e): Jobs that are deleted.
    deleted: int = 2000
    #: How long a pod of (a) and (b) runs.
    life: str = "12s"


FULL = Size()
QUICK = Size(pods=200, jobs=60, stream=100, deleted=200, life="5s")
