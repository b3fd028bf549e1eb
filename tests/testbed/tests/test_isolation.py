"""However a testbed ends, nothing of it stays on the machine; and two of them do not notice each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import need
from tests.testbed.isolation import keeper, leftovers
from tests.testbed.paths import REPOSITORY

pytestmark = pytest.mark.cluster

OWNER = """
import json, sys, time
from pathlib import Path
from tests.testbed.cluster import Cluster

began = time.monotonic()
with Cluster.start(parent=Path(sys.argv[1])) as cluster:
    control_plane = time.monotonic() - began
    cluster.start_node()
    cluster.start_dns()
    node = time.monotonic() - began
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "busybox:1.36.1", "command": ["sleep", "1000"]}
    cluster.api.create(pods, {"metadata": {"name": "left"}, "spec": {"containers": [container]}})
    cluster.api.wait(f"{pods}/left", lambda pod: pod["status"]["phase"] == "Running")
    facts = {"identity": cluster.cell.identity, "keeper": cluster.cell.keeper_pid, "pids": list(cluster.cell.processes())}
    print(json.dumps({**facts, "control_plane": control_plane, "node": node}), flush=True)
    sys.stdin.read()
"""

ENDINGS = [
    "asked",
    "interrupted",
    "owner killed",
    "asked",
    "keeper killed",
    "asked",
    "owner killed",
    "asked",
    "interrupted",
    "asked",
]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_rounds_leave_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need(support.node_problem())
    before = leftovers.machine_state()
    for ending in ENDINGS:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert owner.stdin and owner.stdout and owner.stderr
        line = owner.stdout.readline()
        assert line, owner.stderr.read()
        facts = json.loads(line)
        assert len(facts["pids"]) > 8
        end(owner, facts["keeper"], ending)
        if ending == "keeper killed":
            wait_until_gone(facts["pids"])
            leftovers.sweep(tmp_path)  # as the next start does
        owner.communicate()
        wait_until_clean(facts["identity"], tmp_path)
        wait_until_gone(facts["pids"])
        with capsys.disabled():
            print(
                f"\n  control plane {facts['control_plane']:.1f} s, node and DNS {facts['node']:.1f} s; {ending}: clean",
                end="",
            )
    after = leftovers.machine_state()
    assert {what: after[what] ^ before[what] for what in after if after[what] != before[what]} == {}


def end(owner: subprocess.Popen[str], keeper: int, ending: str) -> None:
    if ending == "owner killed":
        owner.kill()
    elif ending == "keeper killed":
        os.kill(keeper, signal.SIGKILL)
        owner.kill()
    elif ending == "interrupted":
        owner.send_signal(signal.SIGINT)
    else:
        assert owner.stdin
        owner.stdin.close()
        owner.stdin = None


def wait_until_clean(identity: str, parent: Path) -> None:
    until = time.monotonic() + 30
    while (found := leftovers.find(identity)) or (parent / identity).exists():
        assert time.monotonic() < until, found or f"{parent / identity} is still there"
        time.sleep(0.05)


def wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + 30
    while alive := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < until, f"processes {alive} are still there"
        time.sleep(0.05)


def test_two_testbeds_side_by_side_do_not_see_each_other(api_server: Cluster) -> None:
    with Cluster.start() as other:
        api_server.api.create("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
        assert other.api.find("/api/v1/namespaces/only-here") is None
        assert other.server != api_server.server
        assert not set(other.cell.processes()) & set(api_server.cell.processes())
    assert leftovers.find(other.cell.identity) == []
    assert api_server.api.get("/version")


def test_the_machine_keeps_its_kernel_settings(api_server: Cluster) -> None:
    """A kubelet insists on kernel.panic=10 and more of the kind; it sees its wish fulfilled, and the machine stays as it was."""
    inside = api_server.cell.run(
        "cat", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/panic"
    ).stdout.split()
    assert inside == ["1", "10"]
    ours = {line for line in leftovers.machine_state()["kernel settings"] if line.startswith("kernel/panic=")}
    assert ours != {"kernel/panic=10"}


def test_a_part_that_cannot_run_is_skipped_with_its_reason_or_failed_where_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(support.REQUIRE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="the testbed needs root"):
        need("the testbed needs root")
    monkeypatch.setenv(support.REQUIRE, "require")
    with pytest.raises(pytest.fail.Exception, match="required here, but the testbed needs root"):
        need("the testbed needs root")


def test_the_link_of_a_killed_testbed_is_deleted_although_its_network_namespace_lives(tmp_path: Path) -> None:
    need(support.control_plane_problem())
    identity = f"x{os.getpid()}"
    link = f"{keeper.LINK_PREFIX}{identity}"
    subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", f"p{identity}"], check=True)
    folder = tmp_path / identity
    folder.mkdir()
    try:
        assert leftovers.find(identity) == [f"network link {link}"]
        leftovers.clear(folder)
        assert leftovers.find(identity) == []
    finally:
        subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
