"""The goals, and how the medians of a race stand to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from bench.race.controllers.size import Size
from bench.race.report.results import Round, Row, row


class Goal(msgspec.Struct, frozen=True):
    scenario: str
    figure: str
    peer: str
    most: float | None  # None: the limit, which nobody can pass
    words: str


TUNED, DEFAULT, BARE = "volcano-tuned", "volcano-default", "bare"
GOALS = (
    Goal("a", "all_pods", TUNED, 0.6, "1 Job of {pods:,} pods: time to all pods"),
    Goal("a", "all_pods", DEFAULT, 0.1, "1 Job of {pods:,} pods: time to all pods"),
    Goal("a", "all_pods", BARE, 1.4, "1 Job of {pods:,} pods: time to all pods"),
    Goal("a", "cpu_seconds", TUNED, 0.5, "1 Job of {pods:,} pods: controller CPU"),
    Goal("a", "peak_mb", TUNED, 1.0, "1 Job of {pods:,} pods: controller peak memory"),
    Goal("b", "all_pods", TUNED, 0.5, "{jobs:,} Jobs of 3 pods: time to all pods"),
    Goal("b", "all_pods", DEFAULT, 0.1, "{jobs:,} Jobs of 3 pods: time to all pods"),
    Goal("b", "all_pods", BARE, None, "{jobs:,} Jobs of 3 pods: time to all pods"),
    Goal("b", "requests_per_job", TUNED, 0.45, "{jobs:,} Jobs of 3 pods: API requests per Job"),
    Goal("b", "cpu_seconds", TUNED, 0.5, "{jobs:,} Jobs of 3 pods: controller CPU"),
    Goal("b", "peak_mb", TUNED, 1.0, "{jobs:,} Jobs of 3 pods: controller peak memory"),
    Goal("c", "reaction_p99", TUNED, 0.5, "{rate:.0f} Jobs a second: create to first pod, 99th percentile"),
    Goal("c", "cpu_seconds", TUNED, 0.5, "{rate:.0f} Jobs a second: controller CPU"),
    Goal("c", "peak_mb", TUNED, 1.0, "{rate:.0f} Jobs a second: controller peak memory"),
    Goal("d", "all_running", TUNED, 0.7, "RestartJob of {pods:,} pods: to all Running again"),
    Goal("d", "cpu_seconds", TUNED, 0.5, "RestartJob of {pods:,} pods: controller CPU"),
    Goal("d", "peak_mb", TUNED, 1.0, "RestartJob of {pods:,} pods: controller peak memory"),
    Goal("e", "all_gone", TUNED, 0.7, "{deleted:,} Jobs deleted: to nothing left"),
    Goal("e", "cpu_seconds", TUNED, 0.5, "{deleted:,} Jobs deleted: controller CPU"),
    Goal("e", "peak_mb", TUNED, 1.0, "{deleted:,} Jobs deleted: controller peak memory"),
)
UNITS = {"cpu_seconds": "s", "peak_mb": "MB", "requests_per_job": "requests", "requests": "requests"}


def summary(rounds: Sequence[Round], size: Size) -> list[Row]:
    """One row for each goal that these rounds can speak of."""
    rows = []
    for goal in GOALS:
        ours, peer = (_median(rounds, goal.scenario, who, goal.figure) for who in ("ours", goal.peer))
        if ours is not None and peer is not None:
            words = f"({goal.scenario}) {goal.words.format(**msgspec.structs.asdict(size))}"
            rows.append(row(words, goal.peer, UNITS.get(goal.figure, "s"), ours, peer, goal.most))
    requests = _median(rounds, "a", "ours", "requests")
    if requests is not None:
        words = f"(a) 1 Job of {size.pods:,} pods: API requests"
        rows.append(row(words, "1.05 × pods + 30", "requests", requests, 1.05 * size.pods + 30, 1.0))
    return rows


def _median(rounds: Sequence[Round], scenario: str, who: str, figure: str) -> float | None:
    values = [
        found["figures"][figure]
        for found in rounds
        if found["scenario"] == scenario and found["who"] == who and figure in found["figures"]
    ]
    return statistics.median(values) if values else None
