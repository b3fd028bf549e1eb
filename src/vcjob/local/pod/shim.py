"""The shim: one small process per pod, parent of its containers.

It is forked from the supervisor without a new program, so it costs a millisecond and shares memory. As a subreaper
it becomes the parent of every orphan of the pod, however that detached itself. It reads the output of its containers
and writes their logs. When the supervisor dies, the channel between them closes: the shim kills everything below it,
saves the last output and exits. When the shim dies, its containers get a parent-death signal, and the supervisor, a
subreaper too, kills their orphans and saves the last output.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import msgspec

from vcjob.local.machine import linux, process
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.launch import Launcher, PlainLauncher
from vcjob.local.pod.memory_kills import MemoryKills
from vcjob.local.pod.output import log_paths, save_output
from vcjob.local.pod.pod import Pod, PodSpec
from vcjob.report.podstate import PodState

#: How long the last output of a killed container is waited for, in seconds.
_LAST_OUTPUT = 1.0
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Report(msgspec.Struct, omit_defaults=True):
    """One line from a shim to its supervisor; one of these is set."""

    state: PodState | None = None
    #: Name and restart count of a container that starts; the reading ends of its pipes come with the line.
    output: tuple[str, int] | None = None
    #: Why output of a container is not in its log.
    lost: str | None = None


_REPORT = msgspec.json.Decoder(Report)


class Order(msgspec.Struct, omit_defaults=True):
    """A command from the supervisor to a shim, one JSON line each.

    It stops the pod, or lets it fail with a reason. `ShimHandle` sends it.
    """

    stop: bool = False
    grace: float | None = None
    #: Stop the pod; it has failed with this reason.
    fail: str | None = None


_ORDER = msgspec.json.Decoder(Order)


class ShimHandle:
    """The supervisor's side of a shim.

    It holds the reading ends of the pipes of the containers that run, in case the shim is killed, and closes them
    when the shim reports that the container has ended.
    """

    def __init__(self, pid: int, channel: socket.socket, folder: str) -> None:
        self.pid = pid
        self._channel = channel
        self._folder = folder
        self._rest = b""
        self._arrived: list[int] = []
        self._pipes: dict[tuple[str, int], list[int]] = {}
        #: Why output of the pod's containers is not in their logs; whoever reads it empties it.
        self.lost: list[str] = []

    def fileno(self) -> int:
        return self._channel.fileno()

    def order(self, order: Order) -> None:
        with contextlib.suppress(OSError):  # `receive` detects that the shim has ended
            self._channel.sendall(msgspec.json.encode(order) + b"\n")

    def receive(self) -> tuple[list[PodState], bool]:
        """The states that have arrived, and whether the shim still runs."""
        try:
            data, pipes, _, _ = socket.recv_fds(self._channel, 1 << 18, 2, _CLOSE_ON_EXEC)
            self._arrived += pipes
        except BlockingIOError:
            return [], True
        except OSError:
            data = b""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        states = []
        for line in lines:
            report = _REPORT.decode(line)
            if report.state is not None:
                states.append(report.state)
                self._close_ended(report.state)
            if report.output is not None:
                self._hold(report.output)
            if report.lost is not None:
                self.lost.append(report.lost)
        return states, bool(data)

    def save_output(self) -> None:
        """The shim was killed: save what its containers had written and it had not read."""
        for (container, restart), pipes in self._pipes.items():
            save_output(pipes, log_paths(self._folder, container, restart), _LAST_OUTPUT)
        self._pipes.clear()

    def close(self) -> None:
        self._channel.close()
        for pipes in (self._arrived, *self._pipes.values()):
            _close_all(pipes)
        self._arrived, self._pipes = [], {}

    def _hold(self, instance: tuple[str, int]) -> None:
        pipes, self._arrived = self._arrived, []
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if any(pipe > most * 3 // 4 for pipe in pipes):
            _close_all(pipes)  # with very many pods the supervisor needs its descriptors for other things
        elif pipes:
            self._pipes[instance] = pipes

    def _close_ended(self, state: PodState) -> None:
        for container in state.containers:
            for instance in [known for known in self._pipes if known[0] == container.name]:
                if container.restarts > instance[1] or container.ended is not None:
                    _close_all(self._pipes.pop(instance))


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class ShimWork:
    """What a shim needs to run a pod. `prepare` runs in the shim, so that its errors are errors of that pod.

    The supervisor passes it to the forked process; nothing of the supervisor's own state is part of it.
    """

    def __init__(
        self,
        state: PodState,
        prepare: Callable[[PodState], PodSpec],
        launcher: Callable[[PlainLauncher, Callable[[str], None]], Launcher],
        close: Callable[[], None],
    ) -> None:
        self.state = state
        self.prepare = prepare
        self.launcher = launcher
        self.close = close
        self.memory_kills = MemoryKills()


def start_shim(work: ShimWork, folder: str) -> ShimHandle:
    """Fork a shim for a pod whose logs are in `folder`."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    gc.freeze()  # the garbage collector of the child does not touch the shared pages
    pid = os.fork()
    if pid == 0:
        ours.close()
        _shim(work, theirs, parent)
    theirs.close()
    ours.setblocking(False)
    return ShimHandle(pid, ours, folder)


def _shim(work: ShimWork, channel: socket.socket, parent: int) -> NoReturn:
    code = 1
    shim: _Shim | None = None
    try:
        # When the supervisor dies we get a signal instead of dying with it: containers must be ended first.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        linux.become_subreaper()
        linux.die_with_parent(signal.SIGTERM, parent)
        linux.set_process_name(process.SHIM_NAME)
        work.close()
        shim = _Shim(work, channel)
        shim.run()
        code = 0
    except BaseException as error:
        sys.__excepthook__(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        if shim is not None:
            shim.kill_containers()
        kill_descendants()
        if shim is not None:
            shim.save_output()
        os._exit(code)


class _Shim:
    """The shim's side: runs the pod, reports its states, carries out the supervisor's commands."""

    def __init__(self, work: ShimWork, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = Loop()
        self._state = work.state
        self._state.shim = os.getpid()
        self._plain = PlainLauncher()
        self._rest = b""
        self._loop.on_signals((signal.SIGTERM, signal.SIGCHLD), self._signalled)
        self._loop.on_readable(channel, self._ordered)
        self._pod = Pod(
            work.prepare(self._state),
            self._state,
            self._loop,
            launcher=work.launcher(self._plain, self._note),
            plain=self._plain,
            changed=self._report,
            memory_kills=work.memory_kills,
            output_opened=self._output_opened,
            output_lost=self._output_lost,
        )

    def run(self) -> None:
        self._pod.start()
        if not self._state.finished:
            self._loop.run()

    def kill_containers(self) -> None:
        self._pod.kill_containers()

    def save_output(self) -> None:
        """The supervisor is gone, or the pod has ended: nothing runs any more."""
        self._pod.drain_output(time.monotonic() + _LAST_OUTPUT)

    def _output_opened(self, container: str, restart: int, pipes: list[int]) -> None:
        line = msgspec.json.encode(Report(output=(container, restart))) + b"\n"
        with contextlib.suppress(OSError):  # too many descriptors in flight, or no supervisor any more
            socket.send_fds(self._channel, [line], pipes)

    def _output_lost(self, container: str, reason: str) -> None:
        text = f"output of container {container} of pod {self._state.name} cannot be written and is lost: {reason}"
        with contextlib.suppress(OSError):
            self._channel.sendall(msgspec.json.encode(Report(lost=text)) + b"\n")

    def _note(self, note: str) -> None:
        """Record a note; it is sent to the supervisor with the next state."""
        if note not in self._state.notes:
            self._state.notes.append(note)

    def _report(self) -> None:
        try:
            self._channel.sendall(msgspec.json.encode(Report(self._state)) + b"\n")
        except OSError:
            self._loop.stop()  # the supervisor has ended
        if self._state.finished:
            self._loop.stop()

    def _ordered(self) -> None:
        try:
            data = self._channel.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._loop.stop()
            return
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            order = _ORDER.decode(line)
            if order.fail is not None:
                self._pod.fail(order.fail, "ended by a policy of the job")
            elif order.stop:
                self._pod.stop(order.grace)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._loop.stop()
        else:
            self._plain.reap()


def kill_descendants() -> None:
    """Kill and reap every process below this one, including orphans that became our children."""

    def left() -> list[int]:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        return process.descendants(os.getpid())

    process.kill_until_gone(left)
