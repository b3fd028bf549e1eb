"""A Launcher that has ranks forked by a zygote, where that is the same as starting them anew."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from vcjob.local.launch import Child, Launcher, LaunchRequest, signal_group
from vcjob.local.warm import server as kept
from vcjob.local.warm import spawn
from vcjob.local.warm.command import PythonCommand, understand
from vcjob.local.warm.environment import for_zygote, start_key
from vcjob.local.warm.zygote import setting, wire

_LONGEST_IMPORT = 300.0  # seconds; whoever needs longer starts the plain way
_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]


class WarmChild:
    """A rank that a nest watches for us."""

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
            self._code = wire.exit_code(self._received)
            if not data and self._code is None:
                # The nest was killed, and with it, by the kernel, the rank.
                self._code = -signal.SIGKILL
        return self._code

    def signal_group(self, number: int) -> None:
        if self.poll() is None:
            signal_group(self.pid, number)

    def close(self) -> None:
        self._connection.close()


class WarmLauncher:
    """`prepare` in the process that owns the run, as early as possible; `launch` there or in a child of it.

    `say` is told, once each, why a command was started the plain way. `server` is the folder of kept-warm
    servers (None: use none), `env` the environment of the shell that asked for the run.
    """

    def __init__(
        self,
        fallback: Launcher,
        say: Callable[[str], None],
        server: str | None = None,
        env: Mapping[str, str] | None = None,
        imports: tuple[str, ...] = spawn.DEFAULT_IMPORTS,
    ) -> None:
        self._fallback = fallback
        self._say = say
        self._folder = server
        self._env = os.environ if env is None else env
        self._imports = imports
        self._empty = os.path.join(server or kept.warm_folder(), "empty")
        self._owner = os.getpid()
        self._zygotes: dict[_Key, spawn.ZygoteHandle | str] = {}
        self._said: set[str] = set()

    def prepare(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        """Have a zygote for commands like this one: a kept one that fits, or start one now."""
        command = self._understand(argv, env, cwd)
        if command is not None:
            self._zygote_for(command, env)

    def launch(self, request: LaunchRequest) -> Child:
        command = self._understand(request.argv, request.env, request.cwd)
        zygote = None if command is None else self._zygote_for(command, request.env)
        if command is None or zygote is None:
            return self._fallback.launch(request)
        child = self._ask(zygote, command, request)
        return child or self._fallback.launch(request)

    def close(self) -> None:
        """Give up the zygotes of this run. Ranks that still run are not touched."""
        for zygote in self._zygotes.values():
            if isinstance(zygote, spawn.ZygoteHandle):
                zygote.close()
        self._zygotes.clear()

    def _understand(self, argv: list[str], env: dict[str, str], cwd: str) -> PythonCommand | None:
        if sys.platform != "linux":
            self._plainly("it needs Linux")
            return None
        command = understand(argv, env, cwd)
        if isinstance(command, str):
            self._plainly(command)
            return None
        return command

    def _zygote_for(self, command: PythonCommand, env: dict[str, str]) -> spawn.ZygoteHandle | str | None:
        key = (command.interpreter, _options(command, env), start_key(env))
        if key not in self._zygotes:
            path = self._kept_server(command, env)
            if path is not None:
                self._zygotes[key] = path
            elif os.getpid() != self._owner:
                self._plainly("no process with this interpreter and environment was prepared for it")
                return None
            else:
                try:
                    recipe = spawn.Recipe(command.interpreter, key[1], for_zygote(env), self._imports)
                    self._zygotes[key] = spawn.start(recipe, self._empty)
                except OSError as error:
                    self._plainly(f"{command.interpreter} cannot be run: {error.strerror}")
                    return None
        return self._zygotes[key]

    def _kept_server(self, command: PythonCommand, env: dict[str, str]) -> str | None:
        if self._folder is None:
            return None
        path = kept.socket_path(self._folder, command.interpreter, _options(command, env), self._env)
        answer = kept.ask(path, {"ask": {"env": env, "setting": setting.inherited()}})
        if answer is None:
            return None
        if "refused" in answer:
            self._once(f"the kept-warm server is not used: {answer['refused']}")
            return None
        return path

    def _ask(
        self, zygote: spawn.ZygoteHandle | str, command: PythonCommand, request: LaunchRequest
    ) -> WarmChild | None:
        connection = kept.connect(zygote) if isinstance(zygote, str) else zygote.connect()
        if connection is None:
            self._plainly("the kept-warm server has ended")
            return None
        connection.settimeout(_LONGEST_IMPORT)
        try:
            wire.send(connection, _message(command, request), (request.stdout, request.stderr))
            answer, _ = wire.receive(connection)
        except (OSError, ValueError) as error:
            answer = {"refused": f"the process that was to start it does not answer ({error})"}
        if answer is not None and "pid" in answer:
            return WarmChild(int(answer["pid"]), connection)
        connection.close()
        if answer is None:
            last = zygote.log().splitlines()[-1:] if isinstance(zygote, spawn.ZygoteHandle) else []
            answer = {
                "refused": f"the process that was to start it died ({' '.join(last) or 'it says nothing'})"
            }
        # An empty reason, and trouble on the way to the command, are for the plain way to meet and to report.
        if answer["refused"] and answer.get("by") != "start":
            self._plainly(answer["refused"])
        return None

    def _plainly(self, why: str) -> None:
        self._once(f"started without --warm: {why}")

    def _once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


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
            "env": request.env,
        },
        "cwd": request.cwd,
        "umask": _umask() if request.umask is None else request.umask,
        "mounts": [list(mount) for mount in request.mounts],
        "cgroups": list(request.cgroups),
        "limits": setting.limits(),
        "setting": setting.inherited(),
    }


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
