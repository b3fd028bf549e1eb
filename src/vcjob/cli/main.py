"""The `vcjob` command: finds the verb, runs it, and turns every error into a message and an exit code.

Verbs are loaded only when they are called, so that help, completion and a mistyped verb are fast. An error of ours is
shown as what is wrong and what to do about it; any other exception is an internal error with its own exit code.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click

from vcjob._version import __version__
from vcjob.cli.arguments.options import output_of, typed_output
from vcjob.cli.arguments.usage_errors import unknown_verb, usage_error
from vcjob.errors import BackendError, VcjobError
from vcjob.wellknown import exit_codes
from vcjob.wellknown.environment import COMPLETE

#: Every verb: the module with its `command` (or `module:name`), and its short help.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("vcjob.cli.init", "Write a Job file with comments for a Python script."),
    "explain": ("vcjob.cli.explain", "Show what a field of a Job means."),
    "convert": ("vcjob.cli.convert", "Convert a Kubeflow PyTorchJob or TrainJob into a Volcano Job."),
    "validate": ("vcjob.cli.validate", "Check Job files and list every problem."),
    "render": ("vcjob.cli.render", "Print the objects that a Job creates on a cluster."),
    "warm": ("vcjob.cli.warm", "Keep torch loaded, so that local runs start faster."),
    "run": ("vcjob.cli.run", "Start a Job, stream its logs, report the result."),
    "list": ("vcjob.cli.list", "List the jobs of this machine, or of a cluster."),
    "status": ("vcjob.cli.status", "Show the phase of a job, the reason, and its ranks."),
    "why": ("vcjob.cli.why", "Show why a job is pending, failed or hangs."),
    "wait": ("vcjob.cli.wait", "Wait until a job is over."),
    "logs": ("vcjob.cli.logs", "Show the output of the ranks, each line with its rank."),
    "exec": ("vcjob.cli.exec", "Run a command next to a rank, in its environment."),
    "top": ("vcjob.cli.top", "Show CPU, memory, GPU use and step rate of every rank."),
    "timeline": ("vcjob.cli.timeline", "Show where the time of a job went, per rank."),
    "stacks": ("vcjob.cli.stacks", "Show where every rank is, from its Python stack."),
    "events": ("vcjob.cli.events", "Show the events of a job."),
    "suspend": ("vcjob.cli.actions:suspend", "End the pods of a job but keep it, to be resumed."),
    "resume": ("vcjob.cli.actions:resume", "Start the pods of a suspended job again."),
    "restart": ("vcjob.cli.actions:restart", "End all pods of a job and start new ones."),
    "complete": ("vcjob.cli.actions:complete", "End the pods of a job and mark it Completed."),
    "stop": ("vcjob.cli.stop", "End a job."),
    "delete": ("vcjob.cli.delete", "End a job and remove it, or remove finished jobs."),
    "ui": ("vcjob.cli.ui", "Show jobs in a browser."),
    "doctor": ("vcjob.cli.doctor", "Check what this machine and this cluster can run, and what is missing."),
    "install": ("vcjob.cli.install", "Install the controller in a cluster, or update it."),
    "uninstall": ("vcjob.cli.uninstall", "Remove the controller from a cluster."),
    "controller": ("vcjob.cli.controller", "Run the controller (`install` starts it in a cluster)."),
    "completion": ("vcjob.cli.completion", "Print the completion script for a shell."),
}

READER_GONE = 141  # 128 + SIGPIPE, as with other tools
#: Standard output is a file on a disk that is full or fails; errors of the job store have a class of their own.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class LazyGroup(click.Group):
    """A group that knows its verbs by name and loads a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise unknown_verb(args, VERBS, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="vcjob")
def cli() -> None:
    """Run Volcano PyTorch Jobs: on this machine as processes, on any Kubernetes as pods."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _open_closed_streams()
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "vcjob", COMPLETE, os.environ[COMPLETE])
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _write_utf8()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not change how this ends
        sys.stderr.write("\ninterrupted\n")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return READER_GONE
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        _discard_output()
        reason = os.strerror(error.errno or 0)
        return _show(BackendError(f"the output cannot be written: {reason}"), typed_output(words))
    return code


def _discard_output() -> None:
    """Buffered output cannot be written either; without this the interpreter would report that at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """A stream that the shell has closed (`>&-`) is read as empty and written to nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open as long as the process lives


def _write_utf8() -> None:
    """Manifests are UTF-8 whatever the locale of the terminal; file names may be any bytes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def _run(arguments: list[str]) -> int:
    context: click.Context | None = None
    try:
        with cli.make_context("vcjob", arguments) as context:
            cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as mistake:
        sys.stderr.write(f"{mistake.format_message()}\n")
        return exit_codes.USAGE
    except click.ClickException as mistake:
        # The format may not have been read when the mistake was found.
        return _show(usage_error(mistake, arguments), output_of(context) or typed_output(arguments))
    except VcjobError as failure:
        return _show(failure, output_of(context))
    except (KeyboardInterrupt, click.Abort, BrokenPipeError):
        raise
    except Exception as fault:
        if isinstance(fault, OSError) and fault.errno in _OUTPUT_ERRORS:
            raise
        return _show_internal_error(fault, output_of(context))
    return exit_codes.OK


def _show(failure: VcjobError, output: str | None) -> int:
    from vcjob.cli.output.failure import show_failure

    show_failure(failure, output)
    return failure.exit_code


def _show_internal_error(fault: Exception, output: str | None) -> int:
    """An unexpected exception: one line, another exit code than that of a failed job, and how to report it."""
    if os.environ.get("VCJOB_DEBUG"):
        import traceback

        traceback.print_exc()
    text = f"internal error: {type(fault).__name__}: {fault}"
    hint = "this is a bug in vcjob: run the command again with VCJOB_DEBUG=1 and report the traceback"
    _show(VcjobError(text, hint=hint), output)
    return exit_codes.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
