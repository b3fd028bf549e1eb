"""The shim: one small process per pod, parent of its containers.

It is forked from the supervisor, not started anew, so it costs a millisecond and shares its memory. As a
subreaper it becomes the parent of every orphan of the pod, however that detached itself. When the
supervisor dies, the channel between them closes: the shim kills everything below it and ends. When the
shim dies, its containers get a parent-death signal and their orphans go to the supervisor, which is a
subreaper too.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import msgspec

from vcjob.local.machine import linux, process
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.launch import Launcher, PlainLauncher
from vcjob.local.pod.pod import Pod, PodSpec
from vcjob.report.podstate import PodState

_STATE = msgspec.json.Decoder(PodState)


class Order(msgspec.Struct, omit_defaults=True):
    """What the supervisor tells a shim."""

    stop: bool = False
    grace: float | None = None
    #: End as Failed with this reason, logs and all.
    fail: str | None = None


_ORDER = msgspec.json.Decoder(Order)


class ShimHandle:
    """The supervisor's side of a shim."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._rest = b""

    def fileno(self) -> int:
        return self._channel.fileno()

    def order(self, order: Order) -> None:
        with contextlib.suppress(OSError):  # a shim that is gone is seen by `receive`
            self._channel.sendall(msgspec.json.encode(order) + b"\n")

    def receive(self) -> tuple[list[PodState], bool]:
        """The states that have arrived, and whether the shim is still there."""
        try:
            data = self._channel.recv(1 << 18)
        except BlockingIOError:
            return [], True
        except OSError:
            data = b""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return [_STATE.decode(line) for line in lines], bool(data)

    def close(self) -> None:
        self._channel.close()


class ShimWork:
    """What a shim has to do; `prepare` runs in the shim, so that its cost and its errors are the pod's own."""

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
        self.oom_killed: Callable[[str], bool] = lambda _container: False


def start_shim(work: ShimWork) -> ShimHandle:
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    gc.freeze()  # the child's collector leaves the shared pages alone
    pid = os.fork()
    if pid == 0:
        ours.close()
        _shim(work, theirs, parent)
    theirs.close()
    ours.setblocking(False)
    return ShimHandle(pid, ours)


def _shim(work: ShimWork, channel: socket.socket, parent: int) -> NoReturn:
    code = 1
    try:
        # The supervisor's death is a signal to us, not our death: there is work to do first.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        linux.become_subreaper()
        linux.die_with_parent(signal.SIGTERM, parent)
        linux.set_process_name("vcjob-pod")
        work.close()
        _Shim(work, channel).run()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        kill_descendants()
        os._exit(code)


class _Shim:
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
            oom_killed=work.oom_killed,
        )

    def run(self) -> None:
        self._pod.start()
        if not self._state.finished:
            self._loop.run()

    def _note(self, note: str) -> None:
        """Goes to the supervisor with the next report."""
        if note not in self._state.notes:
            self._state.notes.append(note)

    def _report(self) -> None:
        try:
            self._channel.sendall(msgspec.json.encode(self._state) + b"\n")
        except OSError:
            self._loop.stop()  # nobody is there any more
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
                self._pod.fail(order.fail, "ended by the job's rules")
            elif order.stop:
                self._pod.stop(order.grace)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._loop.stop()
        else:
            self._plain.reap()


def kill_descendants() -> None:
    """Kill every process below this one, orphans that became our children included, and collect them."""

    def left() -> list[int]:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        return process.descendants(os.getpid())

    process.kill_until_gone(left)
