"""Kept-warm servers: zygotes that outlive a run, one per interpreter and environment.

::

    VCJOB_HOME/warm/        0700, ours alone
    ├── KEY.sock            where a run connects; KEY is a digest of interpreter, options and environment
    ├── KEY.json            who listens there
    ├── lock                held while a server is started
    └── empty/              where imports are done
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import signal
import socket
import stat
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from vcjob.errors import BackendError, RunDamaged, UserError
from vcjob.local.machine import files, process
from vcjob.local.machine.folders import PRIVATE_FOLDER
from vcjob.local.run import locks
from vcjob.local.warm import spawn
from vcjob.local.warm.environment import lasting
from vcjob.local.warm.zygote import protocol

IDLE_SECONDS = 1800.0
_ANSWER_SECONDS = 5.0


class ServerInfo(msgspec.Struct):
    """A kept-warm server, as its file describes it. No value of the environment is kept.

    `vcjob warm` lists these, and a run looks for one that fits its command. The server may have ended since: ask
    `alive`.
    """

    key: str
    pid: int
    pid_start: int | None
    interpreter: str
    options: tuple[str, ...]
    modules: list[str]
    started_at: float
    import_seconds: float
    idle_seconds: float
    #: The version of the protocol that it speaks; 0: of a vcjob that did not record it.
    protocol: int = 0

    @property
    def alive(self) -> bool:
        return process.is_same(self.pid, self.pid_start)

    def serves(self, recipe: spawn.Recipe) -> bool:
        missing = set(recipe.imports) - set(spawn.DEFAULT_IMPORTS) - set(self.modules)
        return self.protocol == protocol.VERSION and not missing

    @property
    def memory_mib(self) -> float:
        """What it takes of the machine's memory, pages that it shares with ranks counted in part."""
        try:
            with open(f"/proc/{self.pid}/smaps_rollup") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
        except OSError:
            return 0.0


def key_of(interpreter: str, options: tuple[str, ...], env: Mapping[str, str]) -> str:
    parts = [interpreter, *options, "", *(f"{name}={value}" for name, value in lasting(env).items())]
    # A value may hold bytes that are no text; the digest must not care.
    return hashlib.sha256(b"\0".join(os.fsencode(part) for part in parts)).hexdigest()[:16]


def socket_path(folder: str, interpreter: str, options: tuple[str, ...], env: Mapping[str, str]) -> str:
    return os.path.join(folder, f"{key_of(interpreter, options, env)}.sock")


def start(folder: str, recipe: spawn.Recipe, *, idle: float = IDLE_SECONDS) -> ServerInfo:
    """Start a server and wait until it has imported everything; a running one that fits is used instead.

    `recipe.env` is the environment of the shell.
    """
    _make_private(folder)
    key = key_of(recipe.interpreter, recipe.options, recipe.env)
    lock = locks.hold(os.path.join(folder, "lock"), math.inf)  # imports take as long as they take
    try:
        found = next((info for info in servers(folder) if info.key == key), None)
        if found and found.serves(recipe):
            answer = ask(os.path.join(folder, f"{key}.sock"), {"ask": None})
            if answer is not None and "refused" not in answer:
                return found
        if found:
            stop(folder, found)
        return _start(folder, key, recipe, idle)
    finally:
        os.close(lock)


def _start(folder: str, key: str, recipe: spawn.Recipe, idle: float) -> ServerInfo:
    path = os.path.join(folder, f"{key}.sock")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listening:
        with _short(path) as short:
            listening.bind(short)
        os.chmod(path, files.PRIVATE_FILE)
        listening.listen(128)
        try:
            handle = spawn.start(
                recipe._replace(env=server_env(recipe.env)),
                os.path.join(folder, "empty"),
                listening=listening,
                idle=idle,
            )
        except OSError as error:
            os.unlink(path)
            raise BackendError(f"{recipe.interpreter} cannot be run: {error.strerror}") from error
    ready = handle.wait_ready()
    trouble = ready.get("unfit") if ready else handle.log() or "it died while it imported"
    info = ServerInfo(
        key=key,
        pid=handle.pid,
        pid_start=process.start_time(handle.pid),
        interpreter=recipe.interpreter,
        options=recipe.options,
        modules=ready.get("modules", []),
        started_at=time.time(),
        import_seconds=ready.get("seconds", 0.0),
        idle_seconds=idle,
        protocol=protocol.VERSION,
    )
    handle.close()
    if trouble:
        stop(folder, info)
        raise BackendError(
            f"nothing can be kept warm here: {trouble}",
            hint="run jobs without --warm, or name other modules with --import",
        )
    missing = [name for name in recipe.imports if name not in (*info.modules, *spawn.DEFAULT_IMPORTS)]
    if missing:
        stop(folder, info)
        raise UserError(
            f"cannot import {', '.join(missing)}",
            hint=f"install it for {recipe.interpreter}, or check the name",
        )
    files.write_json(os.path.join(folder, f"{key}.json"), info)
    return info


def server_env(env: Mapping[str, str]) -> dict[str, str]:
    """What the ranks of a run from this shell will have in common."""
    return {"PYTHONUNBUFFERED": "1", **lasting(env)}


def stop(folder: str, info: ServerInfo) -> None:
    """End it: at once if it serves no rank, else after its last rank."""
    _forget(folder, info.key)
    if info.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(info.pid, signal.SIGTERM)


def _forget(folder: str, key: str) -> None:
    for ending in ("sock", "json"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, f"{key}.{ending}"))


def servers(folder: str) -> list[ServerInfo]:
    """Those that live; what is left of the others is swept away."""
    found: list[ServerInfo] = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return found
    _check_private(folder)
    for name in names:
        if not name.endswith(".json"):
            continue
        try:
            info = files.read_json(os.path.join(folder, name), ServerInfo)
        except RunDamaged:  # the server, if it lives, ends after its idle time
            _forget(folder, name.removesuffix(".json"))
            continue
        if info and info.alive:
            found.append(info)
        elif info:
            stop(folder, info)
    return found


def connect(path: str) -> socket.socket | None:
    """A connection to the server at `path`; None where none listens, or one that is not ours."""
    try:
        _check_private(os.path.dirname(path))
    except (BackendError, FileNotFoundError):
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as short:
            connection.connect(short)
        if protocol.peer_uid(connection) == os.getuid():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def ask(path: str, question: dict[str, Any]) -> dict[str, Any] | None:
    """What the server at `path` answers; None where there is none."""
    connection = connect(path)
    if connection is None:
        return None
    with connection:
        connection.settimeout(_ANSWER_SECONDS)
        return protocol.exchange(connection, question)


@contextlib.contextmanager
def _short(path: str) -> Any:
    """A name for the socket that fits into its address (108 bytes), however deep the home folder is."""
    descriptor = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{os.path.basename(path)}"
    finally:
        os.close(descriptor)


def _make_private(folder: str) -> None:
    files.make_folder(folder)
    with contextlib.suppress(PermissionError):
        os.chmod(folder, PRIVATE_FOLDER)
    _check_private(folder)


def _check_private(folder: str) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise BackendError(
            f"{folder} must be a folder that belongs to you and that nobody else may enter",
            hint=f"remove it, or: chmod 700 {folder}",
        )
