"""The whole race, or parts of it: one table, the figures as JSON, and the pictures.

    python -m bench.race [--quick] [--only controller,launcher,waiting,growth] [--publish]

Each part leaves its figures in bench/race/results/. A whole run, or --publish with what the last runs of the
parts have left, writes docs/performance/: results.json, the pictures, and the table in docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from types import ModuleType
from typing import Any

from bench.race.report import charts
from bench.race.report.results import FOLDER, ROOT, Row, write_json
from bench.race.report.table import markdown, text

#: In this order: first what needs the quietest machine.
PARTS = {
    "launcher": "launching.race",
    "waiting": "launching.waiting",
    "growth": "growth",
    "controller": "controllers.race",
}
TITLES = {
    "controller": "The controller compared with Volcano's",
    "launcher": "Launching compared with torchrun",
    "waiting": "wait-for-master compared with Volcano's loop",
    "growth": "Growth with the number of pods",
}
DOCS = ROOT / "docs" / "performance"
PAGE = ROOT / "docs" / "performance.md"
EVERY_FIGURE = "All figures are in [results.json](performance/results.json)."
BEGIN, END = "<!-- the race: written by make race -->", "<!-- the end of the race -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes; nothing is published")
    parser.add_argument("--only", default="", help=f"parts, with commas: {', '.join(PARTS)}")
    parser.add_argument("--publish", action="store_true", help="no run: publish what the last runs found")
    given = parser.parse_args()
    chosen = [name for name in given.only.split(",") if name] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if given.publish:
        publish()
        return 0
    rows: list[Row] = []
    for name in chosen:
        print(f"== {name}", file=sys.stderr, flush=True)
        rows += module_of(name).main(["--quick"] if given.quick else [])
    print(text(rows))
    if not given.quick and len(chosen) == len(PARTS):
        publish()
    missed = [row["name"] for row in rows if not row["met"]]
    print(f"{len(rows) - len(missed)} of {len(rows)} goals met", file=sys.stderr)
    return 1 if missed else 0


def module_of(part: str) -> ModuleType:
    return importlib.import_module(f"bench.race.{PARTS[part]}")


def publish() -> None:
    """Everything that the last runs of the parts have found, into the docs."""
    found: dict[str, dict[str, Any]] = {
        name: json.loads(path.read_text()) for name in TITLES if (path := FOLDER / f"{name}.json").exists()
    }
    write_json(DOCS / "results.json", found)
    pictures = {name: charts.ratios(TITLES[name], part["summary"]) for name, part in found.items()}
    if "launcher" in found:
        pictures["launcher-seconds"] = charts.launchers(found["launcher"]["rounds"])
    if "growth" in found:
        pictures["growth"] = charts.growth(found["growth"]["rounds"], found["growth"]["summary"])
    for name, picture in pictures.items():
        (DOCS / f"{name}.svg").write_text(picture)
    page = PAGE.read_text()
    head, tail = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    sections = "".join(_section(name, part) for name, part in found.items())
    PAGE.write_text(f"{head}\n\n{EVERY_FIGURE}\n{sections}\n{tail}")


def _section(name: str, part: dict[str, Any]) -> str:
    machine, versions = part["machine"], part["versions"]
    where = (
        f"{machine['cores']} cores{_of(machine)}, {machine['memory_gb']:g} GiB, {machine['system']}, {machine['date']}; "
        + ", ".join(f"{what} {version}" for what, version in versions.items())
    )
    pictures = [name, "launcher-seconds"] if name == "launcher" else [name]
    shown = "\n\n".join(f"![{TITLES[name]}](performance/{each}.svg)" for each in pictures)
    return f"\n### {TITLES[name]}\n\n{where}.\n\n{markdown(part['summary'])}\n\n{shown}\n{_words(part)}"


def _of(machine: dict[str, Any]) -> str:
    return f" ({machine['processor']})" if machine.get("processor") else ""


def _words(part: dict[str, Any]) -> str:
    """What each launcher says about the rank that died first."""
    said = {r["who"]: r["figures"]["words"] for r in part["rounds"] if r["figures"].get("words")}
    if not said:
        return ""
    lines = "\n".join(f"| {who} | `{words[:160].replace('|', '/')}` |" for who, words in said.items())
    return f"\nWhat each says about the first rank that died:\n\n| | |\n|---|---|\n{lines}\n"


if __name__ == "__main__":
    sys.exit(main())
