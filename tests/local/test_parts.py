"""The parts of the local ground, one by one."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.local.conftest import PATIENCE, container, eventually, job, left_behind, ranks, task
from vcjob.errors import GroundError, SourceError, UserError
from vcjob.local import claims, environment, failure, gpus, images, ports, process, volumes
from vcjob.local.environment import MissingReference, Place, expand
from vcjob.local.launch import LaunchRequest, Mount, PlainLauncher, StartFailure
from vcjob.local.loop import Loop
from vcjob.local.surroundings import host_pattern
from vcjob.sdk.running import run
from vcjob.spec.job import Job

# $(VAR)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("a$", "a$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_text_without_a_dollar_sign_stays_as_it_is(text: str) -> None:
    text = text.replace("$", "")
    assert expand(text, {"A": "1"}) == text


# Names of the cluster, made local


def _place(**changes: Any) -> Place:
    pattern = host_pattern(Job(job(*ranks("true"))))
    return Place({}, {}, {}, pattern, 23456, 20001, "node", "uid")._replace(**changes)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MASTER_ADDR", "job-master-0.job", "127.0.0.1"),
        ("MASTER_PORT", "23456", "20001"),
        ("PET_MASTER_PORT", "23456", "20001"),
        ("OTHER_PORT", "23456", "23456"),
        ("HOSTS", "job-worker-0.job,job-worker-1.job", "127.0.0.1,127.0.0.1"),
        ("LONG", "tcp://job-master-0.job.default.svc.cluster.local:99", "tcp://127.0.0.1:99"),
        ("ENDPOINT", "job-master-0.job:23456", "127.0.0.1:20001"),
        ("OTHER", "another-job-master-0.job", "another-job-master-0.job"),
        ("FILE", "job-master-0.jobless", "job-master-0.jobless"),
    ],
)
def test_a_value_that_names_the_cluster_is_made_to_mean_this_machine(
    name: str, value: str, expected: str
) -> None:
    assert _place().localize(name, value) == expected


def test_a_missing_key_is_named_and_an_optional_one_is_left_out() -> None:
    place = _place(config_maps={"c": {"there": "x"}})
    pod = {"metadata": {"uid": "u", "name": "p"}, "spec": {}}

    def env(**reference: Any) -> dict[str, str]:
        entry = {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", **reference}}}
        return environment.container_env({"name": "m", "env": [entry]}, pod, place, {})[1]

    with pytest.raises(MissingReference, match="has no key 'k'"):
        env()
    assert env(optional=True) == {}
    assert env(key="there") == {"V": "x"}


# Ports and claims


def test_a_claim_is_held_by_one_and_ends_with_its_release() -> None:
    name = f"test/{os.getpid()}"
    first = claims.claim(name)
    assert first is not None and claims.claim(name) is None
    first.release()
    second = claims.claim(name)
    assert second is not None
    second.release()


def test_a_claimed_port_is_not_given_twice_although_nobody_listens_yet() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        wanted = free.getsockname()[1]
    one, first = ports.take_port(wanted)
    other, second = ports.take_port(wanted)
    low, high = ports.replacement_range()
    assert one == wanted and other != wanted and low <= other <= high < 32768
    first.release()
    second.release()


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as server:
            server.bind((address, 0))
            server.listen()
            assert not ports.is_free(server.getsockname()[1])


def test_ten_jobs_on_one_port_all_complete_and_leave_nothing(tmp_path: Path) -> None:
    program = (
        "import os, socket, time\n"
        "place = ('127.0.0.1', int(os.environ['MASTER_PORT']))\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "if os.environ['RANK'] == '0':\n"
        "    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    s.bind(place); s.listen(); c = s.accept()[0]; c.sendall(os.environ['VCJOB_RUN_UID'].encode()); c.close()\n"
        "else:\n"
        "    while True:\n"
        "        try: c = socket.create_connection(place); break\n"
        "        except OSError: time.sleep(0.02)\n"
        "    assert c.recv(100).decode() == os.environ['VCJOB_RUN_UID']\n"
        "print(place[1])\n"
    )
    one = container([sys.executable, "-c", program])
    handles = [run(job(*ranks(one, workers=1), name=f"job-{n}"), cwd=tmp_path) for n in range(10)]
    for handle in handles:
        eventually(lambda handle=handle: handle.phase == "Running")
    (tmp_path / "go").touch()
    assert [handle.wait(PATIENCE) for handle in handles] == ["Completed"] * 10
    used = [{line.text for line in handle.logs()} for handle in handles]
    assert all(len(each) == 1 for each in used) and len(set.union(*used)) == 10
    assert [left_behind(handle) for handle in handles] == [[]] * 10
    assert all(ports.is_free(int(port)) for port in set.union(*used))


# GPUs

LISTING = """GPU 0: NVIDIA A (UUID: GPU-aaa)
GPU 1: NVIDIA B (UUID: GPU-bbb)
  MIG 1g.5gb     Device  0: (UUID: MIG-b0)
  MIG 1g.5gb     Device  1: (UUID: MIG-b1)
GPU 2: NVIDIA C (UUID: GPU-ccc)
"""


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-aaa", "MIG-b0", "MIG-b1", "GPU-ccc"]),
        ("", []),
        ("-1", []),
        ("3,0", ["GPU-ccc", "GPU-aaa"]),
        ("0,9,1", ["GPU-aaa"]),
        ("GPU-c", ["GPU-ccc"]),
    ],
)
def test_the_caller_s_choice_of_gpus_is_kept(visible: str | None, expected: list[str]) -> None:
    assert gpus._allowed(gpus._devices(LISTING), visible) == expected


def test_a_gang_gets_all_its_gpus_or_none(request: pytest.FixtureRequest) -> None:
    devices = [f"GPU-{os.getpid()}-{n}" for n in range(3)]
    one, other = gpus.GpuPool(devices), gpus.GpuPool(devices)
    assert one.take({"a": 1, "b": 1})
    assert not other.take({"c": 2})
    assert other.take({"d": 1}) and not set(other.of("d")) & set(one.of("a") + one.of("b"))
    assert not one.take({"e": 1})
    one.give_back("a")
    assert one.take({"e": 1}) and one.of("e")


def test_gpus_of_a_pod_and_of_a_job() -> None:
    two = container("true", resources={"limits": {"nvidia.com/gpu": "2"}})
    spec = {"containers": [two, container("true")], "initContainers": [two]}
    assert gpus.gpus_of(spec) == 2
    later = task("b", two, replicas=3, dependsOn={"name": ["a"]})
    assert gpus.gpus_at_once(Job(job(task("a", two, replicas=2), later))) == 6


# Images


def test_an_image_is_found_by_its_reference_or_without_its_tag() -> None:
    known = {"a/b": ["x"], "host:5000/c:2": ["y"]}
    assert images.command_of({"image": "a/b:1.0"}, known) == ["x"]
    assert images.command_of({"image": "a/b@sha256:00", "args": ["z"]}, known) == ["x", "z"]
    assert images.command_of({"image": "host:5000/c:2"}, known) == ["y"]
    assert images.command_of({"image": "host:5000/d"}, known) is None
    assert images.command_of({"image": "?", "args": ["python", "x"]}, known) == ["python", "x"]


def test_the_user_s_own_map_is_read(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("mine: python train.py --fast\nother: [a, b]\n")
    known = images.load_map(str(tmp_path), ["third=x 'y z'"], "python")
    assert known["mine"] == ["python", "train.py", "--fast"]
    assert known["other"] == ["a", "b"] and known["third"] == ["x", "y z"]
    assert known[images.SENDRECV_IMAGE][1:] == ["-m", "vcjob.local.programs.sendrecv"]


@pytest.mark.parametrize("flag", ["x", "=y", "x=", ""])
def test_a_bad_image_flag_is_refused(tmp_path: Path, flag: str) -> None:
    with pytest.raises(UserError, match="IMAGE=COMMAND"):
        images.load_map(str(tmp_path), [flag], "python")


@pytest.mark.parametrize("text", ["- a\n", "x: 5\n", "x: []\n", "a: [b\n"])
def test_a_bad_image_map_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.yaml").write_text(text)
    with pytest.raises(SourceError, match=re.escape(str(tmp_path / "images.yaml"))):
        images.load_map(str(tmp_path), [], "python")


# Volumes


def test_volumes_become_folders_with_their_files(tmp_path: Path) -> None:
    place = _place(config_maps={"c": {"a": "1", "b": "2"}}, secrets={"s": {"k": b"\x00\xff"}})
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
        volumes.make_volumes(pod, _place(config_maps={"c": {"a": "1"}}), str(tmp_path), str)


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


# Launching


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    launcher = PlainLauncher()
    (tmp_path / "not-a-program").write_text("")

    def refusal(argv: list[str], cwd: str = "/") -> str:
        with pytest.raises(StartFailure) as failed:
            launcher.launch(LaunchRequest(argv, dict(os.environ), cwd, 1, 2))
        return failed.value.message

    assert refusal(["no-such-program"]) == "command 'no-such-program': not found on this machine"
    assert refusal(["sh"], "/nowhere") == "workingDir /nowhere: does not exist on this machine"
    assert "Permission denied" in refusal([str(tmp_path / "not-a-program")])


@pytest.fixture
def ignored_quit() -> Iterator[None]:
    """As a shell leaves it for what it starts in the background."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGQUIT, before)


@pytest.mark.usefixtures("ignored_quit")
def test_a_child_has_default_signals_its_own_session_and_only_its_streams(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_RDWR)
    secret = os.open(os.devnull, os.O_RDONLY)
    shell = f"grep SigIgn /proc/self/status; {sys.executable} -c \"import os; print(os.getsid(0), os.listdir('/proc/self/fd'))\""
    child = PlainLauncher().launch(LaunchRequest(["sh", "-c", shell], dict(os.environ), "/", out, out))
    os.waitpid(child.pid, 0)
    child.close()
    os.close(secret)
    os.close(out)
    ignored, line = (tmp_path / "out").read_text().splitlines()
    # 32 and 33 belong to the C library: make leaves them ignored, and no program can change that.
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0
    assert line == f"{child.pid} ['0', '1', '2', '3']"


# The loop


def test_timers_fire_in_order_and_cancelled_ones_do_not() -> None:
    loop, heard = Loop(), []
    loop.after(0.02, lambda: heard.append("late"))
    loop.after(0.0, lambda: heard.append("early"))
    loop.after(0.01, lambda: heard.append("never")).cancel()
    loop.after(0.03, loop.stop)
    loop.run()
    assert heard == ["early", "late"]


def test_a_descriptor_that_was_forgotten_by_an_earlier_call_is_not_served() -> None:
    loop, heard = Loop(), []
    pairs = [socket.socketpair() for _ in range(2)]

    def served(own: int) -> None:
        heard.append(own)
        loop.forget(pairs[0][0])
        loop.forget(pairs[1][0])
        loop.stop()

    for number, (reading, writing) in enumerate(pairs):
        writing.send(b"x")
        loop.on_readable(reading, lambda number=number: served(number))
    loop.run()
    assert len(heard) == 1
    for pair in pairs:
        pair[0].close()
        pair[1].close()


# Failures

TRACE = """warming up
Traceback (most recent call last):
  File "/x/train.py", line 10, in <module>
    main()
  File "/x/model.py", line 5, in forward
    raise RuntimeError("boom")
RuntimeError: boom
[W] goodbye
"""


def test_the_last_frame_of_a_traceback_is_found() -> None:
    assert failure.last_frame(TRACE.splitlines()) == ("/x/model.py:5 in forward", "RuntimeError: boom")
    assert failure.last_frame(["all fine"]) == (None, None)


def test_last_lines_are_bounded_and_progress_bars_show_their_last_state(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "\n" + "1%\r50%\r100%\nend\n")
    lines = failure.last_lines(str(log), 3)
    assert lines[-2:] == ["100%", "end"] and len(lines[0]) <= 64 * 1024
    assert failure.last_lines(str(tmp_path / "none"), 3) == []


def test_no_free_port_at_all_is_a_ground_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _port: False)
    monkeypatch.setattr(ports, "replacement_range", lambda: (20000, 20003))
    with pytest.raises(GroundError, match="no free port"):
        ports.take_port(12345)


def test_an_orphan_that_came_while_its_parent_ended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent is listed alive and has ended when it is looked at; by then its child is ours."""
    listings = iter([[101], [101, 102], [101, 102]])
    states = {101: "Z", 102: "S"}
    monkeypatch.setattr(process, "_listed_children", lambda parent: next(listings))
    monkeypatch.setattr(process, "_stat", lambda pid: [states[pid]])
    assert process.children(1) == [102]


def test_an_orphan_is_seen_also_beside_children_that_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listings = iter([[100, 101], [100, 101, 102], [100, 101, 102]])
    states = {100: "S", 101: "Z", 102: "S"}
    monkeypatch.setattr(process, "_listed_children", lambda parent: next(listings))
    monkeypatch.setattr(process, "_stat", lambda pid: [states[pid]])
    assert process.children(1, lambda pid: pid != 100) == [102]


def test_ended_children_alone_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_listed_children", lambda parent: [101])
    monkeypatch.setattr(process, "_stat", lambda pid: ["Z"])
    assert process.children(1) == []
