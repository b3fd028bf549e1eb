"""A stencil: the JSON text of a pod with slots, cut once per task and filled in once per pod.

`StencilCache` keeps the stencils of all plans of the process, up to a number of bytes: with the plugins `svc` and `env`
one pod of a Job with two thousand tasks is 760 KB of JSON.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from threading import RLock
from typing import Any

import msgspec

_KINDS = "index|partition|attempt|version|retries"


class MarkClash(Exception):
    """The text contains the mark outside of a slot; another mark must be chosen.

    The plan then tries again with another mark.
    """


def mark(nonce: int) -> str:
    """The nonce-th mark. No mark overlaps itself, and JSON writes it as it is."""
    return f"<#{nonce}>"


class Stencil:
    """The pods of one task as fragments of JSON with a numbered gap between each two.

    A plan keeps one per task, so that a pod costs a join of fragments and not an encoding. MarkClash if the mark of
    the gaps occurs in the task itself.
    """

    __slots__ = ("_fragments", "_gaps", "size")

    def __init__(self, document: Mapping[str, Any], mark: str) -> None:
        text = msgspec.json.encode(document)
        sign = re.escape(mark)
        parts = re.split(f"{sign}({_KINDS}):(-?[0-9]+){sign}".encode(), text)
        self._fragments: list[bytes] = parts[::3]
        if any(mark.encode() in fragment for fragment in self._fragments):
            raise MarkClash
        self._gaps = [(kind.decode(), int(offset)) for kind, offset in zip(parts[1::3], parts[2::3])]
        #: About how many bytes of memory it takes.
        self.size = len(text) + 100 * len(parts)

    def fill(self, values: Mapping[str, int]) -> bytes:
        """The JSON of the pod that has these values."""
        out = [b""] * (2 * len(self._gaps) + 1)
        out[::2] = self._fragments
        out[1::2] = [b"%d" % (values[kind] + offset) for kind, offset in self._gaps]
        return b"".join(out)


class StencilCache:
    """The stencils used last, by plan and task. The plans of all Jobs share one, from several threads; a stencil that was
    dropped is cut again."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[int, str], Stencil] = OrderedDict()
        self._tasks: dict[int, set[str]] = {}
        #: One that a finalizer may take while this thread holds it.
        self._lock = RLock()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def count(self, plan: int) -> int:
        """How many stencils of the plan are kept."""
        return len(self._tasks.get(plan, ()))

    def get(self, plan: int, task: str) -> Stencil | None:
        with self._lock:
            found = self._kept.get((plan, task))
            if found is not None:
                self._kept.move_to_end((plan, task))
            return found

    def put(self, plan: int, task: str, stencil: Stencil) -> None:
        """Keep it, however large it is, until others need its place."""
        with self._lock:
            self._drop(plan, task)
            while self._kept and self.size + stencil.size > self._max_bytes:
                self._drop(*next(iter(self._kept)))
            self._kept[plan, task] = stencil
            self._tasks.setdefault(plan, set()).add(task)
            self.size += stencil.size

    def forget(self, plan: int) -> None:
        """The plan needs its stencils no longer."""
        with self._lock:
            for task in list(self._tasks.get(plan, ())):
                self._drop(plan, task)

    def _drop(self, plan: int, task: str) -> None:
        stencil = self._kept.pop((plan, task), None)
        if stencil is None:
            return
        self.size -= stencil.size
        self._tasks[plan].discard(task)
        if not self._tasks[plan]:
            del self._tasks[plan]
