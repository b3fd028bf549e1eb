"""The `vcjob` command.

Verbs are loaded only when they are called, so that help, completion and a mistyped verb answer at once.
Whatever goes wrong on purpose ends here: as a line that says what and a line that says what to do.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click

from vcjob._version import __version__
from vcjob.cli.options import output_of, typed_output
from vcjob.errors import UserError, VcjobError
from vcjob.wellknown import exit_codes

#: Every verb: the module that has it as `command`, and what it does.
VERBS: dict[str, tuple[str, str]] = {
    "validate": ("vcjob.cli.validate", "Check Job files and say everything that is wrong with them."),
    "render": ("vcjob.cli.render", "Print the objects that a Job becomes on a cluster."),
    "warm": ("vcjob.cli.warm", "Keep torch loaded, so that local runs start at once."),
    "run": ("vcjob.cli.run", "Run a Job: start it, follow it, say what came of it."),
    "list": ("vcjob.cli.list", "Show the jobs of this machine, or of a cluster."),
    "status": ("vcjob.cli.status", "Show a job: its phase, its reason, every rank."),
    "wait": ("vcjob.cli.wait", "Wait for the end of a job."),
    "logs": ("vcjob.cli.logs", "Show what the ranks wrote, each line with its rank."),
    "exec": ("vcjob.cli.exec", "Run a command next to a rank, in its environment."),
    "events": ("vcjob.cli.events", "Show what happened to a job."),
    "suspend": ("vcjob.cli.suspend", "End the pods of a job but keep it, to be resumed."),
    "resume": ("vcjob.cli.resume", "Start the pods of a suspended job again."),
    "restart": ("vcjob.cli.restart", "End all pods of a job and start them anew."),
    "complete": ("vcjob.cli.complete", "End the pods of a job and call it Completed."),
    "stop": ("vcjob.cli.stop", "End a job."),
    "delete": ("vcjob.cli.delete", "End a job and forget it."),
    "doctor": ("vcjob.cli.doctor", "Say what this machine and this cluster can run, and what is missing."),
    "install": ("vcjob.cli.install", "Put the controller into a cluster, or bring it up to date."),
    "uninstall": ("vcjob.cli.uninstall", "Take the controller out of a cluster."),
    "controller": ("vcjob.cli.controller", "Serve the Jobs of a cluster (what `install` runs there)."),
    "completion": ("vcjob.cli.completion", "Print the completion script for a shell."),
}

#: A shell asks for completions by calling us with this set.
COMPLETE = "_VCJOB_COMPLETE"
READER_GONE = 141  # as if the signal for it had ended us, which is what other tools do


class LazyGroup(click.Group):
    """A group that knows its verbs by name and loads one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(VERBS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no verb {args[0]!r}{_nearest(args[0])}", ctx)
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
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "vcjob", COMPLETE, os.environ[COMPLETE])
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _write_utf8()
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("\ninterrupted\n")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # What is still buffered has no reader either; without this the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    return code


def _write_utf8() -> None:
    """Manifests are UTF-8 whatever the terminal's locale, and a file's name may be any bytes at all."""
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
        return _show(_usage_error(mistake), output_of(context) or typed_output(arguments))
    except VcjobError as failure:
        return _show(failure, output_of(context))
    except (KeyboardInterrupt, click.Abort, BrokenPipeError):
        raise
    except Exception as fault:
        return _show_internal_error(fault, output_of(context))
    return exit_codes.OK


def _show(failure: VcjobError, output: str | None) -> int:
    from vcjob.cli.failure import show_failure

    show_failure(failure, output)
    return failure.exit_code


def _usage_error(mistake: click.ClickException) -> UserError:
    command = mistake.ctx.command_path if isinstance(mistake, click.UsageError) and mistake.ctx else None
    return UserError(mistake.format_message(), hint=f"see `{command} --help`" if command else None)


def _show_internal_error(fault: Exception, output: str | None) -> int:
    """An error that nobody foresaw: one line, another exit code than a failed job's, and how to report it."""
    if os.environ.get("VCJOB_DEBUG"):
        import traceback

        traceback.print_exc()
    text = f"internal error: {type(fault).__name__}: {fault}"
    hint = "this is a bug in vcjob: run the command again with VCJOB_DEBUG=1 and report the traceback"
    _show(VcjobError(text, hint=hint), output)
    return exit_codes.INTERNAL


def _nearest(verb: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


if __name__ == "__main__":
    sys.exit(main())
