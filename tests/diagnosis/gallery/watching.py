"""Waits for what a job of the gallery does, however busy the machine is.

A rank that imports torch may take minutes to start there, and each look at a job costs CPU time that its ranks need: so
the start and the finding have limits of their own, and there is a pause between two looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from vcjob.diagnosis.diagnose import HANGS
from vcjob.diagnosis.finding import Finding
from vcjob.local.logs.rank_reports import read_reports
from vcjob.local.run.run_dir import RunDir
from vcjob.sdk.local.handle import LocalHandle

#: Importing torch in all ranks, and from there to the finding.
STARTED, FOUND = 300.0, 120.0
_PAUSE = 0.3


def findings(handle: LocalHandle) -> list[Finding]:
    return [each for each in handle.why() if each.cause != "PodsPending"]


def a_line_of_every_rank(handle: LocalHandle, ranks: int = 3) -> None:
    """Wait until every rank has printed something."""
    _await(
        lambda: len({line.rank for line in handle.logs()}) >= ranks, STARTED, "a line of every rank", handle
    )


def finding_of(handle: LocalHandle, cause: str, part: str = "", first: tuple[str, ...] = ()) -> Finding:
    """Wait until this is the first finding. Another one may come before it, while the reports of some ranks are late."""

    def ranked_first() -> bool:
        found[:] = findings(handle)[:1]
        return any(_is(each, cause, part, first) for each in found)

    found: list[Finding] = []
    _await(ranked_first, FOUND, f"{cause} {part!r} of {first}", handle)
    return found[0]


def hang_events(handle: LocalHandle, cause: str) -> list[str]:
    """The messages of the events with this cause, oldest first."""
    return [event["message"] for event in handle.events() if event["reason"] == cause]


def ranks_in_a_collective(handle: LocalHandle) -> set[int]:
    """Ranks whose report says that they wait in a collective."""
    run = RunDir(handle.folder)
    return {
        report.state.rank
        for pod in handle.pods()
        for report in read_reports(run.pod_folder(pod.name, pod.attempt))
        if any(not call.done for call in report.state.collectives)
    }


def nothing_is_found(handle: LocalHandle, seconds: float) -> None:
    """Watch a job for so long; a remark about a slow rank is no finding of a hang."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert [each for each in findings(handle) if each.cause != "Straggler"] == []
        time.sleep(_PAUSE)
    assert handle.phase == "Running"
    hangs = [event["message"] for event in handle.events() if event["reason"] in HANGS]
    assert hangs == [], hangs


def until(condition: Callable[[], object], what: str, handle: LocalHandle) -> None:
    _await(condition, STARTED, what, handle)


def _is(found: Finding, cause: str, part: str, first: tuple[str, ...]) -> bool:
    return found.cause == cause and part in found.message and (not first or found.ranks.first == first)


def _await(condition: Callable[[], object], seconds: float, what: str, handle: LocalHandle) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            seen = [f"{each.cause}: {each.message}" for each in handle.why()]
            raise AssertionError(
                f"{what} did not come within {seconds:g} s; phase {handle.phase}, found {seen}"
            )
        time.sleep(_PAUSE)
