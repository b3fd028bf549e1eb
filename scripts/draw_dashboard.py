"""Draws the panels of the Grafana dashboard from real metrics: docs/images/dashboard.svg.

    python -m scripts.draw_dashboard [MINUTES]

Starts the testbed, installs the controller on its real node, runs Jobs on fake nodes while Debian's Prometheus scrapes
both replicas, and then evaluates every query of charts/vcjob/dashboards/vcjob.json. Grafana itself is not needed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from html import escape
from pathlib import Path
from typing import Any

from bench.soak.controller import JOBS, job_of
from tests.testbed.api import ApiError
from tests.testbed.cluster import Cluster
from tests.testbed.images.catalog import VCJOB
from tests.testbed.parts.part import Part

ROOT = Path(__file__).parent.parent
DASHBOARD = ROOT / "charts/vcjob/dashboards/vcjob.json"
PICTURE = ROOT / "docs/images/dashboard.svg"
PORT = 9090
JOBS_A_SECOND = 3.0
CELL, ROW, GAP = 50, 34, 8
COLOURS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#9ac48a")
Series = tuple[str, list[tuple[float, float]]]


class Prometheus:
    """A real Prometheus inside the testbed that scrapes the controller's pods."""

    def __init__(self, cluster: Cluster) -> None:
        program = shutil.which("prometheus")
        if program is None:
            raise SystemExit("prometheus is not installed (Debian's package has that name)")
        pods = cluster.api.list("/api/v1/namespaces/vcjob-system/pods")
        targets = [f"{pod['status']['podIP']}:8081" for pod in pods if pod["status"].get("podIP")]
        scrape = [{"job_name": "vcjob-metrics", "static_configs": [{"targets": targets}]}]
        settings = {"global": {"scrape_interval": "2s"}, "scrape_configs": scrape}
        file = cluster.folder / "prometheus.yml"
        file.write_text(json.dumps(settings))
        command = [program, f"--config.file={file}", f"--storage.tsdb.path={cluster.folder / 'prometheus'}",
                   f"--web.listen-address=0.0.0.0:{PORT}"]  # fmt: skip
        part = Part(cluster.cell, "prometheus", command).start()
        part.wait_until(lambda: part.answers(PORT, "/-/ready"), "ready", 60)
        self._url = f"http://{cluster.cell.address}:{PORT}/api/v1/query_range"

    def series(self, target: dict[str, str], start: float, end: float) -> list[Series]:
        """What one query of a panel returns, named by its legend."""
        query = {
            "query": target["expr"].replace("$__rate_interval", "20s"),
            "start": start,
            "end": end,
            "step": 2,
        }
        url = f"{self._url}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url) as response:  # noqa: S310 - an http URL of the testbed
            found = json.load(response)["data"]["result"]
        named = []
        for each in found:
            legend = target["legendFormat"]
            for label, value in each["metric"].items():
                legend = legend.replace("{{" + label + "}}", value)
            points = [(at, float(value)) for at, value in each["values"] if value != "NaN"]
            if points and any(value for _, value in points):
                named.append((legend, points))
        return named


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    with Cluster.start(audit=False) as cluster:
        cluster.start_node("vcjob")
        cluster.start_dns()
        install = [sys.executable, "-m", "vcjob", "install", "--image", VCJOB, "--kubeconfig"]
        subprocess.run([*install, str(cluster.kubeconfig)], check=True)
        cluster.fakes(5, pods=1000)
        prometheus = Prometheus(cluster)
        start = time.time()
        run_jobs(cluster, minutes * 60)
        PICTURE.write_text(draw(json.loads(DASHBOARD.read_text())["panels"], prometheus, start, time.time()))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1024} KiB")
    return 0


def run_jobs(cluster: Cluster, seconds: float) -> None:
    """Jobs that complete, fail, restart and expire, and some that admission rejects."""
    began, number = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        if number >= passed * JOBS_A_SECOND:
            time.sleep(0.1)
            continue
        document = job_of(number, after="5s")
        if number % 15 == 14:
            document["spec"]["tasks"] = []
        try:
            cluster.api.create(JOBS, document)
        except ApiError as error:
            assert number % 15 == 14, error
        number += 1


def draw(panels: list[dict[str, Any]], prometheus: Prometheus, start: float, end: float) -> str:
    shapes = []
    for panel in panels:
        place = panel["gridPos"]
        x, y = place["x"] * CELL + GAP, place["y"] * ROW + GAP
        width, height = place["w"] * CELL - GAP, place["h"] * ROW - GAP
        series = [each for target in panel["targets"] for each in prometheus.series(target, start, end)]
        unit = panel["fieldConfig"]["defaults"]["unit"]
        shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="#181b1f" stroke="#2c3235"/>'
        )
        shapes.append(_text(x + 10, y + 18, panel["title"], "title"))
        if not series:
            shapes.append(_text(x + width / 2, y + height / 2 + 6, "0" if panel["type"] == "stat" else "none", "none"))  # fmt: skip
        elif panel["type"] == "stat":
            legend, points = series[0]
            value = _amount(points[-1][1], unit) + (f" × {legend}" if legend else "")
            shapes.append(_text(x + width / 2, y + height / 2 + 18, value, "value"))
        else:
            shapes += _plot(series, unit, (x + 58, y + 30, width - 70, height - 74), (start, end))
            shapes += _legend(series, x + 10, y + height - 22, width - 20)
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * ROW + GAP
    style = (
        "text{font:12px system-ui,sans-serif;fill:#ccccdc}.title{font-weight:600}.faint{fill:#8e8e9c;font-size:10px}"
        ".end{text-anchor:end}.value{font-size:24px;fill:#73bf69;text-anchor:middle}.none{fill:#8e8e9c;text-anchor:middle}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * CELL + GAP} {bottom}" role="img" '
        f'aria-label="The dashboard of the controller"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#111217"/>{"".join(shapes)}</svg>\n'
    )


def _plot(
    series: list[Series], unit: str, box: tuple[float, float, float, float], span: tuple[float, float]
) -> list[str]:
    x, y, width, height = box
    top = max(value for _, points in series for _, value in points) * 1.1
    shapes = []
    for part in (0.0, 0.5, 1.0):
        at = y + height * (1 - part)
        shapes.append(
            f'<path d="M{x:.0f},{at:.1f}h{width:.0f}" stroke="#2c3235" fill="none"/>'
            + _text(x - 6, at + 4, _amount(top * part, unit), "faint end")
        )
    for number, (_, points) in enumerate(series):
        path = " L".join(
            f"{x + width * (at - span[0]) / (span[1] - span[0]):.1f},{y + height * (1 - value / top):.1f}"
            for at, value in points
        )
        shapes.append(
            f'<path d="M{path}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.5"/>'
        )
    return shapes


def _legend(series: list[Series], x: float, y: float, width: float) -> list[str]:
    shapes, left = [], x
    for number, (name, _) in enumerate(series):
        size = 6.2 * len(name) + 26
        if left + size > x + width and left > x:
            left, y = x, y + 14
        shapes.append(
            f'<rect x="{left:.0f}" y="{y - 5:.0f}" width="10" height="3" fill="{COLOURS[number % len(COLOURS)]}"/>'
            + _text(left + 14, y, name, "faint")
        )
        left += size
    return shapes[:8]


def _amount(value: float, unit: str) -> str:
    if unit == "s" and value >= 86400:
        return f"{value / 86400:.0f} days"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    return f"{value:.3g}" + {"ops": "/s", "reqps": "/s"}.get(unit, "")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(words)}</text>'


if __name__ == "__main__":
    sys.exit(main())
