"""A pod as a kubelet runs it: init containers in order, sidecars, restarts with back-off, deadline, end.

Runs in the pod's shim. It decides which container starts, restarts and stops, and what the pod's phase is; it knows
nothing of Jobs and policies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from vcjob.local.machine import process
from vcjob.local.machine.loop import Loop, Timer
from vcjob.local.pod.container import Container, ContainerSpec, Host
from vcjob.local.pod.launch import Launcher, PlainLauncher
from vcjob.local.pod.memory_kills import MemoryKills
from vcjob.local.pod.storage.volumes import SizeLimit, used_bytes
from vcjob.plugins.wait import CONTAINER_NAME as WAIT_CONTAINER
from vcjob.plugins.wait import WAIT_EXIT_CODES
from vcjob.report.podstate import EVICTED, PodState
from vcjob.wellknown import reasons

# A failed container restarts at once, then after 1, 2, 4 ... 60 seconds; ten minutes without failure reset that.
FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 60.0
BACK_OFF_RESET_AFTER = 600.0
_CHECK_VOLUMES = 1.0
_EVICTION_GRACE = 1.0


class PodSpec(NamedTuple):
    """A pod with all values resolved for this machine; see `Preparer`.

    It is to `Pod` what a pod object is to a kubelet, and does not change while the pod runs.
    """

    containers: list[ContainerSpec]
    restart_policy: str = "Always"
    grace_seconds: float = 30.0
    deadline_seconds: float | None = None
    folder: str = ""
    size_limits: tuple[SizeLimit, ...] = ()


class Pod:
    """The containers of one pod. `changed` is called after every change of `state`.

    The pod's shim runs it: init containers in order, then the others, with restarts, probes and the grace period as a
    kubelet does. It knows neither the job nor the other pods.
    """

    def __init__(
        self,
        spec: PodSpec,
        state: PodState,
        loop: Loop,
        *,
        launcher: Launcher,
        plain: PlainLauncher,
        changed: Callable[[], None],
        memory_kills: MemoryKills | None = None,
        output_opened: Callable[[str, int, list[int]], None] = lambda *_: None,
        output_lost: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self.spec = spec
        self.state = state
        self._loop = loop
        self._plain = plain
        self._changed = changed
        host = Host(
            loop,
            launcher,
            plain,
            spec.folder,
            self._changed_now,
            self._container_ended,
            self._started,
            memory_kills or MemoryKills(),
            output_opened,
            output_lost,
        )
        self._containers = [Container(container, host) for container in spec.containers]
        state.containers = [container.state for container in self._containers]
        self._starting = 0  # the number of the container that starts next, in the order of the spec
        self._back_off: dict[str, tuple[float, Timer | None]] = {}
        self._stopping: float | None = None  # when (monotonic) the grace period ends
        self._failure: tuple[str, str] | None = (
            None  # reason and message of a failure of the pod itself, not of a container
        )

    def start(self) -> None:
        if self.spec.deadline_seconds is not None:
            self._loop.after(self.spec.deadline_seconds, self._deadline)
        if self.spec.size_limits:
            self._loop.after(_CHECK_VOLUMES, self._check_volumes)
        self._next()

    def stop(self, grace: float | None = None) -> None:
        """Stop the pod within its grace period (or a shorter one)."""
        grace = self.spec.grace_seconds if grace is None else grace
        deadline = time.monotonic() + grace
        self._stopping = min(deadline, self._stopping) if self._stopping is not None else deadline
        for _, timer in self._back_off.values():
            if timer:
                timer.cancel()
        self._stop_next()
        self._settle()

    def fail(self, reason: str, message: str, grace: float | None = None) -> None:
        """Stop it; its phase becomes Failed, whatever the exit codes of its containers."""
        if self.state.finished or self._failure:
            return
        self._failure = (reason, message)
        self.stop(grace)

    def kill_containers(self) -> None:
        """Kill what runs, without any grace. Containers that another process started for us are not our
        descendants, so that killing those is not enough."""
        for container in self._containers:
            container.kill()

    def drain_output(self, deadline: float) -> None:
        """Save the output of containers that were killed, until `deadline` (monotonic) at the latest."""
        for container in self._containers:
            container.drain_output(deadline)

    # Starting, one after the other

    def _next(self) -> None:
        if self._stopping is not None or self._starting >= len(self._containers):
            self._settle()
            return
        self._containers[self._starting].start()

    def _started(self, container: Container) -> None:
        """A container runs and has passed its startup probe: start the next one if it was waiting for this."""
        if container.spec.role != "init" and self._is_turn(container):
            self._starting += 1
            self._next()
        else:
            self._settle()

    def _is_turn(self, container: Container) -> bool:
        return self._starting < len(self._containers) and self._containers[self._starting] is container

    # Ending

    def _container_ended(self, container: Container) -> None:
        self._end_orphans(container.spec.name)
        container.close_output()  # before anybody hears that it ended: its logs are complete then
        ended = container.state.ended
        assert ended is not None
        if container.never_started:
            self._changed_now()
            self.fail(reasons.START_ERROR, f"container {container.spec.name}: {ended.message}")
            return
        if self._stopping is not None:
            self._changed_now()
            self._settle()
            return
        if container.spec.role == "init" and ended.exit_code == 0:
            self._starting += 1
            self._next()
        elif self._restarts(container, ended.exit_code):
            self._restart(container)
        elif container.spec.role == "init":
            self.fail(
                reasons.INIT_FAILED,
                f"init container {container.spec.name} ended with exit code {ended.exit_code}",
            )
        else:
            if self._is_turn(container):  # it ended before the next one was started
                self._starting += 1
                self._next()
            self._settle()
        self._changed_now()

    def _restarts(self, container: Container, exit_code: int) -> bool:
        if container.spec.role == "sidecar":
            return not self._main_done()
        if container.spec.name == WAIT_CONTAINER and exit_code in WAIT_EXIT_CODES:
            return False  # a retry cannot help, so those who wait for this pod need not wait longer
        policy = self.spec.restart_policy
        if container.spec.role == "init":
            return policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and exit_code != 0)

    def _restart(self, container: Container) -> None:
        name, ended = container.spec.name, container.state.ended
        pause, _ = self._back_off.get(name, (0.0, None))
        if ended and ended.started_at and ended.finished_at - ended.started_at > BACK_OFF_RESET_AFTER:
            pause = 0.0
        if pause:
            container.state.waiting = "CrashLoopBackOff"
            container.state.waiting_message = f"starts again in {pause:g} s"
        timer = self._loop.after(pause, container.start)
        self._back_off[name] = (min(pause * 2, LONGEST_BACK_OFF) or FIRST_BACK_OFF, timer)

    def _main_done(self) -> bool:
        mains = [container for container in self._containers if container.spec.role == "main"]
        return all(c.state.ended is not None and not c.running and not self._waits(c) for c in mains)

    def _waits(self, container: Container) -> bool:
        """It has ended and will be restarted."""
        _, timer = self._back_off.get(container.spec.name, (0.0, None))
        return timer is not None and timer.waiting and not container.running and self._stopping is None

    def _stop_next(self) -> None:
        """Stop the main and init containers first; then the sidecars, in reverse order, one by one."""
        assert self._stopping is not None
        first = [c for c in self._containers if c.running and c.spec.role != "sidecar"]
        rest = [c for c in self._containers if c.running and c.spec.role == "sidecar"]
        for container in first or rest[-1:]:
            container.stop(self._stopping)

    def _settle(self) -> None:
        """Update the phase; stop the sidecars once the main containers have ended; finish when all have ended."""
        state = self.state
        if state.finished:
            return
        if any(c.running for c in self._containers if c.spec.role == "main") and state.phase == "Pending":
            state.phase, state.started_at = "Running", time.time()
        if self._stopping is None and self._main_done():
            self._stopping = time.monotonic() + self.spec.grace_seconds
        if self._stopping is None:
            return
        if any(container.running for container in self._containers):
            self._stop_next()
            return
        self._end_orphans(None)
        self._finish()

    def _finish(self) -> None:
        state = self.state
        mains = [container.state for container in self._containers if container.spec.role == "main"]
        if self._failure:
            state.phase = "Failed"
            state.reason, state.message = self._failure
        elif all(main.ended is not None and main.ended.exit_code == 0 for main in mains):
            state.phase = "Succeeded"
        else:
            state.phase = "Failed"
        for container in state.containers:
            if container.ended is None:
                container.waiting = "NotStarted"
        state.finished_at = time.time()
        self._changed_now()

    def _deadline(self) -> None:
        seconds = self.spec.deadline_seconds or 0
        self.fail(
            reasons.DEADLINE_EXCEEDED,
            f"the pod was active longer than its activeDeadlineSeconds ({seconds:g})",
        )

    def _check_volumes(self) -> None:
        """Evict the pod, as a kubelet does, when an emptyDir takes more than its sizeLimit."""
        began = time.monotonic()
        for limit in self.spec.size_limits:
            if used_bytes(limit.folder) > limit.limit:
                self.fail(
                    EVICTED,
                    f'Usage of EmptyDir volume "{limit.volume}" exceeds the limit "{limit.text}".',
                    _EVICTION_GRACE,
                )
                return
        cost = time.monotonic() - began
        self._loop.after(max(_CHECK_VOLUMES, 100 * cost), self._check_volumes)

    def _end_orphans(self, container: str | None) -> None:
        """Kill what a container left behind outside its process group (it called setsid, or forked twice).

        This process is a subreaper, so it is the parent of such orphans. If the pod has several containers, only
        orphans of the ended one are killed.
        """
        own = os.getpid()
        known = {c.state.pid for c in self._containers if c.state.pid is not None}

        def meant(pid: int) -> bool:
            return pid not in known and container in (None, process.mark_of(pid, process.MARK_CONTAINER))

        def left() -> list[int]:
            self._plain.reap()
            return process.children(own, meant)

        process.kill_until_gone(left)

    def _changed_now(self) -> None:
        if self.state.phase == "Pending" and any(
            c.running for c in self._containers if c.spec.role == "main"
        ):
            self.state.phase, self.state.started_at = "Running", time.time()
        self._changed()
