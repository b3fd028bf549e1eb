"""Volumes become folders, and mounts that only the process sees."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import some_place
from vcjob.local.pod import volumes
from vcjob.local.pod.environment import MissingReference
from vcjob.local.pod.launch import LaunchRequest, Mount, PlainLauncher


def test_volumes_become_folders_with_their_files(tmp_path: Path) -> None:
    place = some_place(config_maps={"c": {"a": "1", "b": "2"}}, secrets={"s": {"k": b"\x00\xff"}})
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
        pod, place, str(tmp_path / "pod"), lambda name: str(tmp_path / "claims" / name)
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
        volumes.make_volumes(pod, some_place(config_maps={"c": {"a": "1"}}), str(tmp_path), str)


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
