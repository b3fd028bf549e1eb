"""The options of `run` and `init` for a Python script: how many ranks, processes and GPUs, and under which name.

torchrun's own options work where they mean the same; every other option of torchrun is answered with what vcjob has
in its place, so that nobody has to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypedDict, TypeVar, cast

import click

from vcjob.cli.arguments.numbers import WholeNumber
from vcjob.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])

_LEAVE_OUT = "leave it out"
_MEETING = f"{_LEAVE_OUT}: the pytorch plugin gives every rank MASTER_ADDR and MASTER_PORT, so no rendezvous is needed"
_LOGS = f"{_LEAVE_OUT}: the output of every rank is stored: `vcjob logs JOB --rank N` shows it"
_NO_EQUIVALENT = (
    "it has no equivalent here: write a Job file with `vcjob init` and call torchrun in its `command`"
)
#: torchrun's options that do not work here, and what to do instead.
_TORCHRUN_ANSWERS = {
    "--node-rank": "one `vcjob run` starts all nodes, and the pytorch plugin gives each its rank: use --workers N",
    "--master-addr": _MEETING,
    "--master-port": f"{_LEAVE_OUT}: rank 0 listens on port 23456, or on a free one of this machine; a Job file may "
    "choose another with the plugin's --port",
    "--rdzv-backend": _MEETING,
    "--rdzv-endpoint": _MEETING,
    "--rdzv-id": _MEETING,
    "--rdzv-conf": _MEETING,
    "--local-addr": _MEETING,
    "--log-dir": _LOGS,
    "--redirects": _LOGS,
    "--tee": _LOGS,
    "--local-ranks-filter": _LOGS,
    "--role": _NO_EQUIVALENT,
    "--monitor-interval": _NO_EQUIVALENT,
    "--start-method": _NO_EQUIVALENT,
    "--logs-specs": _NO_EQUIVALENT,
}
_TORCHRUN_FLAGS = {
    "--no-python": "write a Job file with `vcjob init` and put the program into its `command`",
    "--run-path": "give the path of the script: vcjob run train.py",
}
_TORCHRUN_SHORT = {"--redirects": "-r", "--tee": "-t"}
#: How the values of torchrun's options are named between the command line and `with_script`.
_TORCHRUN = "torchrun"


class ScriptArguments(TypedDict):
    """The arguments of `vcjob.script_job` that have an option."""

    name: str | None
    workers: int
    nproc: str | None
    gpus: int
    restarts: int


class ScriptOptions(NamedTuple):
    """The options for a Python script: what the user typed; None where it was not given.

    The verbs that accept a script get one. `script_job` has the defaults and the checks of the values.
    """

    module: bool
    name: str | None
    workers: int | None
    nproc: str | None
    gpus: int | None
    restarts: int | None

    def arguments(self) -> ScriptArguments:
        """The same for `vcjob.script_job`, with its defaults."""
        return {
            "name": self.name,
            "workers": self.workers or 0,
            "nproc": self.nproc,
            "gpus": self.gpus or 0,
            "restarts": self.restarts or 0,
        }

    def given(self) -> list[str]:
        """The options that were typed, which mean nothing for a Job file."""
        names = ("-m", "--name", "--workers", "--nproc", "--gpus", "--max-restarts")
        return [name for name, value in zip(names, self, strict=True) if value not in (None, False)]


def script_options(function: Function) -> Function:
    """Passed to the verb as one `script` (see ScriptOptions)."""

    @wraps(function)
    def with_script(*arguments: Any, nnodes: str | None, standalone: bool, **options: Any) -> Any:
        _refuse_torchrun_options(options)
        options["workers"] = _workers(options["workers"], nnodes, standalone)
        script = ScriptOptions(**{name: options.pop(name) for name in ScriptOptions._fields})
        return function(*arguments, script=script, **options)

    decorated: Any = with_script
    for flag in (*_TORCHRUN_ANSWERS, *_TORCHRUN_FLAGS):
        names = [flag, *filter(None, [_TORCHRUN_SHORT.get(flag)]), f"{_TORCHRUN}{flag.replace('-', '_')}"]
        decorated = click.option(*names, hidden=True, is_flag=flag in _TORCHRUN_FLAGS)(decorated)
    for option in (
        click.option("--standalone", is_flag=True, hidden=True),
        click.option("--nnodes", metavar="N", hidden=True),
        click.option(
            "--max-restarts",
            "restarts",
            metavar="N",
            type=WholeNumber(min=0),
            help="Script: how often the whole job starts again after a rank has failed.",
        ),
        click.option(
            "--gpus",
            metavar="N",
            type=WholeNumber(min=0),
            help="Script: GPUs of each pod; with more than one, torchrun starts a process for each.",
        ),
        click.option(
            "--nproc",
            "--nproc-per-node",
            "nproc",
            metavar="N|gpu|cpu|auto",
            help="Script: processes in each pod, started by torchrun.",
        ),
        click.option(
            "--workers",
            metavar="N",
            type=WholeNumber(min=0),
            help="Script: pods in addition to the master.",
        ),
        click.option(
            "--name", metavar="NAME", help="Script: the name of the job; by default that of the script."
        ),
        click.option("-m", "--module", is_flag=True, help="Run a module, as `python -m` does."),
    ):
        decorated = option(decorated)
    return cast(Function, decorated)


def change_options(function: Function) -> Function:
    """What the user changes in a Job without editing its file, passed to the verb as `sets` and `env`."""
    env = click.option(
        "-e",
        "--env",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="Set an environment variable in every container.",
    )
    return click.option(
        "--set",
        "sets",
        metavar="PATH=VALUE",
        multiple=True,
        help="Change a field of the Job, such as 'spec.tasks[1].replicas=4'.",
    )(env(function))


def _workers(workers: int | None, nnodes: str | None, standalone: bool) -> int | None:
    if nnodes is None:
        if standalone and workers:
            raise UserError("--standalone means one pod, and --workers asks for more", hint="leave one out")
        return workers
    if ":" in nnodes:
        raise UserError(
            f"--nnodes={nnodes}: the number of ranks of a Job does not change while it runs",
            hint="give one number: --nnodes N, or --workers N-1",
        )
    if not nnodes.isdecimal() or int(nnodes) < 1:
        raise UserError(f"--nnodes={nnodes} must be a number of at least 1", hint="use --workers N")
    if workers is not None:
        raise UserError("--nnodes and --workers mean the same thing", hint="--nnodes N is --workers N-1")
    if standalone and int(nnodes) > 1:
        raise UserError(f"--standalone means one pod, and --nnodes is {nnodes}", hint="leave one out")
    return int(nnodes) - 1


def without_torchrun_options(words: Sequence[str]) -> list[str]:
    """The words of a command line of torchrun before its script, without the options that vcjob does not need."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        name = name.replace("_", "-")
        name = next((flag for flag, short in _TORCHRUN_SHORT.items() if short == name), name)
        if not _TORCHRUN_ANSWERS.get(name, "").startswith(_LEAVE_OUT):
            kept.append(word)
        elif not equals:
            next(rest, None)
    return kept


def _refuse_torchrun_options(options: dict[str, Any]) -> None:
    """Take torchrun's options out; UserError with the answers to all that were typed."""
    groups: dict[str, list[str]] = {}
    for flag, answer in (_TORCHRUN_ANSWERS | _TORCHRUN_FLAGS).items():
        if options.pop(f"{_TORCHRUN}{flag.replace('-', '_')}") not in (None, False):
            groups.setdefault(answer, []).append(flag)
    typed = [flag for flags in groups.values() for flag in flags]
    if len(typed) == 1:
        raise UserError(f"{typed[0]} is an option of torchrun", hint=next(iter(groups)))
    if typed:
        answers = [
            answer.replace(_LEAVE_OUT, f"leave out {', '.join(flags)}")
            if answer.startswith(_LEAVE_OUT)
            else f"{', '.join(flags)}: {answer}"
            for answer, flags in groups.items()
        ]
        raise UserError(f"{', '.join(typed)} are options of torchrun", hint="; ".join(answers))
