"""`--flight-recorder` of the pytorch plugin: what it adds to the pods of ranks, and what stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.admission.cases import admitted, pytorch_job, refused
from tests.plugins.jobs import Pod, job, problems, task
from vcjob.local.warm.zygote.environment_scan import files_of_module, first_setting
from vcjob.local.warm.zygote.imported_modules import ACTS_AT_START
from vcjob.plan.plan import Plan
from vcjob.plugins.flight_recorder import AGENT_FOLDER, BUFFER_SIZE, REPORT_FOLDER, without_agent
from vcjob.rank_agent import agent
from vcjob.spec.job import Job

ON = ["--flight-recorder=true"]


def container(*env: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "main", "image": "img:1", **({"env": list(env)} if env else {}), **fields}


def ranks(main: dict[str, Any], arguments: list[str] = ON) -> Job:
    tasks = [task("master", containers=[main]), task("worker", 2, containers=[main]), task("extra")]
    return job(*tasks, pytorch=arguments, svc=[])


def variables(pod: Pod) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod.container("main").get("env", [])}


def test_without_the_argument_nothing_is_added() -> None:
    assert [each["kind"] for each in Plan(ranks(container(), [])).objects()].count("ConfigMap") == 1
    pod = Pod(ranks(container(), []), "worker", 1)
    assert variables(pod) == {} and len(pod.spec["volumes"]) == 1


def test_every_rank_gets_the_recorder_and_the_agent_and_other_pods_do_not() -> None:
    for name, index in (("master", 0), ("worker", 1)):
        pod = Pod(ranks(container()), name, index)
        assert variables(pod) == {
            "PYTHONPATH": AGENT_FOLDER,
            "TORCH_FR_BUFFER_SIZE": "100",
            "VCJOB_RANK_STATE": REPORT_FOLDER,
        }
        mounts = {each["mountPath"]: each for each in pod.container("main")["volumeMounts"]}
        assert mounts[AGENT_FOLDER]["readOnly"] and mounts[REPORT_FOLDER]["subPath"] == "main"
        assert {each["mountPath"] for each in mounts.values()} >= {AGENT_FOLDER, REPORT_FOLDER}
        assert {each["name"] for each in pod.spec["volumes"]} >= {each["name"] for each in mounts.values()}
    assert "env" not in Pod(ranks(container()), "extra", 0).container("main")


def test_the_agent_is_a_config_map_of_the_job_that_stays_small() -> None:
    found = {each["metadata"]["name"]: each for each in Plan(ranks(container())).objects()}
    files = found["test-pytorch-rank-agent"]["data"]
    assert sorted(files) == ["activity.py", "agent.py", "sitecustomize.py"]
    assert sum(map(len, files.values())) < 64 * 1024
    for name, text in files.items():
        compile(text, name, "exec")
        assert "import vcjob" not in text and "from vcjob" not in text  # the image does not have it


@pytest.mark.parametrize("name", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
def test_the_users_own_buffer_size_and_python_path_stay(name: str) -> None:
    own = [{"name": name, "value": "7"}, {"name": "PYTHONPATH", "value": "/mine:/other"}]
    found = variables(Pod(ranks(container(*own)), "worker", 0))
    assert found == {
        name: "7",
        "PYTHONPATH": f"{AGENT_FOLDER}:/mine:/other",
        "VCJOB_RANK_STATE": REPORT_FOLDER,
    }


def test_a_python_path_that_cannot_be_extended_is_a_warning_and_stays() -> None:
    entry = {"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    of = job(task("master", containers=[container(entry)]), pytorch=ON, svc=[])
    ((level, where, message, _),) = problems(of)
    assert (level, where) == ("warning", "spec.tasks[0].template.spec.containers[0].env[0]")
    assert "comes from `valueFrom`" in message
    assert entry in Pod(of, "master", 0).container("main")["env"]


def test_a_mount_at_the_same_place_is_an_error() -> None:
    mounts = [{"name": "data", "mountPath": f"{REPORT_FOLDER}/"}]
    of = job(task("master", containers=[container(volumeMounts=mounts)]), pytorch=ON, svc=[])
    ((level, where, _, _),) = problems(of)
    assert (level, where) == ("error", "spec.tasks[0].template.spec.containers[0].volumeMounts[0].mountPath")


@pytest.mark.parametrize("path", [AGENT_FOLDER, f"{REPORT_FOLDER}/"])
def test_a_volume_of_the_job_at_the_same_place_is_an_error(path: str) -> None:
    volumes = [{"mountPath": path, "volumeClaimName": "c"}]
    refused(pytorch_job(*ON, volumes=volumes), "spec.volumes[0].mountPath", "`--flight-recorder` mounts")
    admitted(pytorch_job(volumes=volumes))


@pytest.mark.parametrize("name", ["vcjob-rank-agent", "vcjob-rank-state"])
def test_a_volume_of_the_same_name_is_an_error(name: str) -> None:
    of = job(task("master", volumes=[{"name": name, "emptyDir": {}}]), pytorch=ON, svc=[])
    assert problems(of) == [
        (
            "error",
            "spec.tasks[0].template.spec.volumes[0].name",
            f"`--flight-recorder` uses the volume name `{name}`",
            "rename this volume",
        )
    ]
    assert problems(job(task("master", volumes=[{"name": name, "emptyDir": {}}]), pytorch=[])) == []


@pytest.mark.parametrize("own", [(), ({"name": "PYTHONPATH", "value": "/mine"},)])
def test_on_this_machine_the_mounted_agent_is_taken_off_again(own: tuple[dict[str, Any], ...]) -> None:
    added = without_agent(Pod(ranks(container(*own)), "worker", 0).container("main"))
    plain = Pod(ranks(container(*own), []), "worker", 0).container("main")
    assert [entry for entry in added["env"] if entry["name"] != "TORCH_FR_BUFFER_SIZE"] == plain.get(
        "env", []
    )
    assert added["volumeMounts"] == plain["volumeMounts"]
    assert without_agent(plain) is plain


def test_the_agent_and_the_plugin_use_the_same_buffer() -> None:
    assert agent.BUFFER_SIZE == BUFFER_SIZE


@pytest.mark.slow
def test_a_program_that_imports_vcjob_from_a_checkout_can_start_warm() -> None:
    """The agent sets a variable of torch; nothing that such a program imports may import the agent."""
    source = str(Path(vcjob.__file__).parents[1])
    program = files_of_module("vcjob.local.programs.allreduce", [source])
    assert first_setting(program, [source], ACTS_AT_START) is None
