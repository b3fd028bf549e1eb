"""What one process costs while something happens: processor seconds, peak memory, requests."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.race.controllers.audit import AuditMark, by_verb
from tests.cluster.controller.controller_part import peak_memory
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part

#: The API server writes its audit log in batches, at the latest after this.
_AUDIT_DELAY = 2.0


class Meter:
    """Begins with its making; `read` gives what has come together since."""

    def __init__(self, cluster: Cluster, part: Part, user: str) -> None:
        self._part = part
        self._user = user
        self._cpu = part.cpu_seconds()
        self._mark = AuditMark(cluster.control_plane.audit_log)

    async def read(self) -> dict[str, Any]:
        cpu, peak = self._part.cpu_seconds() - self._cpu, peak_memory(self._part)
        await asyncio.sleep(_AUDIT_DELAY)
        requests = self._mark.since(self._user)
        return {
            "cpu_seconds": round(cpu, 2),
            "peak_mb": round(peak / 1e6, 1),
            "requests": requests.total(),
            "requests_by_verb": by_verb(requests),
            "requests_by_kind": {f"{verb} {kind}": n for (verb, kind), n in sorted(requests.items())},
        }
