"""The points of the progress charts: bounded, thinned evenly, in the form that takes precedence."""

from __future__ import annotations

import itertools

from vcjob.report.progress import ProgressPoint, TimedLine, point_of
from vcjob.ui.history import MAX_POINTS, History


def points(*lines: str) -> list[tuple[float, int | None, float | None]]:
    history = History()
    for moment, line in enumerate(lines):
        point = point_of(TimedLine(line, float(moment)))
        if point is not None:
            history.add(point)
    return history.points()


def test_lines_without_progress_are_no_points() -> None:
    assert points("loading", "step 1/9 loss 0.5", "saved", "step 2/9 loss 0.4") == [
        (1.0, 1, 0.5),
        (3.0, 2, 0.4),
    ]


def test_lines_in_the_own_form_replace_all_others() -> None:
    found = points(
        "step 7/9", "vcjob-progress: step=1 loss=2.0", "step 8/9", "vcjob-progress: step=2 loss=1.0"
    )
    assert found == [(1.0, 1, 2.0), (3.0, 2, 1.0)]


def test_however_many_steps_there_are_the_points_are_few_evenly_spread_and_end_with_the_newest() -> None:
    history = History()
    steps = 100_000
    for step in range(steps + 1):
        history.add(ProgressPoint(float(step), step, None))
    found = [step for _, step, _ in history.points() if step is not None]
    assert found[0] == 0 and found[-1] == steps
    assert MAX_POINTS / 2 <= len(found) <= MAX_POINTS + 1
    gaps = {after - before for before, after in itertools.pairwise(found[:-1])}
    assert len(gaps) == 1
