"""What an edition made once, it makes for ever: Jobs that run are not changed by an upgrade.

Where this fails by intent, see vcjob/plan/edition.py; an edition that was never released may be written
anew: ``python -m tests.plan.test_edition``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plan.jobs import UID
from vcjob.admission import admit
from vcjob.plan.edition import EDITION, KNOWN
from vcjob.plan.plan import Plan
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


def made() -> str:
    """The Job with its defaults and all that is made of it. The words of the wait program are left out: a better
    one waits for the same."""
    admission = admit(JOB, backend="cluster")
    assert admission.job is not None, admission.problems
    documents = [admission.job.doc, *Plan(admission.job).render()]
    for document in documents:
        for container in document.get("spec", {}).get("initContainers", ()):
            if container["name"] == CONTAINER_NAME:
                container["command"] = "(the wait program)"
    return json.dumps(documents, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("edition", sorted(KNOWN))
def test_an_edition_makes_what_it_always_made(edition: int) -> None:
    assert made() == (FOLDER / f"edition-{edition}.json").read_text()


def test_the_present_edition_is_one_of_those_that_are_known() -> None:
    assert EDITION == max(KNOWN)


if __name__ == "__main__":
    (FOLDER / f"edition-{EDITION}.json").write_text(made())
