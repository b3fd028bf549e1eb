"""The goals, and how the medians of a race stand to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

Round = dict[str, Any]  # scenario, who, round, figures


class Goal(msgspec.Struct, frozen=True):
    scenario: str
    figure: str
    peer: str
    most: float
    words: str


TUNED, DEFAULT, BARE = "volcano-tuned", "volcano-default", "bare"
GOALS = (
    Goal("a", "all_pods", TUNED, 0.6, "1 Job of 1,000 pods: time to all pods"),
    Goal("a", "all_pods", DEFAULT, 0.1, "1 Job of 1,000 pods: time to all pods"),
    Goal("a", "all_pods", BARE, 1.4, "1 Job of 1,000 pods: time to all pods"),
    Goal("a", "cpu_seconds", TUNED, 0.5, "1 Job of 1,000 pods: controller CPU"),
    Goal("a", "peak_mb", TUNED, 1.0, "1 Job of 1,000 pods: controller peak memory"),
    Goal("b", "all_pods", TUNED, 0.5, "300 Jobs of 3 pods: time to all pods"),
    Goal("b", "all_pods", DEFAULT, 0.1, "300 Jobs of 3 pods: time to all pods"),
    Goal("b", "requests_per_job", TUNED, 0.45, "300 Jobs of 3 pods: API requests per Job"),
    Goal("b", "cpu_seconds", TUNED, 0.5, "300 Jobs of 3 pods: controller CPU"),
    Goal("b", "peak_mb", TUNED, 1.0, "300 Jobs of 3 pods: controller peak memory"),
    Goal("c", "reaction_p99", TUNED, 0.5, "50 Jobs a second: create to first pod, 99th percentile"),
    Goal("c", "cpu_seconds", TUNED, 0.5, "50 Jobs a second: controller CPU"),
    Goal("c", "peak_mb", TUNED, 1.0, "50 Jobs a second: controller peak memory"),
    Goal("d", "all_running", TUNED, 0.7, "RestartJob of 1,000 pods: to all Running again"),
    Goal("d", "cpu_seconds", TUNED, 0.5, "RestartJob of 1,000 pods: controller CPU"),
    Goal("d", "peak_mb", TUNED, 1.0, "RestartJob of 1,000 pods: controller peak memory"),
    Goal("e", "all_gone", TUNED, 0.7, "2,000 Jobs deleted: to nothing left"),
    Goal("e", "cpu_seconds", TUNED, 0.5, "2,000 Jobs deleted: controller CPU"),
    Goal("e", "peak_mb", TUNED, 1.0, "2,000 Jobs deleted: controller peak memory"),
)
UNITS = {"cpu_seconds": "s", "peak_mb": "MB", "requests_per_job": "requests", "requests": "requests"}


def summary(rounds: Sequence[Round], pods: int) -> list[dict[str, Any]]:
    """One row for each goal that these rounds can speak of."""
    rows = []
    for goal in GOALS:
        ours, peer = (_median(rounds, goal.scenario, who, goal.figure) for who in ("ours", goal.peer))
        if ours is not None and peer is not None:
            rows.append(
                _row(f"({goal.scenario}) {goal.words}", goal.peer, ours, peer, goal.most, goal.figure)
            )
    requests = _median(rounds, "a", "ours", "requests")
    if requests is not None:
        allowed = 1.05 * pods + 30
        rows.append(
            _row(
                "(a) 1 Job of 1,000 pods: API requests",
                "1.05 × pods + 30",
                requests,
                allowed,
                1.0,
                "requests",
            )
        )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'':58} {'ours':>9} {'peer':>9} {'ratio':>6} {'goal':>5}"]
    for row in rows:
        verdict = "met" if row["met"] else "MISSED"
        against = f"{row['name']}, against {row['peer_name']}"
        lines.append(
            f"{against:90} {row['ours']:9.2f} {row['peer']:9.2f} {row['ratio']:6.2f} {row['goal']:5.2f}  {verdict}"
        )
    return "\n".join(lines)


def _row(name: str, peer_name: str, ours: float, peer: float, most: float, figure: str) -> dict[str, Any]:
    ratio = ours / peer if peer else float("inf")
    return {
        "name": name,
        "peer_name": peer_name,
        "unit": UNITS.get(figure, "s"),
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "ratio": round(ratio, 3),
        "goal": most,
        "met": ratio <= most,
    }


def _median(rounds: Sequence[Round], scenario: str, who: str, figure: str) -> float | None:
    values = [
        found["figures"][figure]
        for found in rounds
        if found["scenario"] == scenario and found["who"] == who and figure in found["figures"]
    ]
    return statistics.median(values) if values else None
