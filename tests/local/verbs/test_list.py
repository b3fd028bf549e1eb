"""`vcjob list`: which jobs it lists, and in which order."""

from __future__ import annotations

import json
from typing import Any

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, job, task


def test_jobs_are_listed_by_phase_and_labels_the_newest_last_up_to_a_limit(file: Any) -> None:
    for name, team, command in (("one", "a", "true"), ("two", "b", "exit 3"), ("three", "a", "sleep 600")):
        document = job(task("x", command), name=name)
        document["metadata"]["labels"] = {"team": team}
        handle = vcjob.run(document)
        if name != "three":
            handle.wait(PATIENCE)

    def listed(*words: str) -> list[str]:
        return [line.split()[0] for line in verb("list", *words).stdout.splitlines()[1:]]

    assert listed() == ["one", "two", "three"]
    assert listed("--running") == ["three"]
    assert listed("--phase", "failed", "--phase", "Completed") == ["one", "two"]
    assert listed("-l", "team=a") == ["one", "three"]
    assert listed("-l", "team!=a,team") == ["two"]
    assert verb("list", "-l", "a=b=c").returncode == 2
    limited = verb("list", "--limit", "1")
    assert limited.stdout.splitlines()[1].split()[0] == "three"
    assert limited.stderr == "vcjob: 2 older jobs not shown; `vcjob list --limit 0` shows all\n"
    assert len(json.loads(verb("list", "-o", "json", "--limit", "2").stdout)["items"]) == 2


def test_a_completed_job_has_all_pods_although_it_ended_some_itself(file: Any) -> None:
    complete = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    document = job(
        task("main", "true", policies=complete), task("helper", "sleep 600", replicas=2), name="done"
    )
    assert vcjob.run(document).wait(PATIENCE) == "Completed"
    assert verb("list").stdout.splitlines()[1].split()[:3] == ["done", "Completed", "3/3"]
