"""What a part of the race leaves behind: the machine, the versions, every round, and a row for every goal."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcjob._version import __version__

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "bench" / "race" / "results"
Row = dict[str, Any]
Round = dict[str, Any]


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def one_round(scenario: str, who: str, number: int, figures: Mapping[str, Any]) -> Round:
    return {"scenario": scenario, "who": who, "round": number, "figures": dict(figures)}


def row(name: str, peer_name: str, unit: str, ours: float, peer: float, goal: float | None) -> Row:
    """`ours` may be at most `goal` times `peer`; without a goal the row only tells."""
    ratio = ours / peer if peer else float("inf")
    return {
        "name": name,
        "peer_name": peer_name,
        "unit": unit,
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "ratio": round(ratio, 3),
        "goal": goal,
        "met": goal is None or ratio <= goal,
    }


def limit_row(name: str, unit: str, ours: float, limit: float) -> Row:
    """A row whose goal is no ratio but a figure."""
    found = row(name, "the limit", unit, ours, limit, 1.0)
    return {**found, "met": ours <= limit}


def write(part: str, rounds: Sequence[Round], summary: Sequence[Row], versions: Mapping[str, str]) -> None:
    write_json(
        FOLDER / f"{part}.json",
        {
            "machine": machine(),
            "versions": dict(versions, vcjob=__version__, python=platform.python_version()),
            "rounds": list(rounds),
            "summary": list(summary),
        },
    )


def earlier(part: str, except_for: Sequence[str]) -> list[Round]:
    """The rounds of the last run of a part, less those scenarios."""
    path = FOLDER / f"{part}.json"
    if not path.exists():
        return []
    return [r for r in json.loads(path.read_text())["rounds"] if r["scenario"] not in except_for]


def write_json(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=1) + "\n")
    fresh.rename(path)
