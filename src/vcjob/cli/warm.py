"""`vcjob warm`: manage servers that have imported torch and fork the ranks of local runs.

Its verbs `start`, `stop` and `status` use `local.warm.server` directly, not through the SDK. Such servers need Linux;
elsewhere `start` is a UserError.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.numbers import Number
from vcjob.cli.arguments.options import output_option
from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.local.warm.server import ServerInfo

_OUTPUTS = ("table", "json")


@click.group("warm")
def command() -> None:
    """Keep torch loaded, so that local runs start faster.

    A server serves one user, one interpreter and one environment; runs with another environment do not use
    it. It ends when it was not used for some time.
    """


@command.command("start")
@click.option(
    "--python", metavar="PROGRAM", default="python", help="The interpreter of the jobs.  [default: python]"
)
@click.option(
    "--import",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Import this too, in addition to torch and numpy.",
)
@click.option(
    "--idle",
    type=Number(min=1),
    default=1800.0,
    show_default=True,
    help="End after this many seconds without use.",
)
@output_option(_OUTPUTS)
def start(python: str, modules: tuple[str, ...], idle: float, output: str) -> None:
    """Start a server for this environment and wait until it is ready."""
    from pathlib import Path

    from vcjob.local.run.caller import caller_environment
    from vcjob.local.warm import server, spawn
    from vcjob.local.warm.command import canonical, find_program
    from vcjob.local.warm.folder import warm_folder

    if sys.platform != "linux":
        raise UserError("warm starts need Linux", hint="run jobs without them")
    env = caller_environment()
    interpreter = find_program(python, env, str(Path.cwd()))
    if interpreter is None:
        raise UserError(f"program {python!r} not found", hint="name the interpreter with --python")
    recipe = spawn.Recipe(canonical(interpreter), (), env, (*spawn.DEFAULT_IMPORTS, *modules))
    info = server.start(warm_folder(), recipe, idle=idle)
    _show([info], output, empty="")


@command.command("stop")
@output_option(_OUTPUTS)
def stop(output: str) -> None:
    """Stop every server of this user. Ranks that were forked from it continue."""
    from vcjob.local.warm import server
    from vcjob.local.warm.folder import warm_folder

    folder = warm_folder()
    found = server.servers(folder)
    for info in found:
        server.stop(folder, info)
    _show(found, output, empty="no kept-warm server is running", verb="stopped")


@command.command("status")
@output_option(_OUTPUTS)
def status(output: str) -> None:
    """Show the servers that are running."""
    from vcjob.local.warm import server
    from vcjob.local.warm.folder import warm_folder

    _show(server.servers(warm_folder()), output, empty="no kept-warm server is running")


def _show(servers: list[ServerInfo], output: str, *, empty: str, verb: str = "warm") -> None:
    if output == "json":
        from vcjob.cli.output.json_text import to_json

        sys.stdout.write(to_json({"servers": [_as_json(info) for info in servers]}))
        return
    for info in servers:
        modules = ", ".join(info.modules) or "no module"
        age = int(time.time() - info.started_at)
        sys.stdout.write(
            f"{verb}: {info.interpreter} with {modules} (pid {info.pid}, {age} s old, "
            f"{info.memory_mib:.0f} MiB, ends after {info.idle_seconds:.0f} s unused)\n"
        )
    if not servers and empty:
        sys.stdout.write(f"{empty}\n")


def _as_json(info: ServerInfo) -> dict[str, Any]:
    return {
        "pid": info.pid,
        "python": info.interpreter,
        "modules": info.modules,
        "startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(info.started_at)),
        "importSeconds": round(info.import_seconds, 3),
        "idleSeconds": info.idle_seconds,
        "memoryMiB": round(info.memory_mib, 1),
    }
