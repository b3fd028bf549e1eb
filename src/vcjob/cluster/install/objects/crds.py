"""The CustomResourceDefinitions of Jobs, Commands, PodGroups and Queues, with Volcano's groups, names and columns.

The Job's spec has the schema that `validate` uses; the rest is what Volcano's own clients and schedulers read and
write. Used by install, by the chart and by the tests; pure.
"""

from __future__ import annotations

from typing import Any

from vcjob.cluster.install.objects.structural import Schema, structural
from vcjob.cluster.install.settings import OURS
from vcjob.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Document
from vcjob.lifecycle.status import Phase
from vcjob.spec import schema
from vcjob.spec.field_docs import DOCUMENTED
from vcjob.spec.job import KIND

JOBS, COMMANDS = "jobs.batch.volcano.sh", "commands.bus.volcano.sh"
POD_GROUPS, QUEUES = "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"
NAMES = (JOBS, COMMANDS, POD_GROUPS, QUEUES)

_STRING: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 0}
_NUMBER: Schema = {"type": "integer", "format": "int32"}
_BOOLEAN: Schema = {"type": "boolean"}
_TIME: Schema = {"type": "string", "format": "date-time", "nullable": True}
_AMOUNTS: Schema = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AGE: dict[str, Any] = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_QUEUE_COLUMN: dict[str, Any] = {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1}


def definitions() -> list[Document]:
    return [_jobs(), _commands(), _pod_groups(), _queues()]


def job_spec() -> Schema:
    """The structural schema of a Job's `spec`."""
    whole = schema.job_schema()
    spec = structural(whole["properties"]["spec"], whole["$defs"])
    # As in Volcano's definition, so that a Job has them without a webhook too.
    spec["properties"]["queue"] |= {"default": "default"}
    spec["properties"]["maxRetry"] |= {"default": 3}
    _describe(spec)
    return spec


def _describe(spec: Schema) -> None:
    """Add what `kubectl explain` shows of the fields that are not Kubernetes' own."""
    for path, meaning, default in DOCUMENTED:
        node = spec
        first, *names = path.split(".")
        if first != "spec":
            continue
        for name in names:
            node = node.get("items", node)["properties"][name]
        form = node.get("description", "")  # of its text, such as "a duration such as `90s`"
        parts = [
            meaning,
            f"Default: {default}." if default else "",
            f"{form[:1].upper()}{form[1:]}." if form else "",
        ]
        node["description"] = " ".join(filter(None, parts))


def _jobs() -> Document:
    columns: list[dict[str, Any]] = [
        {"name": "STATUS", "type": "string", "jsonPath": ".status.state.phase"},
        {"name": "minAvailable", "type": "integer", "jsonPath": ".status.minAvailable"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        _AGE,
        _QUEUE_COLUMN,
    ]
    fields = {"spec": job_spec(), "status": _job_status()}
    return _definition(JOBS, "v1alpha1", KIND, fields, columns=columns, short=["vcjob", "vj"], status=True)


def _job_status() -> Schema:
    counters = (
        "minAvailable", "pending", "running", "succeeded", "failed", "terminating", "unknown", "version",
        "retryCount",
    )  # fmt: skip
    state = _object(
        phase={"type": "string", "enum": [str(phase) for phase in Phase]},
        reason=_STRING,
        message=_STRING,
        lastTransitionTime=_TIME,
    )
    per_task = _object(phase=_map(_NUMBER))
    condition = _object(status=_STRING, lastTransitionTime=_TIME)
    return _object(
        state=state,
        **dict.fromkeys(counters, _COUNT),
        taskStatusCount=_map(per_task),
        runningDuration=_STRING,
        controlledResources=_map(_STRING),
        conditions={"type": "array", "nullable": True, "items": condition},
    )


def _commands() -> Document:
    target = _object(
        apiVersion=_STRING, kind=_STRING, name=_STRING, uid=_STRING, controller=_BOOLEAN,
        blockOwnerDeletion=_BOOLEAN,
    )  # fmt: skip
    target["required"] = ["apiVersion", "kind", "name", "uid"]
    fields = {"action": _STRING, "target": target, "reason": _STRING, "message": _STRING}
    return _definition(COMMANDS, "v1alpha1", "Command", fields)


def _pod_groups() -> Document:
    topology = _object(
        mode={"type": "string", "enum": ["hard", "soft"], "default": "hard"},
        highestTierAllowed={"type": "integer", "minimum": 0},
        highestTierName=_STRING,
    )
    requirement = _object(key=_STRING, operator=_STRING, values=_list(_STRING))
    policy = _object(
        name=_STRING,
        labelSelector=_object(matchLabels=_map(_STRING), matchExpressions=_list(requirement)),
        matchLabelKeys=_list(_STRING),
        subGroupSize={**_NUMBER, "minimum": 1, "default": 1},
        minSubGroups={**_COUNT, "default": 0},
        networkTopology=topology,
    )
    spec = _object(
        minMember=_COUNT,
        minTaskMember=_map(_NUMBER),
        minResources=_AMOUNTS,
        queue={"type": "string", "default": "default"},
        priorityClassName=_STRING,
        networkTopology=topology,
        subGroupPolicy=_list(policy),
    )
    condition = _object(
        type=_STRING, status=_STRING, transitionID=_STRING, lastTransitionTime=_TIME, reason=_STRING,
        message=_STRING,
    )  # fmt: skip
    status = _object(
        phase={"type": "string", "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]},
        conditions=_list(condition),
        **dict.fromkeys(("running", "succeeded", "failed"), _COUNT),
    )
    columns: list[dict[str, Any]] = [
        {"name": "STATUS", "type": "string", "jsonPath": ".status.phase"},
        {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        _AGE,
        _QUEUE_COLUMN,
    ]
    fields = {"spec": spec, "status": status}
    # Volcano's scheduler updates the status with the whole object, so there is no status subresource.
    return _definition(
        POD_GROUPS, "v1beta1", "PodGroup", fields, columns=columns, short=["pg", "podgroup-v1beta1"]
    )


def _queues() -> Document:
    spec = _object(
        weight={**_NUMBER, "minimum": 1, "maximum": 65535, "default": 1},
        capability=_AMOUNTS,
        deserved=_AMOUNTS,
        guarantee=_object(resource=_AMOUNTS),
        reclaimable=_BOOLEAN,
        parent=_STRING,
        priority=_COUNT,
        type=_STRING,
        affinity=_OPEN,
        extendClusters=_list(_object(name=_STRING, weight=_NUMBER, capacity=_AMOUNTS)),
        dequeueStrategy={"type": "string", "enum": ["fifo", "traverse"], "default": "traverse"},
    )
    counters = ("pending", "running", "unknown", "inqueue", "completed")
    status = _object(
        state={"type": "string", "enum": ["Open", "Closed", "Closing", "Unknown"]},
        **dict.fromkeys(counters, _COUNT),
        reservation=_object(nodes=_list(_STRING), resource=_AMOUNTS),
        allocated=_AMOUNTS,
    )
    return _definition(
        QUEUES,
        "v1beta1",
        "Queue",
        {"spec": spec, "status": status},
        columns=[{"name": "PARENT", "type": "string", "jsonPath": ".spec.parent"}],
        short=["q", "queue-v1beta1"],
        status=True,
        scope="Cluster",
    )


def _definition(
    name: str,
    version: str,
    kind: str,
    fields: dict[str, Schema],
    *,
    columns: list[dict[str, Any]] | None = None,
    short: list[str] | None = None,
    status: bool = False,
    scope: str = "Namespaced",
) -> Document:
    plural, _, group = name.partition(".")
    body = _object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, **fields)
    served: Document = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": body},
    }
    if columns:
        served["additionalPrinterColumns"] = columns
    if status:
        served["subresources"] = {"status": {}}
    names: Document = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short:
        names["shortNames"] = short
    spec = {"group": group, "names": names, "scope": scope, "versions": [served]}
    found = CUSTOM_RESOURCE_DEFINITIONS.manifest(name, spec=spec)
    found["metadata"]["labels"] = dict(OURS)
    return found


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}
