"""What looks as if it belonged to a Job and does not: the storm must leave it as it is."""

from __future__ import annotations

from tests.cluster.controller.faults.storm.jobs import SHAPES, Object
from tests.cluster.controller.faults.storm.users import Tenant

#: Jobs that will be there while these stand.
CLAIMED = tuple(f"{shape}-0" for shape in SHAPES)


class Foreign:
    def __init__(self, tenants: list[Tenant]) -> None:
        self._tenants = tenants
        for tenant in tenants:
            for job in CLAIMED:
                tenant.create("pods", _claiming_pod(job))
        neighbour = tenants[1]  # where no Job of these names will be
        for job in CLAIMED:
            neighbour.create("services", {"metadata": {"name": job}, "spec": {"clusterIP": "None"}})
            neighbour.create("configmaps", {"metadata": {"name": f"{job}-svc"}, "data": {"mine": "yes"}})
            policy = {"metadata": {"name": job}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
            neighbour.create("networkpolicies", policy)
        self._before = self._seen()

    def check_unchanged(self) -> None:
        assert self._seen() == self._before

    def _seen(self) -> dict[str, Object]:
        found = {}
        for tenant in self._tenants:
            for plural in ("pods", "services", "configmaps", "networkpolicies"):
                for thing in tenant.list(plural):
                    meta = thing["metadata"]
                    if meta.get("ownerReferences") or meta["name"] == "kube-root-ca.crt":
                        continue
                    if meta["name"].removesuffix("-svc").removesuffix("-mine") in CLAIMED:
                        found[f"{tenant.namespace}/{plural}/{meta['name']}"] = _lasting(thing)
        return found


def _lasting(thing: Object) -> Object:
    """All but what its node and the garden of controllers around it say."""
    meta = {key: thing["metadata"].get(key) for key in ("uid", "labels", "annotations", "deletionTimestamp")}
    spec = {key: value for key, value in (thing.get("spec") or {}).items() if key != "nodeName"}
    return {"metadata": meta, "spec": spec, "data": thing.get("data")}


def _claiming_pod(job: str) -> Object:
    """A user's own pod with every mark of a Job's, on a node that no storm reaches."""
    marks = {
        "volcano.sh/job-name": job,
        "volcano.sh/task-spec": "a",
        "volcano.sh/task-index": "0",
        "vcjob.io/attempt": "0",
    }
    return {
        "metadata": {
            "name": f"{job}-mine",
            "labels": marks,
            "annotations": {**marks, "volcano.sh/job-version": "0"},
        },
        "spec": {
            "nodeSelector": {"storm": "safe"},
            "containers": [{"name": "main", "image": "busybox:1.36.1"}],
        },
    }
