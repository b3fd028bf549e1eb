"""The svc and env plugins: the names by which pods find each other, and the index of each pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admission.cases import pytorch_job, refused
from tests.plugins.jobs import Pod, job, problems, task
from vcjob.plugins import svc
from vcjob.plugins.registry import open_plugins
from vcjob.spec.job import Job

META = {"name": "train", "namespace": "default"}
SELECTOR = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}


def train(*tasks: dict[str, Any], arguments: list[str] | None = None) -> Job:
    return job(*tasks, name="train", svc=arguments or [])


def objects(of: Job) -> list[dict[str, Any]]:
    return [obj for plugin, options in open_plugins(of) for obj in plugin.objects(of, options)]


def config_map(of: Job) -> dict[str, str]:
    (found,) = (obj for obj in objects(of) if obj["kind"] == "ConfigMap")
    data: dict[str, str] = found["data"]
    return data


POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": META,
    "spec": {
        "podSelector": {"matchLabels": SELECTOR},
        "ingress": [{"from": [{"podSelector": {"matchLabels": SELECTOR}}]}],
        "policyTypes": ["Ingress"],
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": META,
    "spec": {"clusterIP": "None", "selector": SELECTOR},
}


def test_all_its_objects() -> None:
    assert objects(train(task("master"), task("ps-worker", 2))) == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "train-svc", "namespace": "default"},
            "data": {
                "master.host": "train-master-0.train",
                "VC_MASTER_HOSTS": "train-master-0.train",
                "VC_MASTER_NUM": "1",
                "ps_worker.host": "train-ps-worker-0.train\ntrain-ps-worker-1.train",
                "VC_PS_WORKER_HOSTS": "train-ps-worker-0.train,train-ps-worker-1.train",
                "VC_PS_WORKER_NUM": "2",
            },
        },
        SERVICE,
        POLICY,
    ]


def test_the_arguments() -> None:
    publishing = {**SERVICE, "spec": {**SERVICE["spec"], "publishNotReadyAddresses": True}}  # type: ignore[dict-item]
    assert objects(train(task("a"), arguments=["--publish-not-ready-addresses"]))[1:] == [publishing, POLICY]
    assert objects(train(task("a"), arguments=["--disable-network-policy=t"]))[1:] == [SERVICE]


def test_a_pod_is_named_and_mounts_the_lists_everywhere() -> None:
    mount = {"name": "train-svc", "mountPath": "/etc/volcano"}
    own = {"name": "data", "mountPath": "/data"}
    made = train(
        task(
            "a",
            2,
            containers=[
                {"name": "main", "image": "i", "volumeMounts": [own]},
                {"name": "side", "image": "i", "volumeMounts": None},
            ],
            initContainers=[{"name": "pre", "image": "i"}],
            volumes=[{"name": "data", "emptyDir": {}}],
        )
    )
    assert Pod(made, "a", 1).spec == {
        "restartPolicy": "Never",
        "containers": [
            {"name": "main", "image": "i", "volumeMounts": [own, mount]},
            {"name": "side", "image": "i", "volumeMounts": [mount]},
        ],
        "initContainers": [{"name": "pre", "image": "i", "volumeMounts": [mount]}],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "train-svc", "configMap": {"name": "train-svc"}},
        ],
        "hostname": "train-a-1",
        "subdomain": "train",
    }


@pytest.mark.parametrize("empty", ["", None])
def test_a_name_of_the_templates_own_stays_and_an_empty_one_does_not(empty: str | None) -> None:
    spec = Pod(train(task("a", hostname="h", subdomain="s")), "a", 0).spec
    assert (spec["hostname"], spec["subdomain"]) == ("h", "s")
    spec = Pod(train(task("a", hostname=empty, subdomain=empty, volumes=None)), "a", 0).spec
    assert (spec["hostname"], spec["subdomain"]) == ("train-a-0", "train")


def key_ref(key: str) -> dict[str, Any]:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": key}}}


def test_the_env_refers_to_the_config_map_task_by_task() -> None:
    keys = ["VC_B_HOSTS", "VC_B_NUM", "VC_A_HOSTS", "VC_A_NUM"]
    assert list(Pod(train(task("b"), task("a", 2)), "a", 0).injected.items()) == [
        (key, key_ref(key)) for key in keys
    ]


def test_the_env_can_be_left_out_and_the_config_map_is_the_same() -> None:
    off = train(task("b"), task("a", 2), arguments=["--inject-hosts-env=false"])
    assert Pod(off, "a", 0).injected == {}
    assert config_map(off) == config_map(train(task("b"), task("a", 2)))


def test_a_template_with_its_own_hostname_counts_one_host() -> None:
    made = train(task("a", 3, hostname="h"), task("b", 0, hostname="h"), task("c", 0))
    assert config_map(made) == {
        "a.host": "h.train",
        "VC_A_HOSTS": "h.train",
        "VC_A_NUM": "1",
        "b.host": "",
        "VC_B_HOSTS": "",
        "VC_B_NUM": "0",
        "c.host": "",
        "VC_C_HOSTS": "",
        "VC_C_NUM": "0",
    }


def test_improvement_28_a_subdomain_of_the_templates_own_has_a_service_too() -> None:
    made = train(
        task("a", subdomain="s"),
        task("b", subdomain="s"),
        task("c"),
        task("d", subdomain="r"),
        task("e", subdomain="train"),
    )
    extra = [
        {**SERVICE, "metadata": {**META, "name": name, "annotations": {"vcjob.io/if-absent": "true"}}}
        for name in ("s", "r")
    ]
    assert objects(made)[1:] == [SERVICE, *extra, POLICY]
    assert objects(train(task("a", subdomain="s")))[1:] == [SERVICE, extra[0], POLICY]


def test_improvement_24_hosts_too_long_for_a_program_are_left_out_with_a_warning() -> None:
    name = "w" * 50
    made = train(task("a"), task(name, 2500))
    variable = f"VC_{name.upper()}_HOSTS"
    assert list(Pod(made, "a", 0).injected) == ["VC_A_HOSTS", "VC_A_NUM", f"VC_{name.upper()}_NUM"]
    assert problems(made) == [
        (
            "warning",
            "spec.tasks[1].replicas",
            f"`{variable}` is not set: the names of 2500 pods are too long for the environment of a program",
            f"read /etc/volcano/{name}.host instead",
        )
    ]
    assert len(config_map(made)[variable]) > 128 * 1024
    assert problems(train(task("a"), task(name, 2500), arguments=["--inject-hosts-env=false"])) == []


def test_improvement_24_the_limit_is_the_kernels_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    made = train(task("a", 3))
    value = "train-a-0.train,train-a-1.train,train-a-2.train"
    exact = len(f"VC_A_HOSTS={value}") + 1  # the kernel counts the zero byte behind it
    monkeypatch.setattr(svc, "MAX_VARIABLE", exact)
    assert sorted(svc.oversized(made)) == []
    monkeypatch.setattr(svc, "MAX_VARIABLE", exact - 1)
    assert sorted(svc.oversized(made)) == ["VC_A_HOSTS"]


def test_improvement_24_all_variables_together_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = train(task("a"), task("b"), task("c", 0), task("d"))
    one, none = len("VC_A_HOSTS=train-a-0.train") + 1, len("VC_C_HOSTS=") + 1
    monkeypatch.setattr(svc, "MAX_VARIABLES", one + none)
    assert sorted(svc.oversized(made)) == ["VC_B_HOSTS", "VC_D_HOSTS"]
    monkeypatch.setattr(svc, "MAX_VARIABLES", 2 * one + none)
    assert sorted(svc.oversized(made)) == ["VC_D_HOSTS"]


def test_the_kernel_really_refuses_what_is_left_out() -> None:
    import subprocess

    subprocess.run(["true"], env={"VC": "x" * (svc.MAX_VARIABLE - len("VC=") - 1)}, check=True)
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true"], env={"VC": "x" * (svc.MAX_VARIABLE - len("VC="))}, check=True)


def test_a_list_that_is_left_out_makes_room_in_a_full_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    made = train(task("a", 3), task("b"))
    whole = config_map(made)
    size = sum(len(key) + len(value) for key, value in whole.items())
    monkeypatch.setattr(svc, "MAX_VARIABLE", 40)
    monkeypatch.setattr(svc, "MAX_CONFIG_MAP", size)
    assert config_map(made) == whole
    monkeypatch.setattr(svc, "MAX_CONFIG_MAP", size - 1)
    assert config_map(made) == {key: value for key, value in whole.items() if key != "VC_A_HOSTS"}
    assert [(severity, path) for severity, path, _, _ in problems(made)] == [
        ("warning", "spec.tasks[0].replicas")
    ]


def test_lists_too_long_for_a_config_map_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = train(task("a", 3), task("b", 2))
    size = sum(len(key) + len(value) for key, value in config_map(made).items())
    monkeypatch.setattr(svc, "MAX_CONFIG_MAP", size)
    assert problems(made) == []
    monkeypatch.setattr(svc, "MAX_CONFIG_MAP", size - 1)
    assert problems(made) == [
        (
            "error",
            "spec.tasks",
            f"the host lists of 5 pods need {size} bytes; a ConfigMap can hold {size - 1}",
            "shorten the names of the Job and its tasks, or use fewer replicas",
        )
    ]


def test_the_volumes_name_and_its_place_must_be_free() -> None:
    made = train(
        task("b"),
        task(
            "a",
            volumes=[{"name": "x", "emptyDir": {}}, {"name": "train-svc", "emptyDir": {}}],
            containers=[
                {
                    "name": "main",
                    "image": "i",
                    "volumeMounts": [
                        {"name": "x", "mountPath": "/x"},
                        {"name": "x", "mountPath": "/etc/volcano/"},
                    ],
                }
            ],
            initContainers=[
                {"name": "pre", "image": "i", "volumeMounts": [{"name": "x", "mountPath": "/etc/volcano"}]}
            ],
        ),
    )
    pod = "spec.tasks[1].template.spec"
    taken = ("the svc plugin mounts its host lists at `/etc/volcano`", "mount this volume at another path")
    assert problems(made) == [
        (
            "error",
            f"{pod}.volumes[1].name",
            "the svc plugin uses the volume name `train-svc`",
            "rename this volume",
        ),
        ("error", f"{pod}.initContainers[0].volumeMounts[0].mountPath", *taken),
        ("error", f"{pod}.containers[0].volumeMounts[1].mountPath", *taken),
    ]


@pytest.mark.parametrize("path", ["/etc/volcano", "/etc/volcano/"])
def test_a_volume_of_the_job_at_the_path_of_the_host_lists_is_an_error(path: str) -> None:
    volumes = [{"mountPath": "/data", "volumeClaimName": "c"}, {"mountPath": path, "volumeClaimName": "c"}]
    refused(pytorch_job(volumes=volumes), "spec.volumes[1].mountPath", "the svc plugin mounts its host lists")


def test_a_subdomain_that_cannot_be_the_name_of_a_service_is_an_error() -> None:
    made = train(task("a", subdomain="1abc"), task("b", subdomain="abc1"), task("c", subdomain="-"))
    assert problems(made) == [
        (
            "error",
            "spec.tasks[0].template.spec.subdomain",
            "the subdomain `1abc` must begin with a letter, because the svc plugin creates a Service of this name",
            "choose another subdomain, or remove it",
        )
    ]
    assert problems(job(task("a", subdomain="1abc"), env=[])) == []


def test_env_gives_the_index_twice() -> None:
    assert Pod(job(task("a", 9), env=[]), "a", 7).env == {"VK_TASK_INDEX": "7", "VC_TASK_INDEX": "7"}
    assert Pod(job(task("a", 9), env=None), "a", 7).env == {"VK_TASK_INDEX": "7", "VC_TASK_INDEX": "7"}


def test_improvement_29_env_gives_the_attempt_on_request() -> None:
    made = job(task("a", 9), env=["--attempt"])
    assert problems(made) == []
    assert Pod(made, "a", 7).env == {"VK_TASK_INDEX": "7", "VC_TASK_INDEX": "7", "VCJOB_ATTEMPT": "0"}


def test_an_argument_that_env_does_not_have_is_refused() -> None:
    assert problems(job(task("a"), env=["--index"])) == [
        ("error", "spec.plugins.env[0]", "there is no argument `--index`", "the arguments are --attempt")
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 9, 10, 11, 99, 100, 101, 1234]), st.sampled_from(["", "own"])),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 60_000),
    st.integers(1, 60_000),
)
def test_the_size_of_the_host_lists_is_worked_out_exactly(
    tasks: list[tuple[int, str]], most: int, longest: int
) -> None:
    made = train(*(task(f"t-{i}", count, hostname=name) for i, (count, name) in enumerate(tasks)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svc, "MAX_VARIABLE", longest)
        full = svc.host_data(made)
        too_long = {
            name
            for name, value in full.items()
            if name.endswith("_HOSTS") and len(f"{name}={value}") + 1 > longest
        }
        assert svc.oversized(made) == too_long
        patch.setattr(svc, "MAX_CONFIG_MAP", most)
        size = sum(len(key) + len(value) for key, value in svc.host_data(made).items())
        assert any("can hold" in message for _, _, message, _ in problems(made)) == (size > most)
