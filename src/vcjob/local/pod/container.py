"""One container of a pod: starts its process, watches it, probes it, ends it.

Used by `Pod`, which decides when a container starts, restarts and stops. How a process is started is the
launcher's matter. What goes wrong ends the container with a reason; nothing is raised.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vcjob.local.machine import process
from vcjob.local.machine.loop import Loop, Timer
from vcjob.local.pod.launch import Child, Launcher, LaunchRequest, Mount, StartFailure
from vcjob.local.pod.memory_kills import MemoryKills
from vcjob.local.pod.output import ContainerOutput, log_paths
from vcjob.local.pod.probes import Checks, Probe
from vcjob.report.podstate import ContainerState, Ended, Role
from vcjob.wellknown import reasons

_LONGEST_MESSAGE = 300
_TAIL_LINES = 200  # hold a traceback below some log lines
START_ERROR = 128  # the exit code that Kubernetes gives a container that could not be started


class ContainerSpec(NamedTuple):
    """A container of the planned pod, with all values resolved for this machine.

    `Preparer` makes it in the pod's shim; `Container` runs it. Nothing of the Job is looked up afterwards.
    """

    name: str
    role: Role
    argv: list[str]
    env: dict[str, str]
    cwd: str
    ports: dict[str, int]
    #: startup, readiness, liveness
    probes: dict[str, dict[str, Any]]
    mounts: tuple[Mount, ...] = ()
    cgroups: tuple[str, ...] = ()
    post_start: dict[str, Any] | None = None
    pre_stop: dict[str, Any] | None = None
    threads: int | None = None
    start_delay: float = 0.0
    #: Why it cannot be started on this machine; empty if it can.
    start_error: str = ""


class Host(NamedTuple):
    """What a container needs from its pod: the loop, launchers, its folder, and whom to notify.

    `Pod` makes one for all of its containers, which therefore need not know the pod.
    """

    loop: Loop
    launcher: Launcher
    plain: Launcher
    folder: str
    changed: Callable[[], None]
    ended: Callable[[Container], None]
    ready_to_follow: Callable[[Container], None]
    memory_kills: MemoryKills
    #: Called with a container's name, its restart count and the reading ends of its pipes before it starts.
    output_opened: Callable[[str, int, list[int]], None]
    #: Called with the reason when output of a container must be discarded.
    output_lost: Callable[[str, str], None]


class Container:
    """The state of one container and the process of its current instance. A new instance has a new restart count.

    `Pod` decides when it starts and stops, and is notified when it ends. A command that cannot be started counts as
    an instance that failed.
    """

    def __init__(self, spec: ContainerSpec, host: Host) -> None:
        self.spec = spec
        self.host = host
        self.state = ContainerState(name=spec.name, role=spec.role, waiting="PodInitializing")
        self._child: Child | None = None
        self._output: ContainerOutput | None = None
        self._probes: list[Probe] = []
        self._checks: Checks | None = None
        self._kill_timer: Timer | None = None
        self._stopping = False
        self._reason: str | None = None
        self._may_start_later = False

    @property
    def running(self) -> bool:
        return self._child is not None

    @property
    def never_started(self) -> bool:
        """It could not be started, and a retry would not change that."""
        ended = self.state.ended
        return ended is not None and ended.reason == reasons.START_ERROR and not self._may_start_later

    def start(self) -> None:
        state = self.state
        if state.ended is not None:
            state.last, state.ended = state.ended, None
            state.restarts += 1
        state.waiting = state.waiting_message = None
        self._stopping, self._reason, self._may_start_later = False, None, False
        if self.spec.start_error:
            self._could_not_start(self.spec.start_error)
            return
        try:
            output = self._open_output()
        except OSError as error:
            self._could_not_start(f"its log file cannot be opened: {error.strerror}")
            return
        self.host.memory_kills.started(self.spec.name)
        try:
            self._child = self.host.launcher.launch(self._request(*output.ends))
        except StartFailure as failure:
            self._may_start_later = failure.temporary
            self._could_not_start(failure.message)
            return
        finally:
            output.close_ends()
        state.pid = self._child.pid
        state.pid_start = process.start_time(self._child.pid)
        state.started_at = time.time()
        self.host.loop.on_readable(self._child, self._ended)
        self.host.changed()
        self._after_start()

    def stop(self, deadline: float) -> None:
        """Stop it: preStop, TERM to its process group, KILL to the group at `deadline` (monotonic)."""
        if self._child is None or self._stopping:
            if self._child is not None:
                self._kill_at(deadline)
            return
        self._stopping = True
        self._stop_probes()
        self._kill_at(deadline)
        hook = self.spec.pre_stop
        if hook and self._checks and ("exec" in hook or "httpGet" in hook):
            timeout = max(0.1, deadline - time.monotonic())
            self._checks.check(hook, timeout, lambda _passed, _why: self._signal(signal.SIGTERM))
        elif hook and "sleep" in hook:
            self.host.loop.after(
                float(hook["sleep"].get("seconds") or 0), lambda: self._signal(signal.SIGTERM)
            )
        else:
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._stopping = True
        self._stop_probes()
        self._signal(signal.SIGKILL)

    def close_output(self) -> None:
        """Save the last output. Call it when every process of the container has ended."""
        if self._output is not None:
            self._output.close()
            self._output = None

    def drain_output(self, deadline: float) -> None:
        """Save output until every process of the container has ended, or until `deadline` (monotonic)."""
        if self._output is not None:
            self._output.drain(deadline)
            self._output = None

    def _open_output(self) -> ContainerOutput:
        host, name, restarts = self.host, self.spec.name, self.state.restarts
        self.close_output()
        self._output = ContainerOutput(
            host.loop,
            log_paths(host.folder, name, restarts),
            lambda reason: host.output_lost(name, reason),
        )
        host.output_opened(name, restarts, self._output.pipes)
        return self._output

    def _request(self, stdout: int, stderr: int) -> LaunchRequest:
        spec = self.spec
        return LaunchRequest(
            argv=spec.argv, env=spec.env, cwd=spec.cwd, stdout=stdout, stderr=stderr,
            mounts=spec.mounts, cgroups=spec.cgroups, threads=spec.threads,
            start_delay=0.0 if self.state.restarts else spec.start_delay,
        )  # fmt: skip

    def _after_start(self) -> None:
        spec = self.spec
        self._checks = Checks(self.host.loop, self.host.plain, self._request(-1, -1), self._port)
        if spec.post_start and ("exec" in spec.post_start or "httpGet" in spec.post_start):
            self._checks.check(spec.post_start, 3600.0, self._post_start_done)
        else:
            self._post_start_done(True, "")

    def _post_start_done(self, passed: bool, why: str) -> None:
        if not self.running:
            return
        if not passed:
            self._reason = f"postStart failed: {why}"
            self.kill()
            return
        if "startup" in self.spec.probes:
            self._probe("startup", self._started, lambda why: self._unhealthy("startup", why))
        else:
            self._started()

    def _started(self) -> None:
        if self.state.started or self._child is None:
            return
        self._stop_probes()
        self.state.started = True
        if "readiness" in self.spec.probes:
            self._probe("readiness", lambda: self._set_ready(True), lambda _why: self._set_ready(False))
        else:
            self.state.ready = True
        if "liveness" in self.spec.probes:
            self._probe("liveness", lambda: None, lambda why: self._unhealthy("liveness", why))
        self.host.changed()
        self.host.ready_to_follow(self)

    def _probe(self, kind: str, on_pass: Callable[[], None], on_fail: Callable[[str], None]) -> None:
        assert self._checks is not None
        probe = Probe(self.spec.probes[kind], self.host.loop, self._checks.check, on_pass, on_fail)
        self._probes.append(probe)
        probe.start()

    def _set_ready(self, ready: bool) -> None:
        if self.state.ready != ready:
            self.state.ready = ready
            self.host.changed()

    def _unhealthy(self, kind: str, why: str) -> None:
        grace = float(self.spec.probes[kind].get("terminationGracePeriodSeconds") or 30)
        self._reason = f"{kind} probe failed: {why}"
        self.stop(time.monotonic() + grace)

    def _stop_probes(self) -> None:
        for probe in self._probes:
            probe.stop()
        self._probes.clear()

    def _port(self, port: object) -> int:
        return int(self.spec.ports.get(str(port)) or (port if isinstance(port, int) else 0))

    def _kill_at(self, deadline: float) -> None:
        if self._kill_timer:
            self._kill_timer.cancel()
        self._kill_timer = self.host.loop.after(
            deadline - time.monotonic(), lambda: self._signal(signal.SIGKILL)
        )

    def _signal(self, number: int) -> None:
        if self._child is not None:
            self._child.signal_group(number)

    def _ended(self) -> None:
        child = self._child
        if child is None:
            return
        code = child.poll()
        if code is None:
            return
        child.signal_group(signal.SIGKILL)  # processes that it left in its group end with it
        self.host.loop.forget(child)
        child.close()
        if self._output is not None:
            self._output.read()
        kill = None
        if code != 0 and not self._stopping:
            lines = last_lines(log_paths(self.host.folder, self.spec.name, self.state.restarts)[1])
            kill = self.host.memory_kills.reason(self.spec.name, code, lines)
            self._reason = kill.message if kill and kill.message else reason_of(lines) if code > 0 else None
        self._finish(Ended(
            exit_code=code if code >= 0 else 128 - code, signal=-code if code < 0 else None,
            reason="Completed" if code == 0 else kill.reason if kill else "Error",
            message=self._reason, finished_at=time.time(), started_at=self.state.started_at,
            stopped=self._stopping and self._reason is None,
        ))  # fmt: skip

    def _could_not_start(self, message: str) -> None:
        self.state.started_at = time.time()
        self._finish(Ended(START_ERROR, reasons.START_ERROR, time.time(), message=message))

    def _finish(self, ended: Ended) -> None:
        self._child = None
        self._stop_probes()
        if self._kill_timer:
            self._kill_timer.cancel()
        state = self.state
        state.pid = state.pid_start = None
        state.started = state.ready = False
        state.ended = ended
        self.host.ended(self)


def reason_of(lines: Sequence[str]) -> str | None:
    """The line that says why the program failed; None where it printed none, or only warnings and notes."""
    # Costs milliseconds, and only failures need it.
    from vcjob.diagnosis.text.torchrun import of_first_worker
    from vcjob.diagnosis.text.tracebacks import reason_line, says_why

    return (reason_line(of_first_worker(lines))[:_LONGEST_MESSAGE] or None) if says_why(lines) else None


def last_lines(path: str) -> tuple[str, ...]:
    """The end of a log; nothing where it cannot be read."""
    # Costs milliseconds, and only failures need it.
    from vcjob.local.logs.tail import read_tail

    return read_tail(path, _TAIL_LINES).lines
