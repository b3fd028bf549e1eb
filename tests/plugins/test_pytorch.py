"""The pytorch plugin: ranks, address, port."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.jobs import Pod, job, problems, task
from vcjob.plan.plan import Plan
from vcjob.plugins.registry import open_plugins
from vcjob.plugins.svc import SvcOptions
from vcjob.plugins.wait import program
from vcjob.spec.job import Job

PORT = {"containerPort": 23456, "name": "pytorchjob-port"}
ADDR = "test-pytorch-master-0.test-pytorch"


def with_ports(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "img:1", "ports": list(ports)}]}


def ports_of(pod: Pod, container: str = "main") -> list[dict[str, Any]]:
    ports: list[dict[str, Any]] = pod.container(container).get("ports", [])
    return ports


# ---- the cases that Volcano itself tests its plugin with ----


def test_upstream_worker_without_master_is_refused() -> None:
    assert problems(job(task("worker"))) == [
        (
            "error",
            "spec.plugins.pytorch",
            "there is no task named `master` for the master, so the ranks could not find each other",
            "rename the task to master, or write --master=worker and --worker=worker to make its replica 0 the master",
        )
    ]


PRESET_SAME = {"name": "pytorchjob-port", "containerPort": 23456}
PRESET_OTHER = {"name": "pytorchjob-port", "containerPort": 123}


@pytest.mark.parametrize(
    ("tasks", "pod", "ports", "world", "rank"),
    [
        ([task("master"), task("worker")], ("master", 0), [PORT], "2", "0"),
        ([task("master", **with_ports(PRESET_SAME)), task("worker")], ("master", 0), [PRESET_SAME], "2", "0"),
        (
            [task("master", **with_ports(PRESET_OTHER)), task("worker", 2), task("extra", 2)],
            ("master", 0),
            [PRESET_OTHER, {"containerPort": 23456}],
            "3",
            "0",
        ),
        ([task("master"), task("worker", 2), task("extra", 2)], ("worker", 0), [PORT], "3", "1"),
        ([task("master"), task("worker", 2), task("extra", 2)], ("worker", 1), [PORT], "3", "2"),
    ],
)
def test_upstream_env_and_ports(
    tasks: list[dict[str, Any]], pod: tuple[str, int], ports: list[dict[str, Any]], world: str, rank: str
) -> None:
    shaped = Pod(job(*tasks), *pod)
    assert ports_of(shaped) == ports
    assert shaped.env == {"MASTER_ADDR": ADDR, "MASTER_PORT": "23456", "WORLD_SIZE": world, "RANK": rank}


WAIT_ON = ["--wait-master-enabled=true"]
OWN_WAIT = {"name": "wait-for-master", "image": "own:1", "command": ["own"]}


@pytest.mark.parametrize(
    ("arguments", "worker", "pod", "expected"),
    [
        (WAIT_ON, task("worker"), ("worker", 0), ("busybox:1.36.1", "300")),
        ([], task("worker"), ("worker", 0), None),
        (["--wait-master-enabled=false"], task("worker"), ("worker", 0), None),
        (WAIT_ON, task("worker"), ("master", 0), None),
        (
            [*WAIT_ON, "--wait-master-image=alpine:latest", "--wait-master-timeout=600"],
            task("worker"),
            ("worker", 0),
            ("alpine:latest", "600"),
        ),
    ],
)
def test_upstream_wait_for_master(
    arguments: list[str], worker: dict[str, Any], pod: tuple[str, int], expected: tuple[str, str] | None
) -> None:
    shaped = Pod(job(task("master"), worker, pytorch=arguments), *pod)
    assert [
        (c["name"], c["image"], c["command"], c["env"][2]) for c in shaped.spec.get("initContainers", [])
    ] == (
        [
            (
                "wait-for-master",
                expected[0],
                ["sh", "-c", program()],
                {"name": "VCJOB_WAIT_TIMEOUT", "value": expected[1]},
            )
        ]
        if expected
        else []
    )


def test_upstream_a_wait_for_master_of_the_template_is_left_alone() -> None:
    shaped = Pod(job(task("master"), task("worker", initContainers=[OWN_WAIT]), pytorch=WAIT_ON), "worker", 0)
    mounts = [{"name": "test-pytorch-svc", "mountPath": "/etc/volcano"}]
    assert shaped.spec["initContainers"] == [{**OWN_WAIT, "volumeMounts": mounts}]


# ---- ranks ----


def test_other_tasks_get_the_address_but_no_rank() -> None:
    shaped = Pod(job(task("master"), task("worker", 2), task("extra")), "extra", 0)
    assert shaped.env == {"MASTER_ADDR": ADDR, "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert ports_of(shaped) == [PORT]


def test_without_a_task_worker_the_world_is_the_master_alone() -> None:
    assert Pod(job(task("master"), task("extra", 4)), "master", 0).env["WORLD_SIZE"] == "1"
    assert problems(job(task("master"), task("extra", 4))) == []


def test_tasks_and_port_go_by_the_arguments() -> None:
    made = job(
        task("chief"), task("helper", 2), pytorch=["--master=chief", "--worker", "helper", "-port=0x1000"]
    )
    assert problems(made) == []
    assert Pod(made, "helper", 1).env == {
        "MASTER_ADDR": "test-pytorch-chief-0.test-pytorch",
        "MASTER_PORT": "4096",
        "WORLD_SIZE": "3",
        "RANK": "2",
    }
    assert ports_of(Pod(made, "chief", 0)) == [{"containerPort": 4096, "name": "pytorchjob-port"}]


def test_improvement_4_one_task_named_as_both_is_a_job_of_equal_replicas() -> None:
    made = job(task("node", 3), pytorch=["--master=node", "--worker=node"])
    assert problems(made) == []
    assert [Pod(made, "node", index).env for index in range(3)] == [
        {
            "MASTER_ADDR": "test-pytorch-node-0.test-pytorch",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "3",
            "RANK": str(index),
        }
        for index in range(3)
    ]


def test_improvement_4_in_a_job_of_equal_replicas_every_pod_waits_and_the_program_knows_rank_0() -> None:
    made = job(task("node", 2), pytorch=["--master=node", "--worker=node", "--wait-master-enabled"])
    for index in range(2):
        shaped = Pod(made, "node", index)
        assert [container["name"] for container in shaped.spec["initContainers"]] == ["wait-for-master"]
        assert shaped.env["RANK"] == str(index)


@given(workers=st.integers(0, 12), extra=st.integers(0, 5))
def test_ranks_are_exactly_0_to_world_size(workers: int, extra: int) -> None:
    made = job(task("master"), task("worker", workers), task("extra", extra))
    ranks = [Pod(made, "master", 0).env["RANK"]] + [
        Pod(made, "worker", i).env["RANK"] for i in range(workers)
    ]
    assert ranks == [str(rank) for rank in range(workers + 1)]
    assert Pod(made, "master", 0).env["WORLD_SIZE"] == str(workers + 1)


def test_improvement_28_the_masters_own_hostname_and_subdomain_make_its_address() -> None:
    made = job(task("master", hostname="boss", subdomain="head"), task("worker"))
    assert problems(made) == []
    assert Pod(made, "worker", 0).env["MASTER_ADDR"] == "boss.head"
    assert Pod(made, "master", 0).spec["hostname"] == "boss"
    made = job(task("master", subdomain="head"), task("worker"))
    assert Pod(made, "worker", 0).env["MASTER_ADDR"] == "test-pytorch-master-0.head"


# ---- ports ----


def test_a_port_of_another_protocol_is_another_port() -> None:
    udp = {"containerPort": 23456, "protocol": "UDP"}
    assert ports_of(Pod(job(task("master", **with_ports(udp))), "master", 0)) == [udp, PORT]
    tcp = {"containerPort": 23456, "protocol": "TCP"}
    assert ports_of(Pod(job(task("master", **with_ports(tcp))), "master", 0)) == [tcp]


def test_every_container_declares_the_port_and_no_init_container_does() -> None:
    containers = [{"name": "main", "image": "i"}, {"name": "side", "image": "i", "ports": None}]
    shaped = Pod(
        job(task("master", containers=containers, initContainers=[{"name": "pre", "image": "i"}])),
        "master",
        0,
    )
    assert (ports_of(shaped, "main"), ports_of(shaped, "side")) == ([PORT], [PORT])
    assert "ports" not in shaped.container("pre")


def test_a_container_that_declares_the_port_does_not_speak_for_the_next() -> None:
    containers = [
        {"name": "main", "image": "i", "ports": [{"containerPort": 23456}]},
        {"name": "side", "image": "i"},
    ]
    shaped = Pod(job(task("master", containers=containers)), "master", 0)
    assert (ports_of(shaped, "main"), ports_of(shaped, "side")) == ([{"containerPort": 23456}], [PORT])


@pytest.mark.parametrize("declared", ["main", "side", None])
def test_improvement_7_with_host_network_the_port_is_declared_once_in_the_pod(declared: str | None) -> None:
    containers: list[dict[str, Any]] = [{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]
    for container in containers:
        if container["name"] == declared:
            container["ports"] = [{"containerPort": 23456}]
    shaped = Pod(job(task("master", containers=containers, hostNetwork=True)), "master", 0)
    assert [ports_of(shaped, name) for name in ("main", "side")] == {
        "main": [[{"containerPort": 23456}], []],
        "side": [[], [{"containerPort": 23456}]],
        None: [[PORT], []],
    }[declared]


# ---- svc, nproc-per-node, Istio ----


@pytest.mark.parametrize(
    ("svc", "options"),
    [
        ("absent", SvcOptions(publish_not_ready_addresses=True)),
        (None, SvcOptions(publish_not_ready_addresses=True)),
        ([], SvcOptions(publish_not_ready_addresses=True)),
        (["--disable-network-policy"], SvcOptions(disable_network_policy=True)),
        (["--publish-not-ready-addresses=false"], SvcOptions()),
    ],
)
@pytest.mark.parametrize("first", ["pytorch", "svc"])
def test_svc_is_opened_by_force_and_publishes_early_unless_the_user_has_a_say(
    svc: Any, options: SvcOptions, first: str
) -> None:
    plugins: dict[str, Any] = {"pytorch": []} if svc == "absent" else {"pytorch": [], "svc": svc}
    if first == "svc":
        plugins = dict(reversed(plugins.items()))
    opened = open_plugins(job(task("master"), **plugins))
    assert [(plugin.name, found) for plugin, found in opened[1:]] == [("svc", options)]


@pytest.mark.parametrize(
    ("given", "value"),
    [("1", "1"), ("8", "8"), ("0x4", "4"), ("auto", "auto"), ("gpu", "gpu"), ("cpu", "cpu")],
)
def test_nproc_per_node_adds_what_torchrun_reads(given: str, value: str) -> None:
    made = job(
        task("master"), task("worker", 2), task("extra"), pytorch=["--port=99", f"--nproc-per-node={given}"]
    )
    assert problems(made) == []
    assert Pod(made, "worker", 1).env == {
        "MASTER_ADDR": ADDR,
        "MASTER_PORT": "99",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": value,
        "PET_MASTER_ADDR": ADDR,
        "PET_MASTER_PORT": "99",
    }
    assert list(Pod(made, "extra", 0).env) == ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"]


def test_improvement_29_the_sidecar_is_turned_off_on_request() -> None:
    made = job(task("master", metadata={"labels": {"a": "b"}}), pytorch=["--disable-istio-sidecar"])
    off = {"sidecar.istio.io/inject": "false"}
    assert problems(made) == []
    assert Pod(made, "master", 0).pod["metadata"] == {"labels": {"a": "b", **off}, "annotations": off}


@pytest.mark.parametrize(
    "order", [("pytorch", "svc", "env"), ("env", "svc", "pytorch"), ("svc", "env", "pytorch")]
)
def test_improvement_1_the_order_in_the_file_does_not_matter(order: tuple[str, ...]) -> None:
    arguments: dict[str, Any] = {"pytorch": ["--wait-master-enabled"], "svc": [], "env": []}
    pods = [
        Pod(job(task("master"), task("worker", 2), **{name: arguments[name] for name in names}), "worker", 1)
        for names in (order, ("pytorch", "svc", "env"))
    ]
    assert json.dumps([pods[0].pod, pods[0].injected]) == json.dumps([pods[1].pod, pods[1].injected])


def test_improvement_1_siblings_differ_in_their_index_alone() -> None:
    made = job(
        task("master"), task("worker", 2), pytorch=["--wait-master-enabled", "--nproc-per-node=2"], env=[]
    )
    first, second = (Pod(made, "worker", index) for index in range(2))
    ranks = {"RANK": "1", "PET_NODE_RANK": "1", "VK_TASK_INDEX": "0", "VC_TASK_INDEX": "0"}
    assert {**second.env, **ranks} == first.env
    assert {**second.spec, "hostname": "test-pytorch-worker-0"} == first.spec


def test_improvement_6_init_containers_know_their_rank_and_injected_values_come_first() -> None:
    own = [{"name": "URL", "value": "tcp://$(MASTER_ADDR)"}, {"name": "RANK", "value": "9"}]
    made = job(
        task("master"),
        task(
            "worker",
            initContainers=[{"name": "pre", "image": "i"}],
            containers=[{"name": "main", "image": "i", "env": own}],
        ),
        pytorch=["--wait-master-enabled"],
    )
    spec = Plan(made).pod("worker", 0)["spec"]
    names = ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"]
    found = {c["name"]: c["env"] for c in (*spec["initContainers"], *spec["containers"])}
    assert {name: [entry["name"] for entry in env[:4]] for name, env in found.items()} == dict.fromkeys(
        found, names
    )
    assert [env[3]["value"] for env in found.values()] == ["1", "1", "1"]
    assert found["main"][-1] == own[0]
    assert [entry["name"] for entry in found["main"]].count("RANK") == 1


def test_the_fixed_order_of_what_is_injected() -> None:
    made = job(task("master"), env=[], svc=[], pytorch=[])
    assert list(Pod(made, "master", 0).injected) == [
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "VC_MASTER_HOSTS",
        "VC_MASTER_NUM",
        "VK_TASK_INDEX",
        "VC_TASK_INDEX",
    ]
    assert [plugin.name for plugin, _ in open_plugins(made)] == ["pytorch", "svc", "env"]


def test_a_pod_of_one_rank_gets_a_local_rank() -> None:
    made = job(task("master"), task("worker", 2), task("tensorboard"))
    for name, index in (("master", 0), ("worker", 1)):
        env = planned_env(made, name, index)
        assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == ("0", "1")
    assert "LOCAL_RANK" not in planned_env(made, "tensorboard", 0)


@pytest.mark.parametrize("argument", ["--local-rank=false", "--nproc-per-node=2", "--nproc-per-node=auto"])
def test_the_local_rank_is_left_to_others_where_asked(argument: str) -> None:
    env = planned_env(job(task("master"), pytorch=[argument]), "master", 0)
    assert "RANK" in env
    assert not {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} & set(env)


def test_a_container_that_sets_its_local_rank_keeps_it() -> None:
    own = {"name": "main", "image": "i", "env": [{"name": "LOCAL_RANK", "value": "3"}]}
    made = job(task("master", containers=[own, {"name": "side", "image": "i"}]))
    assert planned_env(made, "master", 0)["LOCAL_RANK"] == "3"
    assert planned_env(made, "master", 0)["LOCAL_WORLD_SIZE"] == "1"
    assert planned_env(made, "master", 0, container=1)["LOCAL_RANK"] == "0"
    assert problems(made) == []


def test_the_local_rank_comes_before_the_containers_own_variables() -> None:
    own = {"name": "main", "image": "i", "env": [{"name": "DEVICE", "value": "cuda:$(LOCAL_RANK)"}]}
    assert list(planned_env(job(task("master", containers=[own])), "master", 0))[-2:] == [
        "LOCAL_WORLD_SIZE",
        "DEVICE",
    ]


def test_the_argument_local_rank_must_come_last() -> None:
    ((severity, path, message, _),) = problems(
        job(task("master"), pytorch=["--local-rank=false", "--port=5"])
    )
    assert (severity, path) == ("warning", "spec.plugins.pytorch[0]")
    assert "--local-rank" in message


def planned_env(made: Job, name: str, index: int, container: int = 0) -> dict[str, str]:
    """The variables of one container as the plan makes them."""
    entries = Plan(made).pod(name, index)["spec"]["containers"][container]["env"]
    return {entry["name"]: entry.get("value", "") for entry in entries}
