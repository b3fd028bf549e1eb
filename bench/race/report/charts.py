"""The pictures of a race: each takes what a part has found and gives SVG text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from bench.race.report.drawing import Drawing
from bench.race.report.results import Round, Row

WIDTH = 920
_LABELS = 430
_ROOM = WIDTH - _LABELS - 160


def ratios(title: str, rows: Sequence[Row]) -> str:
    """A bar for each row: ours as a part of the peer's, with a mark where the goal is."""
    drawing = Drawing(WIDTH, title)
    drawing.text(
        12, 44, "vcjob as a part of the peer (1 = as much as the peer); the mark is the goal", "faint"
    )
    rows = [row for row in rows if row["goal"] is not None]
    most = min(2.0, max([1.0, *(max(row["ratio"], row["goal"]) for row in rows)]))
    scale = _ROOM / most
    for place, row in enumerate(rows):
        y = 60 + place * 24
        drawing.text(_LABELS - 8, y + 13, _short(row["name"]), "end")
        drawing.bar(_LABELS, y + 3, min(row["ratio"], most) * scale, 13, "ours" if row["met"] else "missed")
        goal = _LABELS + min(row["goal"], most) * scale
        drawing.line([(goal, y), (goal, y + 19)], "goal")
        compared = f"{row['ratio']:.2f} × {row['peer_name']}"
        drawing.text(_LABELS + _ROOM + 10, y + 13, compared, "faint")
    return drawing.svg()


def launchers(rounds: Sequence[Round]) -> str:
    """Seconds to the first collective, one group of bars for each number of ranks, less is better."""
    drawing = Drawing(WIDTH, "From the command to the first collective of all ranks, seconds (median)")
    scenarios = [s for s in dict.fromkeys(r["scenario"] for r in rounds) if s.startswith("first collective")]
    medians = {
        (scenario, who): statistics.median(values)
        for scenario in scenarios
        for who in dict.fromkeys(r["who"] for r in rounds)
        if (values := _values(rounds, scenario, who, "seconds"))
    }
    scale = (WIDTH - 260) / max(medians.values(), default=1.0)
    y = 44.0
    for scenario in scenarios:
        drawing.text(12, y + 14, scenario.partition(", ")[2])
        for (of, who), seconds in medians.items():
            if of != scenario:
                continue
            drawing.text(190, y + 13, _NAMES.get(who, who), "end")
            kind = "ours" if who in ("plain", "warm", "kept") else "peer"
            drawing.bar(198, y + 2, seconds * scale, 14, kind)
            drawing.text(204 + seconds * scale, y + 13, f"{seconds:.2f}", "faint")
            y += 20
        y += 14
    return drawing.svg()


def growth(rounds: Sequence[Round], rows: Sequence[Row]) -> str:
    """CPU over the number of pods, both logarithmic."""
    drawing = Drawing(WIDTH, "CPU seconds over the number of pods, less the cost at one pod")
    lines = {name: _curve(rounds, name) for name in dict.fromkeys(r["scenario"] for r in rounds)}
    points = [point for line in lines.values() for point in line]
    if not points:
        return drawing.svg()
    left, right, top, bottom = 70.0, WIDTH - 230.0, 50.0, 330.0
    low, high = (edge(math.log10(cost) for _, cost in points) for edge in (min, max))
    low, high = math.floor(low), math.ceil(high)
    most = math.log10(max(size for size, _ in points))

    def place(size: float, cost: float) -> tuple[float, float]:
        x = left + (math.log10(size) - 1) / (most - 1) * (right - left)
        return x, bottom - (math.log10(cost) - low) / (high - low) * (bottom - top)

    for power in range(low, high + 1):
        _, y = place(10, 10.0**power)
        drawing.line([(left, y), (right, y)], "axis")
        drawing.text(left - 8, y + 4, _seconds(power), "faint end")
    for power in range(1, round(most) + 1):
        x, _ = place(10.0**power, 10.0**low)
        drawing.text(x, bottom + 20, f"{10**power:,}", "faint middle")
    slopes = {row["name"].removeprefix("growth of ").partition(":")[0]: row["ours"] for row in rows}
    ends = sorted((place(*line[-1])[1], name) for name, line in lines.items() if line)
    last = 0.0
    for kind, (y, name) in zip("abcd", ends, strict=False):
        drawing.line([place(*point) for point in lines[name]], f"line {kind}")
        for point in lines[name]:
            drawing.dot(*place(*point), kind)
        last = max(last + 18, y + 4)
        drawing.text(right + 12, last, f"{name}: exponent {slopes.get(name, math.nan):.2f}", kind)
    return drawing.svg()


_NAMES = {
    "plain": "vcjob run",
    "warm": "vcjob run --warm",
    "kept": "vcjob, kept warm",
    "torchx": "TorchX local",
    "accelerate": "accelerate launch",
    "bare": "the bare processes",
}


def _curve(rounds: Sequence[Round], name: str) -> list[tuple[int, float]]:
    costs = {r["figures"]["pods"]: r["figures"]["cpu_seconds"] for r in rounds if r["scenario"] == name}
    return [(size, costs[size] - costs[1]) for size in sorted(costs) if size > 1 and costs[size] > costs[1]]


def _values(rounds: Sequence[Round], scenario: str, who: str, figure: str) -> list[Any]:
    return [r["figures"][figure] for r in rounds if r["scenario"] == scenario and r["who"] == who]


def _seconds(power: int) -> str:
    return f"{10**power:,} s" if power >= 0 else f"{10.0**power:.{-power}f} s"


def _short(name: str) -> str:
    return name if len(name) <= 62 else name[:61] + "…"
