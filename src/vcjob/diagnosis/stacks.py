"""Python stacks of ranks, grouped by where they are: "ranks 1-3 wait in all_reduce, train.py:41".

`local.live.stacks` reads the stacks; the SDK returns a `StackReport` and the command line prints it. Pure: nothing here
touches a process. A rank whose stack cannot be read has a `problem` instead, one sentence that says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import msgspec

from vcjob.diagnosis.observation import Frame
from vcjob.diagnosis.text.frames import Place

#: Wrappers around a function whose name says more.
_WRAPPERS = frozenset(
    {"wrapper", "inner", "_fn", "decorate_context", "__call__", "_call_impl", "_wrapped_call_impl"}
)
#: Files of torch whose functions wait for other ranks.
_COLLECTIVES = ("/distributed_c10d.py", "/_functional_collectives.py", "/distributed/rendezvous.py")


class RankStack(msgspec.Struct, frozen=True, omit_defaults=True):
    """The main thread of one rank's Python process, innermost frame first; or why it cannot be read.

    Both backends read it with py-spy; `vcjob stacks` and the rules for hangs use it.
    """

    #: The name of the pod.
    pod: str
    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None = None
    #: The Python process.
    pid: int | None = None
    #: The stack of its main thread, innermost frame first.
    frames: tuple[Frame, ...] = ()
    #: Why the stack cannot be read.
    problem: str = ""
    #: Where the stack cannot be read but the rank has reported one: how many seconds ago.
    reported_ago: float | None = None

    @property
    def name(self) -> str:
        return self.pod if self.rank is None else f"rank {self.rank}"

    @property
    def own_frame(self) -> Frame | None:
        """The innermost frame of the user's own code."""
        return next((frame for frame in self.frames if not _is_library(frame)), None)

    @property
    def waits_in(self) -> str:
        """The function of torch.distributed, DataLoader or torch.cuda that it is in; empty where it is in none."""
        for frame in reversed(self.frames):  # the outermost one: what the program called
            function = frame.function.rsplit(".", 1)[-1]
            if frame.file.endswith(_COLLECTIVES) and function not in _WRAPPERS:
                return function
            if frame.file.endswith("/torch/utils/data/dataloader.py"):
                return "DataLoader"
            if function == "synchronize" and "/torch/cuda/" in frame.file:
                return function
        return ""


class StackGroup(msgspec.Struct, frozen=True):
    """Ranks that are at the same place; `text` says where, without naming them."""

    members: tuple[str, ...]
    ranks: tuple[int, ...]
    text: str
    frames: tuple[Frame, ...]

    def __str__(self) -> str:
        return f"{_names(self.members, self.ranks)} {self.text}"


class StackReport(msgspec.Struct, frozen=True):
    """The stacks of all ranks of a job, in the order of ranks.

    `Handle.stacks` returns it. A rank whose stack cannot be read is in it, with the reason.
    """

    stacks: tuple[RankStack, ...]

    def groups(self) -> list[StackGroup]:
        """Ranks at the same place together, the largest group first."""
        places: dict[tuple[str, str], list[RankStack]] = {}
        for stack in self.stacks:
            key = (_where(stack, many=True), _where(stack, many=False))
            places.setdefault(key, []).append(stack)
        found = [
            StackGroup(
                members=tuple(member.name for member in members),
                ranks=tuple(member.rank for member in members if member.rank is not None),
                text=(many if len(members) > 1 else one) + _age(members),
                frames=members[0].frames,
            )
            for (many, one), members in places.items()
        ]
        return sorted(found, key=lambda group: -len(group.members))

    def to_dict(self) -> dict[str, Any]:
        """For `-o json`: every stack, and the groups as sentences."""
        return {
            "ranks": [msgspec.to_builtins(stack) for stack in self.stacks],
            "groups": [
                {"ranks": list(group.ranks), "pods": self._pods(group), "text": str(group)}
                for group in self.groups()
            ],
        }

    def _pods(self, group: StackGroup) -> list[str]:
        names = set(group.members)
        return [stack.pod for stack in self.stacks if stack.name in names]


def _where(stack: RankStack, *, many: bool) -> str:
    if stack.problem and not stack.frames:
        return f"cannot be read: {stack.problem}"
    own, waits = stack.own_frame, stack.waits_in
    place = "" if own is None else f", {_place(own)}"
    if waits == "DataLoader":
        return f"{'are' if many else 'is'} in DataLoader{place}"
    if waits:
        return f"{'wait' if many else 'waits'} in {waits}{place}"
    verb = "are" if many else "is"
    if own is not None:
        inner = stack.frames[0]
        return f"{verb} in {own.function}{place}" + (
            "" if inner == own else f" (calls {inner.function}, {_place(inner)})"
        )
    if stack.frames:
        return f"{verb} in {stack.frames[0].function}, {_place(stack.frames[0])}"
    return f"{'run' if many else 'runs'} no Python code"


def _age(stacks: Iterable[RankStack]) -> str:
    """How old the oldest of these stacks is; empty where they were read at this moment."""
    oldest = max((each.reported_ago for each in stacks if each.reported_ago is not None), default=None)
    return "" if oldest is None else f" (reported {oldest:.0f} s ago)"


def _place(frame: Frame) -> str:
    return f"{PurePath(frame.file).name}:{frame.line}"


def _is_library(frame: Frame) -> bool:
    return Place(frame.file, frame.line, frame.function).is_library


def _names(members: tuple[str, ...], ranks: tuple[int, ...]) -> str:
    if len(ranks) != len(members):
        return ", ".join(members)
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {rank_ranges(ranks)}"


def rank_ranges(ranks: Iterable[int]) -> str:
    """`0, 2-5`: consecutive numbers as ranges."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
