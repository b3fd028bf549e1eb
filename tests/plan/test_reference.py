"""Compares our plan with the objects that a real Volcano 1.15.1 created for the same Job.

Every difference is listed here with the improvement that causes it (numbered as in docs/semantics.md), or as
a value that the API server fills in. A difference that is not listed fails, and so does a listed one that no
longer exists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vcjob.admission.review import admit
from vcjob.plan.plan import Plan
from vcjob.spec.job import Job

REFERENCE = Path(__file__).parent.parent / "reference"
NAMES = ("guide", "guide-old", "multi", "res")
ABSENT = "absent"
ANY = "any"

#: (what and where, what Volcano has, what we have, why)
DIFFERENCES = (
    (
        r"Service \S+ spec\.publishNotReadyAddresses",
        ABSENT,
        True,
        "section 2: svc opened by force publishes not-ready addresses",
    ),
    (
        r"PodGroup res-UID spec\.minResources\.(requests\.)?nvidia\.com/gpu",
        ABSENT,
        "2",
        "improvement 25: a limit counts as a request",
    ),
    (
        r"Pod \S+ metadata\.(labels|annotations)\.vcjob\.io/attempt",
        ABSENT,
        "0",
        "improvement 29: which try is this pod",
    ),
    (
        r"Pod \S+ spec\.(initC|c)ontainers\[\S+\]\.env\[LOCAL_(RANK|WORLD_SIZE)\].*",
        ABSENT,
        ANY,
        "LOCAL_RANK where a pod runs one rank",
    ),
    (
        r"Pod \S+ spec\.initContainers\[\S+\]\.env\[(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK)\].*",
        ABSENT,
        ANY,
        "improvement 6",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.env\[V[CK]_.*",
        ABSENT,
        ANY,
        "improvement 1: one order of plugins",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.volumeMounts\[.*",
        ABSENT,
        ANY,
        "improvement 1: one order of plugins",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.env\[VCJOB_WAIT_.*",
        ABSENT,
        ANY,
        "improvement 8: values by env",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.command\[2\]",
        "<the wait program>",
        ANY,
        "improvement 8: our program",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.(resources|securityContext)\..*",
        ABSENT,
        ANY,
        "improvement 9",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.imagePullPolicy",
        "Always",
        "IfNotPresent",
        "improvement 9",
    ),
    (
        r"Pod \S+ spec\.initContainers\[wait-for-master\]\.terminationMessagePolicy",
        ABSENT,
        ANY,
        "improvement 10: the reason stays",
    ),
    (r"Pod \S+ spec\.(initC|c)ontainers\[\S+\]\.imagePullPolicy", "IfNotPresent", ABSENT, "API server"),
    (r"Pod \S+ spec\.containers\[\S+\]\.ports\[pytorchjob-port\]\.protocol", "TCP", ABSENT, "API server"),
    (r"Pod \S+ spec\.containers\[\S+\]\.resources\.requests\.nvidia\.com/gpu", "1", ABSENT, "API server"),
    (r"Pod \S+ spec\.containers\[\S+\]\.resources\.limits\.nvidia\.com/gpu", "1", 1, "API server"),
    (r"Pod \S+ spec\.dnsPolicy", "ClusterFirst", ABSENT, "API server"),
    (r"Pod \S+ spec\.volumes\[\S+\]\.configMap\.defaultMode", 420, ABSENT, "API server"),
)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its path; items of a list by their name, so that the order of env does not count."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            key = item["name"] if isinstance(item, dict) and "name" in item else index
            yield from leaves(item, f"{path}[{key}]")
    else:
        yield path, value


@cache
def both(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    job, *objects = reference["objects"]
    given = {**reference["job"], "metadata": {**reference["job"]["metadata"], "uid": "UID"}}
    ours = admit(given).job
    assert ours is not None
    theirs = list(Plan(Job({**job, "metadata": {**job["metadata"], "uid": "UID"}})).render())
    assert list(map(comparable, Plan(ours).render())) == list(map(comparable, theirs)), (
        "both admissions mean the same"
    )
    return objects, list(Plan(ours).render())


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """Their API server writes a GPU count as text."""
    return dict(leaves(json.loads(json.dumps(obj).replace('"nvidia.com/gpu": 1', '"nvidia.com/gpu": "1"'))))


def differences(name: str) -> Iterator[tuple[str, Any, Any]]:
    for theirs, ours in zip(*both(name), strict=True):
        there, here = dict(leaves(theirs)), dict(leaves(ours))
        for path in sorted({*there, *here}):
            one, other = there.get(path, ABSENT), here.get(path, ABSENT)
            if one != other:
                yield f"{ours['kind']} {ours['metadata']['name']} {path}", one, other


def named(difference: tuple[str, Any, Any], row: tuple[str, Any, Any, str]) -> bool:
    place, theirs, ours = difference
    pattern, there, here, _ = row
    return bool(re.fullmatch(pattern, place)) and there in (theirs, ANY) and here in (ours, ANY)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_objects_in_the_same_order(name: str) -> None:
    theirs, ours = both(name)
    assert [(o["kind"], o["metadata"]["name"]) for o in ours] == [
        (o["kind"], o["metadata"]["name"]) for o in theirs
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_difference_from_volcano_is_named(name: str) -> None:
    unnamed = [d for d in differences(name) if not any(named(d, row) for row in DIFFERENCES)]
    assert unnamed == []


def test_every_named_difference_is_one() -> None:
    found = [d for name in NAMES for d in differences(name)]
    assert [row for row in DIFFERENCES if not any(named(d, row) for d in found)] == []
