"""An edition always makes the same objects of the same Job: an upgrade does not change Jobs that run.

Where a change is intended, see vcjob/plugins/edition.py. The file of an edition that was never released can be
written again: ``python -m tests.plan.test_edition``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plan.jobs import UID
from vcjob.admission.review import admit
from vcjob.plan.plan import Plan
from vcjob.plugins.edition import EDITION, KNOWN
from vcjob.plugins.wait import CONTAINER_NAME

FOLDER = Path(__file__).parent
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
JOB: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team", "uid": UID, "labels": {"team": "a"}},
    "spec": {
        "plugins": {"pytorch": ["--wait-master-enabled", "--nproc-per-node=2"], "env": []},
        "priorityClassName": "high",
        "volumes": [
            {"mountPath": "/data", "volumeClaim": CLAIM},
            {"mountPath": "/code", "volumeClaimName": "code"},
        ],
        "tasks": [
            {"name": name, "replicas": size, "template": {"spec": {"containers": [box], **more}}}
            for name, size, box, more in (
                ("master", 1, {"name": "main", "image": "torch:2", "env": [{"name": "A", "value": "b"}]}, {}),
                ("worker", 2, {"name": "main", "image": "torch:2"}, {"hostNetwork": True}),
                ("extra", 1, {"name": "main", "image": "torch:2"}, {"restartPolicy": "OnFailure"}),
            )
        ],
    },
}


PLAIN: dict[str, Any] = {
    **JOB,
    "spec": {**JOB["spec"], "plugins": {"pytorch": ["--port=5000"], "svc": ["--disable-network-policy"]}},
}


def made(edition: int) -> str:
    """Two Jobs with their defaults and all objects that are made of them, without the text of the wait program:
    it may be improved."""
    documents: list[dict[str, Any]] = []
    for job in (JOB, PLAIN):
        admission = admit(job, backend="cluster")
        assert admission.job is not None, admission.problems
        documents += [admission.job.doc, *Plan(admission.job, edition=edition).render()]
    for document in documents:
        for container in document.get("spec", {}).get("initContainers", ()):
            if container["name"] == CONTAINER_NAME:
                container["command"] = "(the wait program)"
    return json.dumps(documents, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("edition", sorted(KNOWN))
def test_an_edition_makes_what_it_always_made(edition: int) -> None:
    assert made(edition) == (FOLDER / f"edition-{edition}.json").read_text()


def test_the_second_edition_adds_the_local_rank_and_nothing_else() -> None:
    first, second = json.loads(made(1)), json.loads(made(2))
    for document in second:
        pod = document.get("spec", {})
        for container in [*pod.get("initContainers", ()), *pod.get("containers", ())]:
            container["env"] = [entry for entry in container["env"] if not entry["name"].startswith("LOCAL_")]
    assert first == second


def test_the_current_edition_is_a_known_one() -> None:
    assert EDITION == max(KNOWN)


if __name__ == "__main__":
    (FOLDER / f"edition-{EDITION}.json").write_text(made(EDITION))
