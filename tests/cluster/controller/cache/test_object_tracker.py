"""Which objects count as those of a Job, whatever others say that it owns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.cluster.controller.pods import OWNER
from vcjob.cluster.controller.cache.object_tracker import ObjectTracker
from vcjob.cluster.resources import PartialGroup
from vcjob.kube.api.objects import OwnerReference
from vcjob.plan.names import pod_group_name, short_pod_group_name


def group(name: str, owner: dict[str, Any]) -> PartialGroup:
    meta = {"name": name, "uid": name, "resourceVersion": "1", "ownerReferences": [owner]}
    return msgspec.convert({"metadata": meta, "status": {"phase": "Pending"}}, PartialGroup)


@pytest.mark.parametrize("name_of", [pod_group_name, short_pod_group_name])
@pytest.mark.parametrize("job_name", ["j", "j" * 59])
def test_a_copy_of_the_pod_group_does_not_stand_for_it(
    name_of: Callable[[OwnerReference], str], job_name: str
) -> None:
    """A new leader lists the copy first. It is never admitted, so that no pod would be created any more."""
    objects, owner = ObjectTracker(), {**OWNER, "name": job_name}
    real = group(name_of(OwnerReference(name=job_name, uid=str(OWNER["uid"]))), owner)
    objects.update(("PodGroup", "copy"), group("copy", owner))
    seen = [objects.group]
    objects.update(("PodGroup", real.metadata.name), real)
    seen.append(objects.group)
    objects.remove(("PodGroup", real.metadata.name), real.metadata.uid)
    assert [*seen, objects.group] == [None, real, None]
