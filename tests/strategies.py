"""Hypothesis strategies for Jobs. `jobs()` draws documents that admission accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

EVENTS = ("PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed")
ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob")


def labels(max_size: int = 12) -> st.SearchStrategy[str]:
    """DNS labels that begin with a letter."""
    return st.from_regex(rf"[a-z](?:[a-z0-9-]{{0,{max_size - 2}}}[a-z0-9])?", fullmatch=True)


def label_maps() -> st.SearchStrategy[dict[str, str]]:
    keys = st.sampled_from(["app", "team", "example.com/kind", "volcano.sh/preemptable"])
    return st.dictionaries(keys, st.sampled_from(["a", "true", "x-1", ""]), max_size=2)


def quantities() -> st.SearchStrategy[dict[str, str | int]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(["500m", "2", 1, "0.5"]),
            "memory": st.sampled_from(["1Gi", "512Mi", "1G"]),
        },
    )


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        requests = draw(quantities())
        return {"requests": requests} if requests else {}
    limits: dict[str, Any] = dict(draw(quantities()))
    if draw(st.booleans()):
        limits["nvidia.com/gpu"] = draw(st.sampled_from([1, "8"]))
    return {"limits": limits} if limits else {}


@st.composite
def variables(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(
        st.lists(st.sampled_from(["A", "LOG_LEVEL", "MASTER_ADDR", "RANK", "x.y"]), unique=True, max_size=3)
    )
    values: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.fixed_dictionaries(
            {"value": st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)}
        ),
        st.just({"value": "$(MASTER_ADDR):$(MASTER_PORT)"}),
        st.just({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
    )
    return [{"name": name, **draw(values)} for name in names]


@st.composite
def ports(draw: st.DrawFn) -> list[dict[str, Any]]:
    numbers = draw(st.lists(st.sampled_from([80, 8080, 23456, 65535]), unique=True, max_size=2))
    found: list[dict[str, Any]] = [{"containerPort": number} for number in numbers]
    named = draw(st.booleans())
    if found and named:
        found[0]["name"] = draw(st.sampled_from(["http", "pytorchjob-port"]))
    return found


@st.composite
def containers(draw: st.DrawFn, names: list[str], volumes: list[str]) -> list[dict[str, Any]]:
    found = []
    for name in names:
        container: dict[str, Any] = {
            "name": name,
            "image": draw(st.sampled_from(["img:1", "registry.test/a/b@sha256:0"])),
        }
        if draw(st.booleans()):
            container["command"] = [
                "python",
                "-c",
                draw(st.sampled_from(["pass", "print('é')", "import os\nos.getpid()"])),
            ]
        extras: dict[str, st.SearchStrategy[Any]] = {
            "env": variables(),
            "ports": ports(),
            "resources": resources(),
        }
        for key, strategy in extras.items():
            value = draw(strategy) if draw(st.booleans()) else None
            if value:
                container[key] = value
        mounted = draw(st.booleans())
        if volumes and mounted:
            container["volumeMounts"] = [{"name": name, "mountPath": f"/mnt/{name}"} for name in volumes]
        found.append(container)
    return found


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    volumes = draw(st.lists(labels(6), unique=True, max_size=2))
    names = draw(st.lists(labels(8), unique=True, min_size=1, max_size=3))
    split = draw(st.integers(1, len(names)))
    spec: dict[str, Any] = {"containers": draw(containers(names[:split], volumes))}
    if names[split:]:
        spec["initContainers"] = draw(containers(names[split:], volumes))
    if volumes:
        spec["volumes"] = [{"name": name, "emptyDir": {}} for name in volumes]
    policy = draw(st.sampled_from([None, "Never", "OnFailure", "Always"]))
    if policy:
        spec["restartPolicy"] = policy
    if draw(st.integers(0, 5)) == 0:
        spec["hostNetwork"] = True
        for container in spec["containers"][1:]:
            container.pop("ports", None)  # on the node's network no two may have the same
    if draw(st.integers(0, 5)) == 0:
        spec["nodeSelector"] = {"zone": "a"}
    if draw(st.integers(0, 5)) == 0:
        spec["subdomain"] = draw(labels(6))
    return spec


@st.composite
def policies(draw: st.DrawFn) -> list[dict[str, Any]]:
    causes: list[dict[str, Any]] = [{"event": event} for event in EVENTS]
    causes += [{"exitCode": code} for code in (1, 137)]
    causes += [{"event": "PodPending", "timeout": "10m"}, {"events": ["JobUpdated"], "timeout": "1h30m"}]
    chosen = draw(st.lists(st.sampled_from(causes), unique_by=str, max_size=3))
    return [{**cause, "action": draw(st.sampled_from(ACTIONS))} for cause in chosen]


@st.composite
def tasks(draw: st.DrawFn, name: str, replicas: int, earlier: list[str]) -> dict[str, Any]:
    task: dict[str, Any] = {"name": name, "replicas": replicas, "template": {"spec": draw(pod_specs())}}
    if draw(st.booleans()):
        task["template"]["metadata"] = {
            "labels": draw(label_maps()),
            "annotations": {"note": draw(st.text(max_size=5))},
        }
    if draw(st.integers(0, 3)) == 0:
        task["minAvailable"] = draw(st.integers(0, replicas))
    if draw(st.integers(0, 3)) == 0:
        task["maxRetry"] = draw(st.integers(0, 5))
    if draw(st.integers(0, 3)) == 0:
        task["policies"] = draw(policies())
    if earlier and draw(st.integers(0, 3)) == 0:
        task["dependsOn"] = {
            "name": [draw(st.sampled_from(earlier))],
            "iteration": draw(st.sampled_from(["any", "all"])),
        }
    if replicas and "minAvailable" not in task and draw(st.integers(0, 5)) == 0:
        size = draw(st.sampled_from([size for size in range(1, replicas + 1) if replicas % size == 0]))
        total = replicas // size
        task["partitionPolicy"] = {"totalPartitions": total, "partitionSize": size}
        if draw(st.booleans()):
            task["partitionPolicy"]["minPartitions"] = draw(st.integers(1, total))
    return task


@st.composite
def plugins(draw: st.DrawFn, master: str | None, worker: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if master is not None:
        arguments = []
        if master != "master" or draw(st.booleans()):
            arguments.append(f"--master={master}")
        if worker is not None and (worker != "worker" or draw(st.booleans())):
            arguments.append(f"--worker={worker}")
        if draw(st.booleans()):
            arguments += draw(st.sampled_from([["--port=23456"], ["-port", "8080"], ["--port=0x5ba0"]]))
        if draw(st.booleans()):
            arguments += draw(
                st.sampled_from(
                    [["--wait-master-enabled"], ["--wait-master-enabled=T", "--wait-master-timeout=5"]]
                )
            )
        found["pytorch"] = arguments or draw(st.sampled_from([None, []]))
    if draw(st.booleans()):
        found["svc"] = draw(
            st.sampled_from([[], None, ["--publish-not-ready-addresses"], ["--disable-network-policy=true"]])
        )
    if draw(st.booleans()):
        found["env"] = []
    return found or draw(st.sampled_from([None, {}]))


@st.composite
def jobs(draw: st.DrawFn, *, pytorch: bool | None = None, max_replicas: int = 5) -> dict[str, Any]:
    """A Job that admission accepts; with `pytorch=True` one whose ranks can be checked."""
    with_ranks = draw(st.booleans()) if pytorch is None else pytorch
    others = draw(st.lists(labels(8), unique=True, max_size=2))
    names: list[tuple[str, int]] = []
    master = worker = None
    if with_ranks:
        master, worker = draw(
            st.sampled_from([("master", "worker"), ("chief", "worker"), ("m", "w"), ("all", "all")])
        )
        if master == worker:
            names.append((master, draw(st.integers(1, max_replicas))))
        else:
            names.append((master, 1))
            if draw(st.integers(0, 4)) > 0:
                names.append((worker, draw(st.integers(0, max_replicas))))
            elif worker == "worker":
                worker = None
            else:
                names.append((worker, 1))
    names += [
        (name, draw(st.integers(0, max_replicas))) for name in others if name not in {n for n, _ in names}
    ]
    if with_ranks and worker is None:
        names = [(name, count) for name, count in names if name != "worker"]
    if not names:
        names = [("only", 1)]
    names = draw(st.permutations(names))
    earlier: list[str] = []
    drawn = []
    for name, replicas in names:
        drawn.append(draw(tasks(name, replicas, list(earlier))))
        earlier.append(name)
    spec: dict[str, Any] = {"tasks": drawn}
    opened = draw(plugins(master, worker))
    if opened is not None:
        spec["plugins"] = opened
    total = sum(replicas for _, replicas in names)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "minAvailable": st.integers(0, total),
        "maxRetry": st.integers(0, 5),
        "queue": st.sampled_from(["default", "gpu"]),
        "schedulerName": st.just("volcano"),
        "priorityClassName": st.just("high"),
        "policies": policies(),
        "ttlSecondsAfterFinished": st.integers(0, 100),
        "volumes": st.just([{"mountPath": "/data", "volumeClaimName": "claim"}]),
        "minSuccess": st.integers(1, max(total, 1)),
    }
    for key, strategy in optional.items():
        if draw(st.integers(0, 3)) == 0:
            spec[key] = draw(strategy)
    metadata: dict[str, Any] = {"name": draw(labels(16))}
    if draw(st.booleans()):
        metadata["namespace"] = draw(labels(8))
    if draw(st.booleans()):
        metadata["labels"] = draw(label_maps())
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
