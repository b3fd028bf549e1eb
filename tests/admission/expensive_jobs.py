"""Jobs that are meant to be expensive: whatever could grow faster than the Job itself, made large.

`SHAPES` maps a name to a function of a size; each returns a document of about that many tasks, names or
values. Tests count the work for several sizes; `expensive_jobs()` mixes shapes for a fuzzer. The documents
may be valid or invalid, and may exceed the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.admission.cases import job, task

Document = dict[str, Any]


def _in_pod(**fields: Any) -> Document:
    made = task("t")
    made["template"]["spec"].update(fields)
    return job(made, plugins={"pytorch": ["--master=t", "--worker=t"]})


def _in_container(**fields: Any) -> Document:
    return _in_pod(containers=[{"name": "main", "image": "img:1", **fields}])


def many_tasks(size: int) -> Document:
    return job(*(task(f"t{i}") for i in range(size)), plugins={"svc": [], "env": []})


def many_tasks_with_variables(size: int) -> Document:
    made = [task(f"t{i}") for i in range(size)]
    for one in made:
        one["template"]["spec"]["containers"][0]["env"] = [{"name": "VC_T0_NUM", "value": "1"}]
    return job(*made, plugins={"svc": [], "env": []})


def unknown_dependencies(size: int) -> Document:
    return job(*(task(f"t{i}", dependsOn={"name": [f"unknown-task-name-{i}"]}) for i in range(size)))


def similar_dependencies(size: int) -> Document:
    """Unknown names that are all near to many known ones."""
    name = "worker-with-a-long-name-that-all-of-them-share"
    return job(*(task(f"{name}-{i}", dependsOn={"name": [f"{name}{i}x"]}) for i in range(size)))


def chain(size: int) -> Document:
    first = [task("t0")]
    return job(*first, *(task(f"t{i}", dependsOn={"name": [f"t{i - 1}"]}) for i in range(1, size)))


def layers(size: int, width: int = 4) -> Document:
    """Layers of four tasks, each of which depends on the whole layer below; the top layer comes first."""
    made = []
    for i in range(size):
        layer = i // width
        below = [f"t{(layer - 1) * width + k}" for k in range(width)] if layer else []
        made.append(task(f"t{i}", dependsOn={"name": below}))
    return job(*reversed(made))


def back_edges(size: int) -> Document:
    """A chain in which every task also depends on the last one: as many cycles as tasks."""
    names = [f"t{i}" for i in range(size)]
    return job(
        *(task(name, dependsOn={"name": [names[i - 1], names[-1]]}) for i, name in enumerate(names)),
    )


def same_names(size: int) -> Document:
    return job(*(task("t") for _ in range(size)))


def wrong_types(size: int) -> Document:
    return job(*(task(f"t{i}", maxRetry="x", minAvailable=9) for i in range(size)))


def tasks_that_are_numbers(size: int) -> Document:
    return {**job(), "spec": {"tasks": [5] * size}}


def bad_label_keys(size: int) -> Document:
    doc = job(task("t"))
    doc["metadata"]["labels"] = {f"-{i}": "x" for i in range(size)}
    return doc


def bad_label_values(size: int) -> Document:
    doc = job(task("t"))
    doc["metadata"]["labels"] = {f"a{i}": "-" for i in range(size)}
    return doc


def unknown_fields(size: int) -> Document:
    return {**job(task("t")), **{f"unknownField{i}": 1 for i in range(size)}}


def unknown_fields_of_tasks(size: int) -> Document:
    """Each task has hundreds of unknown fields, whose names are like none that exists."""
    names = [f"x{i}abcdefghij" for i in range(400)]
    return job(*(task(f"t{i}", **dict.fromkeys(names, 1)) for i in range(size)))


def bad_variables(size: int) -> Document:
    return _in_container(env=[{"name": "a=b", "value": 5, "vlaue": 6}] * size)


def variables(size: int) -> Document:
    return _in_container(env=[{"name": f"V{i}", "value": "x"} for i in range(size)])


def unknown_mounts(size: int) -> Document:
    mounts = [{"name": f"vloume{i}", "mountPath": f"/m{i}"} for i in range(size)]
    return {
        **(doc := _in_container(volumeMounts=mounts)),
        "spec": {**doc["spec"]},
        "metadata": {"name": "j"},
    }


def volumes_of_one_name(size: int) -> Document:
    return _in_pod(volumes=[{"name": "v", "emptyDir": {}}] * size)


def pod_volumes(size: int) -> Document:
    doc = _in_pod(volumes=[{"name": f"volume{i}", "emptyDir": {}} for i in range(size)])
    container = doc["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": f"volumes{i}", "mountPath": f"/m{i}"} for i in range(size)]
    return doc


def job_volumes(size: int) -> Document:
    return job(task("t"), volumes=[{"mountPath": f"/m{i}", "volumeClaimName": "c"} for i in range(size)])


def containers(size: int) -> Document:
    made = [{"name": f"c{i}", "image": "img:1"} for i in range(size)]
    return _in_pod(hostNetwork=True, containers=made)


def ports(size: int) -> Document:
    return _in_container(ports=[{"containerPort": 1 + i % 65535, "name": "p1"} for i in range(size)])


def policies(size: int) -> Document:
    return job(task("t"), policies=[{"exitCode": i + 1, "action": "RestartJob"} for i in range(size)])


def same_policies(size: int) -> Document:
    return job(task("t"), policies=[{"event": "PodFialed", "action": "RestratJob"}] * size)


def long_timeouts(size: int) -> Document:
    """Many tasks whose pods wait for one policy with a timeout of that many parts."""
    policy = {"event": "*", "action": "RestartJob", "timeout": "1ns" * size}
    return job(*(task(f"t{i}") for i in range(20)), policies=[policy], runningEstimate="1ns" * size)


def unknown_flags(size: int) -> Document:
    return job(task("master"), plugins={"pytorch": [f"--prot{i}=5" for i in range(size)]})


def one_long_flag(size: int) -> Document:
    return job(task("master"), plugins={"pytorch": ["--port=" + "5 -" * size]})


def unknown_plugins(size: int) -> Document:
    return job(task("master"), plugins={f"pytroch{i}": [] for i in range(size)})


def replicas(size: int) -> Document:
    return job(task("master"), {**task("worker"), "replicas": size}, plugins={"pytorch": []})


def long_names(size: int) -> Document:
    return job(task("t" * size), queue="q" * size, schedulerName="s" * size)


def deep(size: int) -> Document:
    nested: Any = "x"
    for _ in range(min(size, 400)):
        nested = [nested]
    return _in_container(args=nested)


SHAPES: dict[str, Callable[[int], Document]] = {
    shape.__name__: shape
    for shape in (
        many_tasks, many_tasks_with_variables, unknown_dependencies, similar_dependencies, chain, layers, back_edges,
        same_names, wrong_types, tasks_that_are_numbers, bad_label_keys, bad_label_values, unknown_fields, bad_variables,
        variables, unknown_mounts, volumes_of_one_name, pod_volumes, job_volumes, containers, ports, policies,
        same_policies, long_timeouts, unknown_flags, one_long_flag, unknown_plugins, replicas, long_names, deep,
    )
}  # fmt: skip


@st.composite
def expensive_jobs(draw: st.DrawFn, max_size: int = 2_000) -> Document:
    """A Job of several expensive shapes at once: the tasks of some, the other fields of all of them."""
    chosen = draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3, unique=True))
    parts = [SHAPES[name](draw(st.integers(1, max_size))) for name in chosen]
    doc = parts[0]
    for part in parts[1:]:
        if draw(st.booleans()):
            doc["spec"]["tasks"] = [*doc["spec"]["tasks"], *part["spec"]["tasks"]]
        doc["spec"] = {**part["spec"], **doc["spec"]}
        doc = {**part, **doc}
    return doc
