"""A Launcher that has a zygote fork the ranks, where the result is the same as a plain start.

`WarmPolicy` creates it in the supervisor; the shims use copies of it. Where a zygote cannot be used, the rank is
started plainly, and the reason is noted once.
"""

from __future__ import annotations

import copy
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from vcjob.local.pod import rank_delay
from vcjob.local.pod.launch import Child, Launcher, LaunchRequest, PlainLauncher, signal_group
from vcjob.local.warm import server as kept
from vcjob.local.warm import spawn
from vcjob.local.warm.command import PythonCommand, canonical, understand
from vcjob.local.warm.environment import for_zygote, start_key
from vcjob.local.warm.folder import warm_folder
from vcjob.local.warm.prestart import Key, PrestartedZygote
from vcjob.local.warm.zygote import inheritance, protocol

_LONGEST_IMPORT = 300.0  # seconds; a longer import means a plain start
_Zygote = spawn.ZygoteHandle | str  # our own, or the socket of a kept one


class WarmChild:
    """A rank, watched by its rank parent in the zygote; the connection to that process is readable when the rank ends."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._connection = connection
        self._connection.setblocking(False)
        self._received = b""
        self._code: int | None = None

    def fileno(self) -> int:
        return self._connection.fileno()

    def poll(self) -> int | None:
        while self._code is None:
            try:
                data = self._connection.recv(4096)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            self._received += data
            self._code = protocol.exit_code(self._received)
            if not data and self._code is None:
                # The rank parent was killed, and the kernel killed the rank with it.
                self._code = -signal.SIGKILL
        return self._code

    def signal_group(self, number: int) -> None:
        if self.poll() is None:
            signal_group(self.pid, number)

    def close(self) -> None:
        self._connection.close()


class WarmLauncher:
    """`prepare` in the process that owns the run, as early as possible; then `launch` there or in a child of it.

    `env` is the environment of the shell that started the run: it decides which kept-warm server is used.
    `imports` are the modules that a zygote of the run's own imports; with `may_start` False only a kept-warm
    server is used. `say` is called once with each reason for a plain start.
    """

    def __init__(
        self,
        fallback: Launcher | None = None,
        say: Callable[[str], None] = lambda _sentence: None,
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        imports: tuple[str, ...] | None = None,
        may_start: bool = True,
    ) -> None:
        self._fallback = fallback or PlainLauncher()
        self._say = say
        self._folder = folder or warm_folder()
        self._env = dict(os.environ if env is None else env)
        self._imports = imports
        self._owner = os.getpid() if may_start else None
        self._zygotes: dict[Key, _Zygote] = {}
        self._unused: dict[Key, spawn.ZygoteHandle] = {}
        self._said: set[str] = set()

    def prepare(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        """Have a zygote for commands like this one: a kept one that fits, or one that is started now."""
        command = _understand(argv, env, cwd)
        if isinstance(command, str):
            self._note_plain_start(command)
        else:
            self._zygote_for(command, env)

    def adopt(self, prestarted: PrestartedZygote) -> None:
        """Use a zygote that was started before the commands were known, if it turns out to fit one of them."""
        if self._owner is not None and self._imports is None:
            self._unused[prestarted.key] = prestarted.zygote
        else:
            prestarted.zygote.end()

    def give_up_unused(self) -> None:
        for zygote in self._unused.values():
            zygote.end()  # its imports would be wasted
        self._unused.clear()

    def launch(self, request: LaunchRequest) -> Child:
        command = _understand(request.argv, request.env, request.cwd)
        if not isinstance(command, str):
            zygote = self._zygote_for(command, request.env)
            answer = None if zygote is None else self._ask(zygote, command, request)
            if isinstance(answer, WarmChild):
                return answer
            child = self._fallback.launch(request)
            if answer:  # only now: if the plain start fails too, the reason is not the warm start
                self._note_plain_start(answer)
            return child
        return self._fallback.launch(request)

    def with_fallback(self, fallback: Launcher, say: Callable[[str], None]) -> WarmLauncher:
        """A copy that uses the same zygotes but another launcher and another way to print notes. For a forked child process."""
        other = copy.copy(self)
        other._fallback, other._say, other._said = fallback, say, set(self._said)
        return other

    def pids(self) -> list[int]:
        return [zygote.pid for zygote in self._zygotes.values() if isinstance(zygote, spawn.ZygoteHandle)]

    def close(self) -> None:
        """Give up the zygotes of this run. Ranks that still run are not touched."""
        for zygote in self._zygotes.values():
            if isinstance(zygote, spawn.ZygoteHandle):
                zygote.close()
        self._zygotes.clear()

    def end(self) -> None:
        """Called when the run is over: kill the zygotes, and with them the ranks that still run."""
        for zygote in self._zygotes.values():
            if isinstance(zygote, spawn.ZygoteHandle):
                zygote.end()
        self._zygotes.clear()

    def _zygote_for(self, command: PythonCommand, env: dict[str, str]) -> _Zygote | None:
        key = (canonical(command.interpreter), _options(command, env), start_key(env))
        if key not in self._zygotes:
            found = self._kept_server(command, env) or self._own_zygote(command, env)
            if found is None:
                return None
            self._zygotes[key] = found
        return self._zygotes[key]

    def _kept_server(self, command: PythonCommand, env: dict[str, str]) -> str | None:
        if self._imports is not None:
            return None  # the Job names modules that no kept server is known to have
        path = kept.socket_path(
            self._folder, canonical(command.interpreter), _options(command, env), self._env
        )
        answer = kept.ask(path, {"ask": {"env": env, "inherited": inheritance.inherited()}})
        if answer is None:
            return None
        if "refused" in answer:
            self._note_once(f"the kept-warm server is not used: {answer['refused']}")
            return None
        return path

    def _own_zygote(self, command: PythonCommand, env: dict[str, str]) -> spawn.ZygoteHandle | None:
        if self._owner is None:
            return None
        if os.getpid() != self._owner:
            self._note_plain_start("no process was prepared for this interpreter and environment")
            return None
        prestarted = self._unused.pop(
            (canonical(command.interpreter), _options(command, env), start_key(env)), None
        )
        if prestarted is not None:
            return prestarted
        imports = spawn.DEFAULT_IMPORTS if self._imports is None else self._imports
        recipe = spawn.Recipe(
            canonical(command.interpreter), _options(command, env), for_zygote(env), imports
        )
        try:
            return spawn.start(recipe, os.path.join(self._folder, "empty"))
        except OSError as error:
            self._note_plain_start(f"{command.interpreter} cannot be run: {error.strerror}")
            return None

    def _ask(self, zygote: _Zygote, command: PythonCommand, request: LaunchRequest) -> WarmChild | str:
        """The rank, or why there is none; an empty reason leaves the report to the plain start."""
        connection = kept.connect(zygote) if isinstance(zygote, str) else zygote.connect()
        if connection is None:
            return "the kept-warm server has ended"
        connection.settimeout(_LONGEST_IMPORT)
        answer = protocol.exchange(connection, _message(command, request), (request.stdout, request.stderr))
        if answer is not None and "pid" in answer:
            return WarmChild(int(answer["pid"]), connection)
        connection.close()
        if answer is None:
            last = zygote.log().splitlines()[-1:] if isinstance(zygote, spawn.ZygoteHandle) else []
            return f"the process that should have forked it died ({' '.join(last) or 'without a message'})"
        return str(answer["refused"])

    def _note_plain_start(self, why: str) -> None:
        self._note_once(f"not started warm: {why}")

    def _note_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def _understand(argv: list[str], env: dict[str, str], cwd: str) -> PythonCommand | str:
    return understand(argv, env, cwd) if sys.platform == "linux" else "that needs Linux"


def _options(command: PythonCommand, env: Mapping[str, str]) -> tuple[str, ...]:
    """The interpreter's options; -u says nothing where the environment says it already."""
    if env.get("PYTHONUNBUFFERED"):
        return tuple(word for word in command.options if word != "-u")
    return command.options


def _message(command: PythonCommand, request: LaunchRequest) -> dict[str, Any]:
    return {
        "rank": {
            "kind": command.kind,
            "target": command.target,
            "args": command.args,
            "argv": request.argv,
            "executable": command.interpreter,
            "env": request.env,
        },
        "cwd": request.cwd,
        "umask": _umask() if request.umask is None else request.umask,
        "mounts": [list(mount) for mount in request.mounts],
        "cgroups": list(request.cgroups),
        "threads": request.threads,
        "start_delay": min(request.start_delay, rank_delay.WARM_DELAY),
        "limits": inheritance.limits(),
        "inherited": inheritance.inherited(),
    }


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
