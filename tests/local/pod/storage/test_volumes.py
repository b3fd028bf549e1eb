"""Volumes become folders, and mounts that only the process sees."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import Start, container, job, some_host, task, texts
from vcjob.local.pod.environment import MissingReference
from vcjob.local.pod.launch import LaunchRequest, Mount, PlainLauncher
from vcjob.local.pod.storage import volumes


def test_volumes_become_folders_with_their_files(tmp_path: Path) -> None:
    host = some_host(config_maps={"c": {"a": "1", "b": "2"}}, secrets={"s": {"k": b"\x00\xff"}})
    pod = {
        "metadata": {"name": "pod", "labels": {"x": "y"}},
        "spec": {
            "volumes": [
                {"name": "all", "configMap": {"name": "c"}},
                {"name": "one", "configMap": {"name": "c", "items": [{"key": "b", "path": "deep/b"}]}},
                {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "empty", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": str(tmp_path / "made"), "type": "DirectoryOrCreate"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "mixed", "projected": {"sources": [
                    {"configMap": {"name": "c"}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]}},
            ]
        },
    }  # fmt: skip
    made = volumes.make_volumes(
        pod, host, str(tmp_path / "pod"), lambda name: str(tmp_path / "claims" / name)
    )
    assert (Path(made["all"].source) / "a").read_text() == "1"
    assert [
        str(p.relative_to(made["one"].source)) for p in Path(made["one"].source).rglob("*") if p.is_file()
    ] == ["deep/b"]
    assert (Path(made["secret"].source) / "k").read_bytes() == b"\x00\xff"
    assert os.listdir(made["empty"].source) == [] and os.path.isdir(made["host"].source)
    assert made["claim"].source == str(tmp_path / "claims" / "data")
    assert (Path(made["mixed"].source) / "name").read_text() == "pod"
    assert made["all"].read_only and not made["empty"].read_only


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "nowhere"}},
        {"secret": {"secretName": "nowhere"}},
        {"hostPath": {"path": "/nowhere/at/all"}},
        {"nfs": {"server": "x", "path": "/"}},
        {"configMap": {"name": "c", "items": [{"key": "a", "path": "../../out"}]}},
    ],
)
def test_a_volume_that_cannot_be_made_is_refused(tmp_path: Path, volume: dict[str, Any]) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", **volume}]}}
    with pytest.raises(MissingReference):
        volumes.make_volumes(pod, some_host(config_maps={"c": {"a": "1"}}), str(tmp_path), str)


@pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces are a thing of Linux")
def test_mounts_are_seen_by_the_process_alone_and_leave_no_trace(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("hi")
    source = str(tmp_path / "data")
    mounts = (
        Mount(source, "/vcjob-top/deep"),
        Mount(source, "/etc/vcjob-test", True),
        Mount(f"{source}/x", "/opt/vcjob/x"),
    )
    if not volumes.can_mount(mounts):
        pytest.skip("this user may not make mounts of its own")
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_RDWR)
    script = "cat /vcjob-top/deep/x /etc/vcjob-test/x /opt/vcjob/x; touch /etc/vcjob-test/y 2>/dev/null || echo ' ro'; ls /dev/shm /proc/self/status"
    child = PlainLauncher().launch(
        LaunchRequest(["sh", "-c", script], dict(os.environ), "/", out, out, mounts=mounts)
    )
    os.waitpid(child.pid, 0)
    child.close()
    os.close(out)
    text = (tmp_path / "out").read_text()
    assert text.startswith("hihihi ro") and "/proc/self/status" in text
    assert not any(os.path.exists(p) for p in ("/vcjob-top", "/etc/vcjob-test", "/opt/vcjob"))


def test_files_of_config_maps_and_secrets_have_the_modes_that_the_volume_gives_them(tmp_path: Path) -> None:
    host = some_host(config_maps={"c": {"a": "1", "b": "2"}}, secrets={"s": {"k": b"secret"}})
    items = [{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": 0o755}]
    pod = {"metadata": {"name": "pod"}, "spec": {"volumes": [
        {"name": "default", "configMap": {"name": "c"}},
        {"name": "given", "configMap": {"name": "c", "defaultMode": 0o440, "items": items}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "projected", "projected": {"defaultMode": 0o600, "sources": [
            {"secret": {"name": "s"}}, {"configMap": {"name": "c", "items": items}},
        ]}},
    ]}}  # fmt: skip
    made = volumes.make_volumes(pod, host, str(tmp_path), str)
    modes = {
        f"{name}/{path.name}": oct(path.stat().st_mode & 0o7777)
        for name, volume in made.items()
        for path in Path(volume.source).iterdir()
    }
    assert modes == {
        "default/a": "0o644", "default/b": "0o644", "given/a": "0o440", "given/b": "0o755", "secret/k": "0o400",
        "projected/k": "0o600", "projected/a": "0o600", "projected/b": "0o755",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base", "below", "source"),
    [
        ("{folder}/", "x", "{folder}/x"),
        ("{folder}/../{name}", "x", "{folder}/x"),
        ("/", "{folder}/x", "{folder}/x"),
        ("{folder}", ".", "{folder}"),
    ],
)
def test_a_sub_path_is_below_its_volume_however_that_is_written(
    tmp_path: Path, base: str, below: str, source: str
) -> None:
    base, below, source = (text.format(folder=tmp_path, name=tmp_path.name) for text in (base, below, source))
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": below.lstrip("/")}]}
    (mount,) = volumes.mounts_of(container, {"v": volumes.Volume(base)}, {})
    assert mount.source == source and os.path.isdir(source)


@pytest.mark.parametrize("below", ["..", "../other", "x/../../other", "../{name}-other"])
def test_a_sub_path_outside_of_its_volume_is_refused(tmp_path: Path, below: str) -> None:
    below = below.format(name=tmp_path.name)
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": below}]}
    with pytest.raises(MissingReference, match="is outside of its volume"):
        volumes.mounts_of(container, {"v": volumes.Volume(f"{tmp_path}/")}, {})


@pytest.mark.parametrize("below", ["x", "x\0y"])
def test_a_sub_path_that_cannot_be_made_is_a_start_error_of_its_container(finish: Start, below: str) -> None:
    mounts = [{"name": "v", "mountPath": "/vcjob-below", "subPath": below}]
    volume = {"name": "v", "hostPath": {"path": "/proc"}}
    handle = finish(job(task("a", container("true", volumeMounts=mounts), volumes=[volume])))
    (pod,) = handle.pods()
    assert (handle.phase, pod.phase) == ("Failed", "Failed")
    assert "its volumes cannot be made: " in str(pod.message)


def _in_memory(limit: str = "1Mi") -> dict[str, Any]:
    return {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}


def _skip_without_mounts(handle: Any) -> None:
    if any("cannot be mounted" in note for note in handle.notes()):
        pytest.skip("this user may not make mounts of its own")


@pytest.mark.parametrize("path", ["/dev/shm", "/vcjob-memory"])
def test_an_empty_dir_in_memory_is_a_tmpfs_of_its_size(finish: Start, path: str) -> None:
    script = (
        f"stat -f -c %T {path}; head -c 900000 /dev/zero >{path}/a && echo fits;"
        f" head -c 900000 /dev/zero >{path}/b 2>/dev/null || echo full"
    )
    handle = finish(
        job(
            task(
                "a",
                container(script, volumeMounts=[{"name": "v", "mountPath": path}]),
                volumes=[_in_memory()],
            )
        )
    )
    _skip_without_mounts(handle)
    assert texts(handle) == ["tmpfs", "fits", "full"]
    assert not os.path.exists("/vcjob-memory")


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_an_empty_dir_in_memory_that_must_outlive_a_process_is_kept_on_disk_and_said_so(
    finish: Start, policy: str
) -> None:
    mounts = [{"name": "v", "mountPath": "/vcjob-memory"}]
    file = (
        "${VCJOB_MOUNT_VCJOB_MEMORY:-/vcjob-memory}/x"  # where no mounts are allowed, the job must still end
    )
    writers = [container(f"echo shared >{file}", "first", volumeMounts=mounts)] if policy == "Never" else []
    script = f"cat {file} || {{ echo shared >{file}; exit 1; }}"
    handle = finish(
        job(
            task(
                "a",
                container(script, volumeMounts=mounts),
                initContainers=writers,
                volumes=[_in_memory()],
                restartPolicy=policy,
            )
        )
    )
    _skip_without_mounts(handle)
    assert [line.text for line in handle.logs() if line.stream == "out"] == ["shared"]
    assert "the emptyDir volume 'v' is kept on disk, not in memory, on this machine" in handle.notes()


@pytest.mark.slow
def test_a_pod_is_evicted_when_an_empty_dir_takes_more_than_its_limit(finish: Start) -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}
    mounts = [{"name": "v", "mountPath": "/vcjob-disk"}]
    script = "head -c 3000000 /dev/zero >${VCJOB_MOUNT_VCJOB_DISK:-/vcjob-disk}/x; sleep 600"
    handle = finish(job(task("a", container(script, volumeMounts=mounts), volumes=[volume])))
    (pod,) = handle.pods()
    assert (handle.phase, pod.phase, pod.reason) == ("Failed", "Failed", "Evicted")
    assert pod.message == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".'


def test_a_projected_source_that_cannot_be_made_is_rejected(tmp_path: Path) -> None:
    source = {"serviceAccountToken": {"path": "token"}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"volumes": [{"name": "v", "projected": {"sources": [source]}}]},
    }
    with pytest.raises(MissingReference, match="serviceAccountToken"):
        volumes.make_volumes(pod, some_host(), str(tmp_path), str)
