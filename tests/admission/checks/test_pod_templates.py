"""Checks of pod templates: an invalid one is refused before any pod is created."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, container, errors, job, refused, task, template

POD = "spec.tasks[0].template.spec"
FIRST = f"{POD}.containers[0]"


def of(**fields: Any) -> dict[str, Any]:
    """A Job whose only container has these fields."""
    return job(task(template=template(container(**fields))))


def pod(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return job(task(template=template(*containers, **fields)))


@pytest.mark.parametrize("missing", [{}, None, {"spec": None}, {"spec": {}}, {"metadata": {}}])
def test_no_template(missing: Any) -> None:
    found = errors(job(task(template=missing)))
    assert found
    assert all(problem.path.startswith("spec.tasks[0].template") for problem in found)


def test_a_task_without_a_template() -> None:
    doc = task()
    del doc["template"]
    refused(job(doc), "spec.tasks[0].template", "has no pod template")


@pytest.mark.parametrize("containers", [[], None])
def test_no_containers(containers: Any) -> None:
    refused(
        job(task(template={"spec": {"containers": containers, "restartPolicy": "Never"}})),
        f"{POD}.containers",
        "",
    )


def test_a_second_container_of_one_name() -> None:
    refused(
        pod(container("a"), container("a")),
        f"{POD}.containers[1].name",
        "another container has the name `a`: containers[0]",
    )
    refused(
        pod(container("a"), initContainers=[container("a")]),
        f"{FIRST}.name",
        "another container has the name `a`: initContainers[0]",
    )


@pytest.mark.parametrize("image", ["", None])
def test_no_image(image: str | None) -> None:
    refused(of(image=image), FIRST, "no image")


def test_ephemeral_containers() -> None:
    refused(
        pod(ephemeralContainers=[{"name": "debug"}]), f"{POD}.ephemeralContainers", "cannot have ephemeral"
    )


# Volumes


def test_a_mount_of_an_unknown_volume() -> None:
    doc = pod(
        container(volumeMounts=[{"name": "dta", "mountPath": "/d"}]),
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    assert (
        refused(doc, f"{FIRST}.volumeMounts[0].name", "no volume named `dta`").hint == "did you mean `data`?"
    )
    doc = of(volumeMounts=[{"name": "x", "mountPath": "/d"}])
    assert "add it" in (refused(doc, f"{FIRST}.volumeMounts[0].name", "`x`").hint or "")


def test_two_mounts_at_one_path() -> None:
    mount = {"name": "v", "mountPath": "/d"}
    doc = pod(container(volumeMounts=[mount, mount]), volumes=[{"name": "v", "emptyDir": {}}])
    refused(doc, f"{FIRST}.volumeMounts[1].mountPath", "another volume is mounted at")


def test_a_second_volume_of_one_name() -> None:
    volume = {"name": "v", "emptyDir": {}}
    refused(
        pod(volumes=[volume, volume]), f"{POD}.volumes[1].name", "another volume of this pod has the name `v`"
    )


def test_a_volume_without_a_source() -> None:
    refused(pod(volumes=[{"name": "v"}]), f"{POD}.volumes[0]", "no source")
    refused(pod(volumes=[{"name": "v", "emptyDir": None}]), f"{POD}.volumes[0]", "no source")


def test_a_volume_with_two_sources() -> None:
    doc = pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}])
    refused(doc, f"{POD}.volumes[0].hostPath", "emptyDir, hostPath")


# Environment


def test_a_variable_with_a_value_and_a_source() -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    refused(
        of(env=[{"name": "A", "value": "x", "valueFrom": source}]),
        f"{FIRST}.env[0].valueFrom",
        "both a value and a valueFrom",
    )
    admitted(of(env=[{"name": "A", "value": "", "valueFrom": source}]))


def test_a_variable_with_an_empty_source() -> None:
    refused(of(env=[{"name": "A", "valueFrom": {}}]), f"{FIRST}.env[0].valueFrom", "is empty")


def test_a_variable_with_two_sources() -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}
    refused(of(env=[{"name": "A", "valueFrom": source}]), f"{FIRST}.env[0].valueFrom.secretKeyRef", "several")


def test_env_from_needs_one_source() -> None:
    refused(of(envFrom=[{"prefix": "A_"}]), f"{FIRST}.envFrom[0]", "")
    refused(
        of(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]),
        f"{FIRST}.envFrom[0].secretRef",
        "several",
    )
    admitted(of(envFrom=[{"configMapRef": {"name": "a"}, "prefix": "A_"}]))


def test_the_same_variable_twice_is_allowed_as_in_kubernetes() -> None:
    admitted(of(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]))


# Ports


def test_a_second_port_of_one_name_in_a_container() -> None:
    doc = of(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}])
    refused(doc, f"{FIRST}.ports[1].name", "another port of this container has the name `a`")
    admitted(of(ports=[{"containerPort": 1}, {"containerPort": 1}]))


def test_on_the_host_network_host_port_is_container_port() -> None:
    refused(
        pod(container(ports=[{"containerPort": 1, "hostPort": 2}]), hostNetwork=True),
        f"{FIRST}.ports[0].hostPort",
        "(1)",
    )
    admitted(pod(container(ports=[{"containerPort": 1, "hostPort": 1}]), hostNetwork=True))
    admitted(of(ports=[{"containerPort": 1, "hostPort": 2}]))


def test_a_port_of_the_node_that_is_taken() -> None:
    port = {"containerPort": 1, "hostPort": 9}
    doc = pod(container("a", ports=[port]), container("b", ports=[port]))
    refused(doc, f"{POD}.containers[1].ports[0].hostPort", "already used by container `a`")
    admitted(pod(container("a", ports=[port]), container("b", ports=[{**port, "protocol": "UDP"}])))
    one, other = {**port, "hostIP": "10.0.0.1"}, {**port, "hostIP": "10.0.0.2"}
    admitted(pod(container("a", ports=[port]), container("b", ports=[one])))
    admitted(pod(container("a", ports=[one]), container("b", ports=[other])))
    for same in ([one, one], [port, {**port, "protocol": "TCP", "hostIP": ""}]):
        doc = pod(container("a", ports=same[:1]), container("b", ports=same[1:]))
        refused(doc, f"{POD}.containers[1].ports[0].hostPort", "already used by container `a`")


def test_on_the_host_network_two_containers_cannot_share_a_port() -> None:
    port = {"containerPort": 80}
    doc = pod(container("a", ports=[port]), container("b", ports=[port]), hostNetwork=True)
    refused(
        doc, f"{POD}.containers[1].ports[0].hostPort", "port 80 of the node is already used by container `a`"
    )
    admitted(pod(container("a", ports=[port]), container("b", ports=[port])))


# Probes


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_has_one_handler(kind: str) -> None:
    refused(of(**{kind: {"periodSeconds": 1}}), f"{FIRST}.{kind}", "sets none of")
    refused(
        of(**{kind: {"exec": {"command": ["true"]}, "tcpSocket": {"port": 1}}}),
        f"{FIRST}.{kind}.tcpSocket",
        "several",
    )
    for handler in (
        {"exec": {"command": ["true"]}},
        {"httpGet": {"port": 80}},
        {"tcpSocket": {"port": "a"}},
        {"grpc": {"port": 1}},
    ):
        admitted(of(**{kind: handler}))


@pytest.mark.parametrize("kind", ["postStart", "preStop"])
def test_a_hook_has_one_handler(kind: str) -> None:
    refused(of(lifecycle={kind: {}}), f"{FIRST}.lifecycle.{kind}", "sets none of")
    admitted(of(lifecycle={kind: {"sleep": {"seconds": 1}}}))


# Resources


@pytest.mark.parametrize(
    ("resources", "place", "words"),
    [
        (
            {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}},
            "requests.cpu",
            "2 is larger than the limit 1500m",
        ),
        ({"limits": {"memory": "-1Gi"}}, "limits.memory", "-1Gi is negative"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, 'limits["nvidia.com/gpu"]', "cannot be divided"),
        ({"requests": {"nvidia.com/gpu": 1}}, 'requests["nvidia.com/gpu"]', "has a request and no limit"),
        (
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            'requests["nvidia.com/gpu"]',
            "must be equal to its limit 2",
        ),
        (
            {"requests": {"cpu": 1, "hugepages-2Mi": "2Mi"}},
            "requests.hugepages-2Mi",
            "has a request and no limit",
        ),
        (
            {"limits": {"cpu": 1, "hugepages-2Mi": "3Mi"}},
            "limits.hugepages-2Mi",
            "3Mi is not a multiple of the page size 2Mi",
        ),
        ({"limits": {"cpu": 1, "hugepages-2K": "4k"}}, "limits.hugepages-2K", "`2K` is not a page size"),
        ({"limits": {"cpu": 1, "hugepages-0Mi": "0"}}, "limits.hugepages-0Mi", "`0Mi` is not a page size"),
    ],
)
def test_resources_that_do_not_fit_together(resources: dict[str, Any], place: str, words: str) -> None:
    refused(of(resources=resources), f"{FIRST}.resources.{place}", words)


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "1"}, "limits": {"cpu": 1}},
        {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": 1}},
        {"limits": {"nvidia.com/gpu": 8}},
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
        {"limits": {"hugepages-2Mi": "4Mi", "hugepages-1Gi": 0}, "requests": {"memory": "1Gi"}},
        {"limits": {"hugepages-2Mi": "4Mi", "cpu": 1}, "requests": {"hugepages-2Mi": "4096Ki"}},
        {"requests": None, "limits": {"cpu": None}},
        {},
    ],
)
def test_resources_that_fit(resources: dict[str, Any]) -> None:
    admitted(of(resources=resources))


def test_huge_pages_need_cpu_or_memory() -> None:
    pages = {"limits": {"hugepages-2Mi": "4Mi", "nvidia.com/gpu": 1}}
    problem = refused(of(resources=pages), f"{FIRST}.resources", "huge pages need cpu or memory")
    assert problem.hint == "add `memory: ...` to the limits"
    admitted(pod(containers=[container(resources=pages)], resources={"requests": {"memory": "1Gi"}}))


def test_init_containers_are_checked_as_well() -> None:
    bad = container("init", image="", volumeMounts=[{"name": "x", "mountPath": "/x"}])
    found = errors(pod(initContainers=[bad]))
    assert [problem.path for problem in found] == [
        f"{POD}.initContainers[0]",
        f"{POD}.initContainers[0].volumeMounts[0].name",
    ]


def test_every_task_is_checked() -> None:
    refused(
        job(task("a"), task("b", template=template(container(image="")))),
        "spec.tasks[1].template.spec.containers[0]",
        "no image",
    )
