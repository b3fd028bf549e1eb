"""Probes and hooks of a container: run a command, open a port, or send an HTTP request.

Periods, timeouts and thresholds are the kubelet's. A check that cannot be made counts as failed, with the reason.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from vcjob.local.machine.loop import Loop, Timer
from vcjob.local.pod.launch import Child, Launcher, LaunchRequest, StartFailure

#: Longer than the first line of any HTTP answer.
_LONGEST_LINE = 1 << 16

#: Called with the result of a check and, for a failure, the reason.
CheckResult = Callable[[bool, str], None]


class Probe:
    """One probe of one container: repeats its check and reports when a threshold is reached.

    `Container` starts and stops it, and decides what a result means. A check that takes too long has failed.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        loop: Loop,
        check: Callable[[dict[str, Any], float, CheckResult], Callable[[], None]],
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
        # Schedule the next check first: the result may stop this probe.
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
    """Runs single checks for one container. Pods share the network of this machine, so ports are local.

    Probes and lifecycle hooks use it. A check never raises: whatever goes wrong is a check that did not pass.
    """

    def __init__(
        self, loop: Loop, launcher: Launcher, request: LaunchRequest, port: Callable[[object], int]
    ) -> None:
        self._loop = loop
        self._launcher = launcher
        self._request = request
        self._port = port

    def check(self, spec: dict[str, Any], timeout: float, on_result: CheckResult) -> Callable[[], None]:
        try:
            if "exec" in spec:
                return self.command(list(spec["exec"].get("command") or []), timeout, on_result)
            if "httpGet" in spec:
                return self._http_get(spec["httpGet"], timeout, on_result)
            port = self._port((spec.get("tcpSocket") or {}).get("port"))
            return _ConnectionCheck(self._loop, port, timeout, on_result).cancel
        except OSError as error:  # too many processes or open files
            on_result(False, f"the check cannot be made: {error.strerror}")
            return _nothing

    def command(self, argv: list[str], timeout: float, on_result: CheckResult) -> Callable[[], None]:
        """Run a command in the environment of the container; it passes with exit code 0."""
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            child = self._launcher.launch(self._request._replace(argv=argv, stdout=null, stderr=null))
        except StartFailure as failure:
            on_result(False, failure.message)
            return _nothing
        finally:
            os.close(null)
        return _CommandCheck(self._loop, child, timeout, on_result).cancel

    def _http_get(self, spec: dict[str, Any], timeout: float, on_result: CheckResult) -> Callable[[], None]:
        headers = {header["name"]: header["value"] for header in spec.get("httpHeaders") or []}
        headers.setdefault("Host", "127.0.0.1")
        lines = [f"GET {spec.get('path') or '/'} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        port, tls = self._port(spec.get("port")), spec.get("scheme") == "HTTPS"
        return _ConnectionCheck(self._loop, port, timeout, on_result, request, tls=tls).cancel


class _CommandCheck:
    """A command that runs until it ends or times out."""

    def __init__(self, loop: Loop, child: Child, timeout: float, on_result: CheckResult) -> None:
        self._loop, self._child, self._on_result = loop, child, on_result
        self._timer = loop.after(timeout, self._timed_out)
        loop.on_readable(child, self._ended)
        self._late = False

    def _ended(self) -> None:
        code = self._child.poll()
        self._close()
        if self._late:
            self._on_result(False, "the command took too long")
        else:
            self._on_result(code == 0, f"the command ended with {code}")

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


class _ConnectionCheck:
    """A connection to a port, with an HTTP request if there is one, and with TLS where that is wanted."""

    def __init__(
        self,
        loop: Loop,
        port: int,
        timeout: float,
        on_result: CheckResult,
        request: bytes = b"",
        *,
        tls: bool = False,
    ) -> None:
        self._loop, self._on_result = loop, on_result
        self._port, self._request, self._tls = port, request, tls
        self._answer = b""
        self._wait: type[OSError] = BlockingIOError
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._timer = loop.after(timeout, lambda: self._finish(False, f"no answer on port {port}"))
        try:
            self._socket.connect_ex(("127.0.0.1", port))
        except OverflowError:  # a Job that was stored before admission checked the ports of probes
            self._finish(False, f"port {port} does not exist: ports are 1 to 65535")
        else:
            loop.on_writable(self._socket, self._connected)

    def _connected(self) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            word = "refused" if code == errno.ECONNREFUSED else os.strerror(code)
            self._finish(False, f"connection to port {self._port}: {word}")
        elif not self._request:
            self._finish(True, "")
        else:
            self._loop.forget(self._socket)
            try:
                self._handshake = self._encrypt() if self._tls else _nothing
            except OSError as error:
                self._finish(False, f"port {self._port}: {error.strerror}")
                return
            self._loop.on_readable(self._socket, self._exchange)
            self._exchange()

    def _encrypt(self) -> Callable[[], None]:
        """Use TLS from now on, and verify no certificate, as a kubelet does. Returns the step of the handshake."""
        import ssl  # costs memory in every shim that has it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        encrypted = context.wrap_socket(self._socket, do_handshake_on_connect=False)
        self._socket, self._wait = encrypted, ssl.SSLWantReadError
        return encrypted.do_handshake

    def _exchange(self) -> None:
        """Send the request and read the first line of the answer, as far as that is possible without waiting."""
        try:
            self._handshake()
            if self._request:
                self._socket.send(self._request)
                self._request = b""
            while b"\r\n" not in self._answer and len(self._answer) < _LONGEST_LINE:
                data = self._socket.recv(4096)
                if not data:
                    break
                self._answer += data
        except self._wait:
            return
        except OSError as error:
            self._finish(False, f"port {self._port}: {error.strerror}")
            return
        words = self._answer.split(b"\r\n")[0].split()
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        self._finish(200 <= status < 400, f"HTTP status {status or 'missing'}")

    def _finish(self, passed: bool, why: str) -> None:
        self.cancel()
        self._on_result(passed, why)

    def cancel(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._socket)
        self._socket.close()


def _nothing() -> None:
    pass
