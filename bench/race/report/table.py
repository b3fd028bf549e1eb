"""The rows of a race as text for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence

from bench.race.report.results import Row


def text(rows: Sequence[Row]) -> str:
    width = max((len(_title(row)) for row in rows), default=0)
    lines = [f"{'':{width}}  {'vcjob':>10} {'peer':>10} {'':8} {'ratio':>7} {'goal':>6}"]
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['goal']:g}"
        lines.append(
            f"{_title(row):{width}}  {_number(row['ours']):>10} {_number(row['peer']):>10} {row['unit']:8} "
            f"{row['ratio']:>7.3f} {goal:>6}  {_verdict(row)}"
        )
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: Sequence[Row]) -> str:
    lines = ["| what | compared with | vcjob | peer | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['goal']:g}"
        ours, peer = (f"{_number(row[side])} {row['unit']}".strip() for side in ("ours", "peer"))
        cells = (row["name"], row["peer_name"], ours, peer, f"{row['ratio']:.2f}", goal, _verdict(row))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _title(row: Row) -> str:
    return f"{row['name']}, compared with {row['peer_name']}"


def _verdict(row: Row) -> str:
    if row["goal"] is None:
        return ""
    return "met" if row["met"] else "MISSED"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
