"""The race's own arithmetic: requests out of an audit log, medians against goals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.race.controllers.audit import AuditMark, by_verb
from bench.race.controllers.size import FULL
from bench.race.report.goals import summary
from bench.race.report.table import text


def event(user: str, verb: str, resource: str, subresource: str = "") -> str:
    ref = {"resource": resource, "subresource": subresource}
    return json.dumps({"user": {"username": user}, "verb": verb, "objectRef": ref, "stage": "x"}) + "\n"


def test_requests_are_counted_from_a_mark_on_for_one_user_and_without_leases(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(event("me", "create", "pods"))
    mark = AuditMark(log)
    with log.open("a") as more:
        more.write(event("me", "create", "pods") * 2 + event("me", "patch", "jobs", "status"))
        more.write(event("me", "update", "leases") + event("you", "create", "pods") + '{"user": {"user')
    counted = mark.since("me")
    assert counted == {("create", "pods"): 2, ("patch", "jobs/status"): 1}
    assert by_verb(counted) == {"create": 2, "patch": 1}


def test_a_log_that_is_not_there_yet_counts_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    mark = AuditMark(log)
    log.write_text(event("me", "get", "pods"))
    assert mark.since("me").total() == 1


def ran(scenario: str, who: str, **figures: float) -> dict[str, Any]:
    return {"scenario": scenario, "who": who, "round": 1, "figures": figures}


def test_medians_are_held_against_the_goals() -> None:
    rounds = [ran("a", "ours", all_pods=seconds, requests=1040) for seconds in (1.0, 9.0, 1.2)]
    rounds += [ran("a", "volcano-tuned", all_pods=seconds) for seconds in (2.0, 2.1, 9.0)]
    rows = {row["name"] + row["peer_name"]: row for row in summary(rounds, FULL)}
    assert len(rows) == 2, "nothing is said where nobody ran"
    time = rows["(a) 1 Job of 1,000 pods: time to all podsvolcano-tuned"]
    assert (time["ours"], time["peer"], time["ratio"], time["met"]) == (1.2, 2.1, 0.571, True)
    requests = rows["(a) 1 Job of 1,000 pods: API requests1.05 × pods + 30"]
    assert requests["met"] and requests["peer"] == 1080
    assert "met" in text(list(rows.values()))


def test_a_missed_goal_says_so() -> None:
    rows = summary([ran("c", "ours", reaction_p99=1.0), ran("c", "volcano-tuned", reaction_p99=1.5)], FULL)
    assert [row["met"] for row in rows] == [False]
    assert "MISSED" in text(rows)
