"""The wait program in test networks: dropped packets, names that resolve late, missing clocks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.wait_for_master.conftest import absent
from tests.plugins.wait_for_master.images import IMAGES, start
from tests.plugins.wait_for_master.namespace import BLACK_HOLE, inside
from vcjob.plugins.wait import WAIT_TIMEOUT_EXIT_CODE

ABLE = {name: method for name, (_, method) in IMAGES.items() if method}
#: One image for each way to probe.
TYPICAL = {method: name for name, method in reversed(ABLE.items())}


Result = tuple[int, str]


def finished(process: subprocess.Popen[str]) -> Result:
    output, _ = process.communicate(timeout=100)  # a connection attempt of the kernel lasts two minutes
    return process.returncode, output


def results(
    paths: dict[str, Path], host: str, port: int, limit: int, before: Callable[[str], list[str]], cause: str
) -> dict[str, Result]:
    """Exit code and output of every image, all at once. Those that name another cause run again alone.

    On a busy machine a probe may take seconds, which counts as no answer.
    """
    running = {name: start(paths[name], host, port, limit, before=before(name)) for name in ABLE}
    found = {name: finished(process) for name, process in running.items()}
    for name in [name for name, (_, output) in found.items() if cause not in output]:
        found[name] = finished(start(paths[name], host, port, limit, before=before(f"{name} alone")))
    return found


@pytest.mark.slow
def test_dropped_packets_do_not_stretch_the_timeout(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    began = time.monotonic()
    found = results(
        paths, BLACK_HOLE, 23456, 3, lambda name: inside(namespaces, tmp_path / name)[0], "no answer"
    )
    assert found == {
        name: (
            WAIT_TIMEOUT_EXIT_CODE,
            f"wait-for-master: waiting for {BLACK_HOLE}:23456, at most 3 s\n"
            f"wait-for-master: error: {BLACK_HOLE}:23456 did not answer within 3 s: no answer (by {method}); "
            "check that the pod of the master runs and that no network policy or firewall blocks the port\n",
        )
        for name, method in ABLE.items()
    }
    assert time.monotonic() - began >= 3


@pytest.mark.slow
def test_a_name_that_does_not_resolve_is_the_cause(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    host, cause = "refused-master-0.timed-out", "the name does not resolve"
    found = results(paths, host, 1, 3, lambda name: inside(namespaces, tmp_path / name)[0], cause)
    assert found == {
        name: (
            WAIT_TIMEOUT_EXIT_CODE,
            f"wait-for-master: waiting for {host}:1, at most 3 s\n"
            f"wait-for-master: error: {host}:1 did not answer within 3 s: {cause} (by {method}); "
            "check that the pod of the master runs and that the headless Service of the job exists\n",
        )
        for name, method in ABLE.items()
    }


@pytest.mark.slow
def test_a_host_without_a_route_is_reported_with_the_cause(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    def before(name: str) -> list[str]:
        return inside(namespaces, tmp_path / name, also="ip route add unreachable 10.98.0.1")[0]

    for name, (code, output) in results(paths, "10.98.0.1", 1, 2, before, "o route to host").items():
        assert code == WAIT_TIMEOUT_EXIT_CODE, f"{name}: {output}"
        # Only the traditional netcat says nothing at all.
        assert "o route to host" in output or "traditional" in name, f"{name}: {output}"


# A listener inside the namespaces, in the background; it ends with the program, which is process 1 there.
LISTEN = "nc.openbsd -lk 127.0.0.1 23456 >/dev/null 2>&1 &"


@pytest.mark.parametrize("name", sorted(TYPICAL.values()))
def test_a_name_that_resolves_late_is_followed(
    name: str, paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    before, hosts = inside(namespaces, tmp_path / "etc", also=LISTEN)
    process = start(paths[name], "job-master-0.job", 23456, 60, before=before)
    assert process.stdout is not None
    assert process.stdout.readline() == "wait-for-master: waiting for job-master-0.job:23456, at most 60 s\n"
    time.sleep(0.5)  # long enough for some probes to fail
    assert process.poll() is None
    with hosts.open("a") as file:
        file.write("127.0.0.1 job-master-0.job\n")
    assert process.wait(timeout=60) == 0
    assert "job-master-0.job:23456 answers after" in process.stdout.readline()


@pytest.mark.slow
def test_without_proc_uptime_the_clock_serves_rounded_up(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    before, _ = inside(namespaces, tmp_path / "etc", also="mount -t tmpfs none /proc")
    began = time.monotonic()
    code, output = finished(start(paths["dash, netcat-openbsd"], "127.0.0.1", 1, 1, before=before))
    assert code == WAIT_TIMEOUT_EXIT_CODE
    assert "did not answer within 1 s: refused (by nc -z)" in output
    assert time.monotonic() - began >= 1


def test_a_read_only_root_and_a_user_without_rights_are_enough(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        absent("only root can become another user")
    also = f"{LISTEN} mount -o remount,bind,ro /; cd /"
    before, _ = inside(namespaces, tmp_path / "etc", also=also)
    before += ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    for name in TYPICAL.values():
        code, output = finished(start(paths[name], "127.0.0.1", 23456, 10, before=before))
        assert (code, output.count("\n")) == (0, 2), f"{name}: {output}"


def test_a_pod_that_is_deleted_ends_the_program_although_it_is_process_1(
    paths: dict[str, Path], namespaces: list[str], tmp_path: Path
) -> None:
    """The kernel does not deliver signals without a handler to process 1, which the program is in its container."""
    before, _ = inside(namespaces, tmp_path / "etc", also="(sleep 0.5; kill -TERM 1) &")
    code, output = finished(start(paths["dash, netcat-openbsd"], "127.0.0.1", 1, 300, before=before))
    assert (code, output) == (143, "wait-for-master: waiting for 127.0.0.1:1, at most 300 s\n")
