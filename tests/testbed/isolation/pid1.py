"""The first process inside a testbed's namespaces: prepares them, starts and reaps the parts, and dies with its keeper.

It is a program of its own (``python pid1.py FOLDER``, standard library only). Being pid 1 of its pid namespace, its death ends every
process in there; with the last of them go the mounts and the network namespace. Parts are requested over a unix socket in
FOLDER, one JSON object per line and connection.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BRIDGE = "cni0"
BRIDGE_ADDRESS = "10.88.0.1/16"
SERVICE_NETWORK = "10.96.0.0/16"
CONTROL_SOCKET = "control.sock"

# A kubelet writes these machine-wide settings unless they already read so. Showing it files that do keeps the machine as it is.
KERNEL_SETTINGS_AS_KUBELET_WANTS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def prepare(folder: Path) -> None:
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "testbed", "/run")
    _divert_var_lib(folder)
    log = folder / "var-log"
    log.mkdir(exist_ok=True)
    _run("mount", "--bind", str(log), "/var/log")
    for name, value in KERNEL_SETTINGS_AS_KUBELET_WANTS.items():
        mask = Path("/run/kernel-settings") / name
        mask.parent.mkdir(parents=True, exist_ok=True)
        mask.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _run("mount", "--bind", str(mask), f"/proc/sys/{name}")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "addr", "add", BRIDGE_ADDRESS, "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    # Where there is no way to a Service's address, the API server cannot even ask kube-proxy's rules for one.
    _run("ip", "route", "add", SERVICE_NETWORK, "dev", BRIDGE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _divert_var_lib(folder: Path) -> None:
    """Kubelet and CNI write under /var/lib by fixed names; here that is a layer which nobody else sees."""
    layer = Path("/run/var-lib")
    for name in ("upper", "work", "folder"):
        (layer / name).mkdir(parents=True)
    _run("mount", "--bind", str(folder), str(layer / "folder"))
    options = f"lowerdir=/var/lib,upperdir={layer / 'upper'},workdir={layer / 'work'}"
    _run("mount", "-t", "overlay", "-o", options, "testbed", "/var/lib")
    # The kubelet makes sockets in its folder, and the path of a socket must be short; so its folder has its usual name.
    kubelet = folder / "var-lib-kubelet"
    kubelet.mkdir()
    Path("/var/lib/kubelet").mkdir(exist_ok=True)
    _run("mount", "--bind", str(kubelet), "/var/lib/kubelet")
    if folder.is_relative_to("/var/lib"):  # containerd cannot put its own overlays on an overlay
        _run("mount", "--bind", str(layer / "folder"), str(folder))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")


class Parts:
    """The processes that were asked for, by name; a name may be started again once its process is gone."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, Any]] = {}

    def start(self, name: str, argv: list[str], env: dict[str, str], log: str) -> dict[str, Any]:
        known = self._by_name.get(name)
        if known and known["exit"] is None:
            return {"error": f"{name} is running already"}
        with open(log, "ab") as out:
            try:
                process = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    cwd="/",
                )
            except OSError as error:
                return {"error": f"{argv[0]}: {error.strerror}"}
        self._by_name[name] = {
            "pid": process.pid,
            "exit": None,
            "argv": argv,
            "env": env,
            "log": log,
            "since": time.time(),
        }
        return dict(self._by_name[name])

    def signal(self, name: str, number: int) -> dict[str, Any]:
        part = self._by_name.get(name)
        if part is None or part["exit"] is not None:
            return {"error": f"{name} is not running"}
        os.kill(part["pid"], number)
        return {}

    def list(self) -> dict[str, Any]:
        return {"parts": self._by_name}

    def reap(self) -> None:
        """Every orphan of the namespace (containerd's shims, say) ends up here too and must not stay a zombie."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for part in self._by_name.values():
                if part["pid"] == pid and part["exit"] is None:
                    part["exit"] = os.waitstatus_to_exitcode(status)


def serve(folder: Path) -> None:
    parts = Parts()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.chdir(folder)  # a relative name keeps the socket within the length that the kernel allows
    server = socket.socket(socket.AF_UNIX)
    server.bind(CONTROL_SOCKET)
    server.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(wake_read, selectors.EVENT_READ)
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is server:
                connection, _ = server.accept()
                with connection:
                    _answer(connection, parts)
            else:
                os.read(wake_read, 4096)
        parts.reap()


def _answer(connection: socket.socket, parts: Parts) -> None:
    connection.settimeout(10)
    try:
        request = json.loads(connection.makefile("r").readline())
        parts.reap()
        verb = request.pop("verb")
        verbs: dict[str, Callable[..., dict[str, Any]]] = {
            "start": parts.start,
            "signal": parts.signal,
            "list": parts.list,
        }
        answer = verbs[verb](**request)
        connection.sendall(json.dumps(answer).encode() + b"\n")
    except (OSError, ValueError) as error:
        print(f"pid1: {error!r}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
    serve(Path(sys.argv[1]))
