"""One testbed's own world: a folder, a pid, mount and network namespace, and a control group, held by a keeper process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.testbed.isolation import keeper, leftovers, pid1
from tests.testbed.paths import scratch_folder

NODE_ADDRESS = pid1.BRIDGE_ADDRESS.split("/")[0]
POD_NETWORK = "10.88.0.0/16"

# Nothing of the caller's environment (proxies, kubeconfigs, credentials) reaches a part.
PLAIN_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
}


class TestbedFailed(Exception):
    """A part did not come up; the message says which, and how its log ends."""

    __test__ = False  # pytest takes any class named Test... for tests


class Cell:
    """A running set of namespaces. ``create`` makes one; ``attach`` finds one that another process made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        facts = json.loads((folder / keeper.READY_FILE).read_text())
        self.identity = folder.name
        self.keeper_pid: int = facts["keeper"]
        self.pid1: int = facts["pid1"]
        self.host_address: str = facts["host_address"]
        self.address: str = facts["address"]
        self.cgroup = f"{keeper.CGROUP_PREFIX}{self.identity}"

    @classmethod
    def create(cls, parent: Path | None = None, owned: bool = True) -> Cell:
        """With ``owned`` the cell ends when this process does, however it ends."""
        parent = parent or scratch_folder()
        leftovers.sweep(parent)
        folder = parent / secrets.token_hex(4)
        folder.mkdir(parents=True, mode=0o755)
        with (folder / "keeper.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(folder), str(os.getpid() if owned else 0)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 30
        while not (folder / keeper.READY_FILE).exists():
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise TestbedFailed(
                    f"no namespaces could be made: {(folder / 'keeper.log').read_text().strip()}"
                )
            time.sleep(0.005)
        cell = cls(folder)
        cell._process = process
        return cell

    _process: subprocess.Popen[bytes] | None = None

    @classmethod
    def attach(cls, folder: Path) -> Cell:
        return cls(folder)

    def destroy(self) -> None:
        """Returns when nothing is left: no process, mount, link, control group or file."""
        try:
            os.kill(self.keeper_pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        if self._process:
            self._process.wait(60)
        until = time.monotonic() + 60
        while self.folder.exists() and leftovers.is_held(self.folder) and time.monotonic() < until:
            time.sleep(0.02)
        leftovers.clear(self.folder)

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        # Through a descriptor of the folder, for a unix socket's path may only have 107 characters.
        handle = os.open(self.folder, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(f"/proc/self/fd/{handle}/{pid1.CONTROL_SOCKET}")
                connection.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
                answer: dict[str, Any] = json.loads(connection.makefile("r").readline())
        finally:
            os.close(handle)
        if "error" in answer:
            raise TestbedFailed(answer["error"])
        return answer

    def inside(self, *argv: str) -> list[str]:
        """The command line that runs ``argv`` inside (with the mounts, network and pids of the testbed)."""
        return ["nsenter", "--target", str(self.pid1), "--net", "--mount", "--pid", "--", *argv]

    def run(
        self, *argv: str, check: bool = True, timeout: float = 120, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.inside(*argv), capture_output=True, text=True, timeout=timeout, env=PLAIN_ENVIRONMENT, **more
        )
        if check and done.returncode:
            raise TestbedFailed(
                f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}"
            )
        return done

    def processes(self) -> dict[int, str]:
        """Every process inside, by the pid it has on the machine, with its command line."""
        return leftovers.processes_in(os.readlink(f"/proc/{self.pid1}/ns/pid"))

    def memory(self) -> int:
        """Bytes that the processes inside hold, shared pages counted once (proportionally)."""
        total = 0
        for pid in self.processes():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            total += (
                next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
            )
        return total
