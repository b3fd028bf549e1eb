"""`make bench` runs every benchmark and every fuzzer."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "run-benches"
#: `make race` and `make soak` run these.
OTHER_TARGETS = ("race", "soak")


def listed() -> list[str]:
    output = subprocess.run([SCRIPT, "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return output.split()


def test_every_file_with_a_main_part_is_run() -> None:
    programs = {
        ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts)
        for path in (ROOT / "bench").rglob("*.py")
        if "\nif __name__ ==" in path.read_text(encoding="utf-8")
    }
    assert set(listed()) == {name for name in programs if not name.startswith(OTHER_TARGETS)}
    assert {"fuzz.http", "fuzz.jobs", "kube_client"} <= set(listed())


def test_every_name_is_a_module() -> None:
    assert [name for name in listed() if find_spec(f"bench.{name}") is None] == []


def test_a_benchmark_is_run_by_its_name_and_a_missed_goal_is_reported(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n[ "$2" != bench.fuzz.http ]\n')
    python.chmod(0o755)
    run = subprocess.run([SCRIPT, python, "logs", "fuzz.http"], text=True, capture_output=True)
    assert run.stdout.splitlines() == [
        "== python -m bench.logs",
        "-m bench.logs",
        "== python -m bench.fuzz.http",
        "-m bench.fuzz.http",
    ]
    assert (run.returncode, run.stderr) == (1, "goals missed: fuzz.http\n")
