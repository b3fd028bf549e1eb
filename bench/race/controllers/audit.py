"""Requests of one user, by verb and kind, out of the API server's audit log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

Requests = Counter[tuple[str, str]]  # verb, resource


class _User(msgspec.Struct):
    username: str = ""


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Event(msgspec.Struct, rename="camel"):
    user: _User = msgspec.field(default_factory=_User)
    verb: str = ""
    object_ref: _Object | None = None


_decode = msgspec.json.Decoder(_Event).decode


class AuditMark:
    """A place in the log; `since` counts what one user asked for after it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = log.stat().st_size if log.exists() else 0

    def since(self, user: str) -> Requests:
        """Leases are left out: their number tells the time, not the work."""
        counted: Requests = Counter()
        with self._log.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                try:
                    event = _decode(line)
                except msgspec.MsgspecError:
                    continue  # cut off: it is being written
                found = event.object_ref or _Object()
                if event.user.username == user and found.resource != "leases":
                    name = f"{found.resource}/{found.subresource}" if found.subresource else found.resource
                    counted[event.verb, name] += 1
        return counted


def by_verb(requests: Requests) -> dict[str, int]:
    verbs: Counter[str] = Counter()
    for (verb, _), number in requests.items():
        verbs[verb] += number
    return dict(sorted(verbs.items()))
