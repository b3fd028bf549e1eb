"""How the command line of `vcjob run` and `vcjob render` is divided: its own options, the file or script, the program's arguments.

As with `python` and `torchrun`, everything after a script belongs to the script. After a Job file more options may
follow, and the arguments for the program begin after `--`.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from vcjob.cli.arguments.script_options import without_torchrun_options
from vcjob.cli.arguments.usage_errors import PROGRAM, Mistake, long_options, typographic_option

#: Those that vcjob starts where they are needed, and those in whose place it starts the ranks.
_STARTED = ("torchrun", "python", "python3")
_REPLACED = ("accelerate", "deepspeed")


class RunCommand(click.Command):
    """A command with the parameters `target` and `arguments`; see the module.

    As with torchrun, an option may be written with underscores: `--max_restarts`.
    """

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.context_settings["token_normalize_func"] = lambda option: option.replace("_", "-")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes an unfinished line
            return super().parse_args(ctx, args)
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        options, _, _ = parser.parse_args(list(args))
        program, rest = options.get("target"), options.get("arguments")
        if not isinstance(program, str):
            return super().parse_args(ctx, args)
        if (mistake := typographic_option(program, ctx)) and not Path(program).exists():
            raise mistake
        rest = list(rest) if isinstance(rest, list | tuple) else []
        own = args[: len(args) - len(rest) - 1]
        if program in (*_STARTED, *_REPLACED):
            starts = (
                f"{program} where it is needed" if program in _STARTED else f"its ranks without {program}"
            )
            line = shlex.join(["vcjob", str(ctx.info_name), *self._without_launcher(ctx, own, rest)])
            raise Mistake(
                f"`vcjob {ctx.info_name}` takes the script, and starts {starts}",
                hint=f"for example `{line}`",
                ctx=ctx,
            )
        if options.get("module") is True or program.endswith(".py"):
            given = rest[1:] if rest[:1] == ["--"] else rest
            left = super().parse_args(
                ctx, [*(own[:-1] if own[-1:] == ["--"] else own), "--", program, *given]
            )
            if given == rest:
                self._note_own_options(program, rest)
            return left
        end = len(args) - len(rest) + rest.index("--") if "--" in rest else len(args)
        before, given = args[:end], args[end + 1 :]
        ctx.meta[PROGRAM] = program
        try:
            left = super().parse_args(ctx, before)
        except click.NoSuchOption:
            _check_file(program)
            raise
        if ctx.params.get("arguments"):
            raise _unexpected(ctx, own, program, ctx.params["arguments"])
        ctx.params["arguments"] = tuple(given)
        return left

    def _without_launcher(self, ctx: click.Context, own: Sequence[str], rest: Sequence[str]) -> Sequence[str]:
        """The words without the launcher between `own` and `rest`, as far as they mean the same here; else an example."""
        ends = (
            place for place, word in enumerate(rest) if word.endswith(".py") or word in ("-m", "--module")
        )
        before = next(ends, 0)
        rest = [*without_torchrun_options(rest[:before]), *rest[before:]]
        words = [*own, *rest]
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        try:
            options, _, _ = parser.parse_args(list(words))
        except click.UsageError:
            options = {}
        if options.get("module") is True or str(options.get("target")).endswith(".py"):
            return words
        script = next((place for place, word in enumerate(rest) if word.endswith(".py")), None)
        return ["--nproc", "4", "train.py"] if script is None else [*own, *rest[script:]]

    def _note_own_options(self, program: str, words: Sequence[str]) -> None:
        """Say which arguments of the script look like options of vcjob; after `--` they are certainly meant for the script."""
        known, found = long_options(self), []
        for place, word in enumerate(words):
            if word == "--":
                break
            name, equals, _ = word.partition("=")
            option = known.get(name.replace("_", "-"))
            if option is not None:
                value = () if equals or option.is_flag else words[place + 1 : place + 2]
                found.append(f"`{' '.join([word, *value])}`")
        if found:
            were = "was" if len(found) == 1 else "were"
            sys.stderr.write(
                f"vcjob: note: {', '.join(found)} {were} passed to {program}; options of vcjob go before the script\n"
            )


def _check_file(program: str) -> None:
    """Raise SourceError for a file that is no Job file at all, such as a shell script, whatever follows it."""
    if Path(program).is_file():
        from vcjob.sdk.loading import validate

        validate(Path(program))


def _unexpected(
    ctx: click.Context, before: Sequence[str], program: str, arguments: Sequence[str]
) -> click.UsageError:
    """The words after the file or command that no option takes."""
    for word in before:
        if f"-{word.partition('=')[0]}" in long_options(ctx.command):  # `-nproc 4` was read as `-n proc`
            return click.NoSuchOption(word, ctx=ctx)
    if program.isdecimal():
        return Mistake(
            f"{program!r} is not a file, and no option takes it",
            hint=f"for example `{ctx.command_path} --workers {shlex.join([program, *arguments])}`",
            ctx=ctx,
        )
    _check_file(program)
    if not Path(program).exists() and shutil.which(program):
        words = ", ".join([program, *arguments])
        return Mistake(
            f"`{ctx.command_path}` takes a Python script or a Job file, and {program!r} is a command",
            hint=f"write a Job file with `vcjob init`, and put `command: [{words}]` into it",
            ctx=ctx,
        )
    return click.UsageError(
        f"unexpected argument {arguments[0]!r}: arguments for the program follow `--`", ctx
    )
