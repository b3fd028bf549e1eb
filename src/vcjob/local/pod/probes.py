"""Probes of a container: run a command, open a port, or ask for a page, at the kubelet's pace and thresholds."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from vcjob.local.machine.loop import Loop, Timer
from vcjob.local.pod.launch import Child, Launcher, LaunchRequest, StartFailure

#: Called with the verdict and, for a failure, why.
Verdict = Callable[[bool, str], None]


class Probe:
    """One probe of one container: repeats its check and reports when a threshold is reached."""

    def __init__(
        self,
        spec: dict[str, Any],
        loop: Loop,
        check: Callable[[dict[str, Any], float, Verdict], Callable[[], None]],
        on_pass: Callable[[], None],
        on_fail: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self._loop = loop
        self._check = check
        self._on_pass = on_pass
        self._on_fail = on_fail
        self._passes = 0
        self._failures = 0
        self._timer: Timer | None = None
        self._cancel_check: Callable[[], None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._timer = self._loop.after(float(self.spec.get("initialDelaySeconds") or 0), self._run)

    def stop(self) -> None:
        self._stopped = True
        if self._timer:
            self._timer.cancel()
        if self._cancel_check:
            self._cancel_check()

    def _run(self) -> None:
        self._cancel_check = None
        cancel = self._check(self.spec, float(self.spec.get("timeoutSeconds") or 1), self._result)
        if not self._stopped:
            self._cancel_check = cancel

    def _result(self, passed: bool, why: str) -> None:
        self._cancel_check = None
        if self._stopped:
            return
        # The next round first: a verdict may stop this probe for good.
        self._timer = self._loop.after(float(self.spec.get("periodSeconds") or 10), self._run)
        if passed:
            self._failures, self._passes = 0, self._passes + 1
            if self._passes >= int(self.spec.get("successThreshold") or 1):
                self._on_pass()
        else:
            self._passes, self._failures = 0, self._failures + 1
            if self._failures >= int(self.spec.get("failureThreshold") or 3):
                self._failures = 0
                self._on_fail(why)


class Checks:
    """How the checks of one container are made. Pods share this machine's network, so ports are local."""

    def __init__(
        self, loop: Loop, launcher: Launcher, request: LaunchRequest, port: Callable[[object], int]
    ) -> None:
        self._loop = loop
        self._launcher = launcher
        self._request = request
        self._port = port

    def check(self, spec: dict[str, Any], timeout: float, verdict: Verdict) -> Callable[[], None]:
        if "exec" in spec:
            return self.command(list(spec["exec"].get("command") or []), timeout, verdict)
        if "httpGet" in spec:
            return self._page(spec["httpGet"], timeout, verdict)
        return self._connect(self._port((spec.get("tcpSocket") or {}).get("port")), timeout, verdict, None)

    def command(self, argv: list[str], timeout: float, verdict: Verdict) -> Callable[[], None]:
        """Run a command beside the container, in its environment; it passes with exit code 0."""
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            child = self._launcher.launch(self._request._replace(argv=argv, stdout=null, stderr=null))
        except StartFailure as failure:
            verdict(False, failure.message)
            return _nothing
        finally:
            os.close(null)
        return _Running(self._loop, child, timeout, verdict).cancel

    def _page(self, spec: dict[str, Any], timeout: float, verdict: Verdict) -> Callable[[], None]:
        headers = {header["name"]: header["value"] for header in spec.get("httpHeaders") or []}
        headers.setdefault("Host", "127.0.0.1")
        lines = [f"GET {spec.get('path') or '/'} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        return self._connect(self._port(spec.get("port")), timeout, verdict, request)

    def _connect(
        self, port: int, timeout: float, verdict: Verdict, request: bytes | None
    ) -> Callable[[], None]:
        return _Connection(self._loop, port, timeout, verdict, request).cancel


class _Running:
    def __init__(self, loop: Loop, child: Child, timeout: float, verdict: Verdict) -> None:
        self._loop, self._child, self._verdict = loop, child, verdict
        self._timer = loop.after(timeout, self._timed_out)
        loop.on_readable(child, self._ended)
        self._late = False

    def _ended(self) -> None:
        code = self._child.poll()
        self._close()
        if self._late:
            self._verdict(False, "the command took too long")
        else:
            self._verdict(code == 0, f"the command ended with {code}")

    def _timed_out(self) -> None:
        self._late = True
        self._child.signal_group(signal.SIGKILL)

    def _close(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._child)
        self._child.close()

    def cancel(self) -> None:
        self._child.signal_group(signal.SIGKILL)
        self._child.poll()
        self._close()


class _Connection:
    def __init__(
        self, loop: Loop, port: int, timeout: float, verdict: Verdict, request: bytes | None
    ) -> None:
        self._loop, self._verdict, self._request = loop, verdict, request
        self._port = port
        self._answer = b""
        self._timer = loop.after(timeout, lambda: self._finish(False, f"no answer on port {port}"))
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.connect_ex(("127.0.0.1", port))
        loop.on_writable(self._socket, self._connected)

    def _connected(self) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            word = "refused" if code == errno.ECONNREFUSED else os.strerror(code)
            self._finish(False, f"connection to port {self._port}: {word}")
        elif self._request is None:
            self._finish(True, "")
        else:
            self._loop.forget(self._socket)
            self._loop.on_readable(self._socket, self._read)
            self._socket.send(self._request)

    def _read(self) -> None:
        try:
            data = self._socket.recv(4096)
        except OSError as error:
            self._finish(False, f"port {self._port}: {error.strerror}")
            return
        self._answer += data
        if b"\r\n" in self._answer or not data:
            words = self._answer.split(b"\r\n")[0].split()
            status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            self._finish(200 <= status < 400, f"HTTP status {status or 'missing'}")

    def _finish(self, passed: bool, why: str) -> None:
        self.cancel()
        self._verdict(passed, why)

    def cancel(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._socket)
        self._socket.close()


def _nothing() -> None:
    pass
