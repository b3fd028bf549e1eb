"""``python -m tests.conformance``: AGAINST=volcano|ours|both SUITE=jobp,... FOCUS=regex SPEC_LIMIT=seconds from the environment.

Reports of every spec (Ginkgo's JSON, its output, the objects of a failed one) are left in ``dist/conformance``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.backends import BACKENDS, testbed
from tests.conformance.known import known_differences
from tests.conformance.running import Outcome, Runner
from tests.conformance.specs import SUITES, Spec, find_specs
from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.paths import REPOSITORY
from tests.testbed.programs.builder import build_all
from vcjob.cluster.install.settings import NAMESPACE as HOME

REPORTS = REPOSITORY / "dist" / "conformance"
LIMIT = 240.0
SHORT = {"passed": "pass", "failed": "FAIL", "timed out": "LATE", "skipped": "skip"}
Results = dict[str, dict[Spec, Outcome]]


def main() -> int:
    problem = support.node_problem()
    if problem:
        raise SystemExit(f"no conformance run here: {problem}")
    against = _chosen("AGAINST", BACKENDS, "both")
    suites = _chosen("SUITE", SUITES, "all")
    try:
        limit = float(os.environ.get("SPEC_LIMIT") or LIMIT)
        focus = re.compile(os.environ.get("FOCUS") or "")
    except (ValueError, re.error) as error:
        raise SystemExit(f"SPEC_LIMIT is a number of seconds, FOCUS a regular expression: {error}") from error
    build_all(["volcano", "volcano-e2e"])
    pool = ThreadPoolExecutor()  # side by side: specs mostly wait
    running = {name: pool.submit(_run, name, suites, focus, limit) for name in against}
    try:
        results: Results = {name: future.result() for name, future in running.items()}
    except KeyboardInterrupt:
        # The clusters and the specs end with this process; its threads would go on to the last spec.
        os._exit(130)
    print()
    _print_table(results)
    return _verdict(results, whole=suites == list(SUITES) and not focus.pattern)


def _chosen(variable: str, choices: tuple[str, ...], everything: str) -> list[str]:
    given = os.environ.get(variable) or everything
    chosen = list(choices) if given == everything else given.split(",")
    unknown = [name for name in chosen if name not in choices]
    if unknown:
        raise SystemExit(
            f"{variable} is {given!r}; it can be {everything} or, by commas, {', '.join(choices)}"
        )
    return chosen


def _run(name: str, suites: list[str], focus: re.Pattern[str], limit: float) -> dict[Spec, Outcome]:
    folder = REPORTS / name
    with testbed(name) as cluster:
        specs = find_specs(cluster.kubeconfig, suites, focus)
        if not specs:
            raise SystemExit(f"FOCUS={focus.pattern!r} matches no spec about Jobs")
        print(f"{len(specs)} specs against {name}", flush=True)
        began, done = time.monotonic(), 0

        def tell(spec: Spec, outcome: Outcome) -> None:
            nonlocal done
            done += 1
            line = f"{name} {done}/{len(specs)} {SHORT[outcome.verdict]} {outcome.seconds:5.1f} s  {spec.suite}: {spec.name}"
            print(line + (f"\n    {outcome.message}" if outcome.message else ""), flush=True)

        outcomes = Runner(cluster, folder, limit).run(specs, tell)
        print(f"{name}: {len(specs)} specs in {time.monotonic() - began:.0f} s", flush=True)
        _keep_logs(cluster, folder)
    _write(folder / "summary.json", outcomes)
    return outcomes


def _keep_logs(cluster: Cluster, target: Path) -> None:
    for log in (cluster.folder / "logs").glob("vc-*.log"):
        (target / log.name).write_bytes(log.read_bytes())
    home = f"/api/v1/namespaces/{HOME}/pods"
    for pod in cluster.api.list(home):
        name = pod["metadata"]["name"]
        (target / f"{name}.log").write_text(cluster.api.text(f"{home}/{name}/log"))


def _write(file: Path, outcomes: dict[Spec, Outcome]) -> None:
    rows = [
        {"suite": spec.suite, "spec": spec.name, "verdict": outcome.verdict, "seconds": round(outcome.seconds, 1),
         "message": outcome.message}
        for spec, outcome in outcomes.items()
    ]  # fmt: skip
    file.write_text(json.dumps(rows, indent=1) + "\n")


def _print_table(results: Results) -> None:
    print("".join(f"{name:>9}" for name in results), " spec")
    for spec in next(iter(results.values())):
        verdicts = "".join(f"{SHORT[outcomes[spec].verdict]:>9}" for outcomes in results.values())
        print(f"{verdicts}  {spec.suite}: {spec.name}")
    for name, outcomes in results.items():
        counted = [outcome.verdict for outcome in outcomes.values()]
        print(f"{name}: " + ", ".join(f"{counted.count(v)} {v}" for v in SHORT if v in counted))


def _verdict(results: Results, whole: bool) -> int:
    """Fails where ours differs from what the compatibility page says."""
    if "ours" not in results:
        return 0
    known = known_differences()
    problems = []
    if whole:
        gone = known - {(spec.suite, spec.name) for spec in results["ours"]}
        problems += [
            f"{suite}: {name}: in docs/compatibility.md, but no such spec is run" for suite, name in gone
        ]
    for spec, outcome in results["ours"].items():
        listed = (spec.suite, spec.name) in known
        if outcome.verdict in ("failed", "timed out") and not listed:
            problems.append(
                f"{spec.suite}: {spec.name}: {outcome.verdict}, and docs/compatibility.md has no word of it"
            )
        if outcome.verdict == "passed" and listed:
            problems.append(
                f"{spec.suite}: {spec.name}: passed, though docs/compatibility.md says that it differs"
            )
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
