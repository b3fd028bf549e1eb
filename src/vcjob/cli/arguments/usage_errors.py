"""Usage errors in plain words: what was typed, and what was probably meant.

`main` passes every usage error through `usage_error`, and asks `unknown_verb` about a verb that does not exist. Verbs raise
`Mistake` where they know a better hint than the help of the verb.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import click

from vcjob.errors import UserError

#: The key in the context of a verb with the file or script that its command line names.
PROGRAM = "vcjob.program"
#: How alike an unknown option and its suggestion must be.
_ALIKE = 0.75
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
#: Dashes that web pages and word processors put in the place of `-`.
_OTHER_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_FILE_OPTIONS = ("-f", "--file", "--filename")
#: Options of other tools, and what is meant here.
_OPTIONS = {
    "--replicas": "--workers",
    "--num-workers": "--workers",
    "--nodes": "--nnodes",
    "--num-gpus": "--gpus",
    "--ngpus": "--gpus",
    "--nprocs": "--nproc",
    "--ns": "--namespace",
    "--background": "--detach",
}
#: Verbs of kubectl, vcctl, docker and schedulers, and the verb that does the same here.
_VERBS = {
    "ps": "list",
    "ls": "list",
    "get": "list",
    "jobs": "list",
    "squeue": "list",
    "describe": "status",
    "show": "status",
    "view": "status",
    "apply": "run",
    "create": "run",
    "submit": "run",
    "start": "run",
    "launch": "run",
    "torchrun": "run",
    "python": "run",
    "cancel": "stop",
    "kill": "stop",
    "abort": "stop",
    "rm": "delete",
    "remove": "delete",
    "log": "logs",
    "tail": "logs",
    "attach": "logs",
    "follow": "logs",
    "stats": "top",
    "check": "validate",
    "lint": "validate",
    "diagnose": "why",
    "help": "--help",
    "version": "--version",
}
#: What kubectl and vcctl write next to a verb: `vcctl job run`, `kubectl get jobs`.
_NOUNS = ("job", "jobs", "vcjob", "vcjobs")


class Mistake(click.UsageError):
    """A usage error with its own hint.

    Raised for command lines that click would accept or explain badly; `cli.main` shows it and exits with 2.
    """

    def __init__(self, message: str, *, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


def usage_error(mistake: click.ClickException, words: Sequence[str]) -> UserError:
    """The error as vcjob shows it; `words` is the whole command line."""
    context = mistake.ctx if isinstance(mistake, click.UsageError) else None
    if context is None:
        return UserError(mistake.format_message())
    hint = f"see `{context.command_path} --help`"
    if isinstance(mistake, Mistake):
        return UserError(mistake.message, hint=mistake.hint)
    if isinstance(mistake, click.NoSuchOption):
        return _unknown_option(mistake.option_name, words, context, hint)
    extra = _EXTRA.match(mistake.message)
    if extra:
        dash = next(filter(None, map(typographic_option, words)), None)
        if dash is not None:
            return UserError(dash.message, hint=dash.hint)
        return UserError(f"unexpected argument {extra[1]!r}", hint=f"{_takes(context)}; {hint}")
    return UserError(mistake.format_message(), hint=hint)


def unknown_verb(words: Sequence[str], verbs: Collection[str], context: click.Context) -> click.UsageError:
    """The command line begins with a word that is no verb."""
    word = words[0]
    if word.endswith((".py", ".yaml", ".yml", ".json")) or Path(word).is_file():
        return Mistake(
            f"a verb is missing before the file {word!r}",
            hint=f"run it with `vcjob run {shlex.quote(word)}`",
            ctx=context,
        )
    meant = next(_meant_verbs(words, verbs), None)
    if meant is None:
        return click.UsageError(f"unknown verb {word!r}", context)
    return click.UsageError(f"unknown verb {word!r}; did you mean {meant!r}?", context)


def typographic_option(word: str, context: click.Context | None = None) -> Mistake | None:
    """The mistake of a word that is an option but for its dash, as in text that was copied from a web page."""
    name = word.lstrip(f"-{_OTHER_DASHES}")
    if not name or not set(word[: len(word) - len(name)]) - {"-"}:
        return None
    dashes = "--" if len(name.partition("=")[0]) > 1 else "-"
    return Mistake(
        f"{word!r} begins with a typographic dash instead of `-`", hint=f"write `{dashes}{name}`", ctx=context
    )


def long_options(command: click.Command) -> dict[str, click.Option]:
    """The options that the help shows, by their long names."""
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }


def _meant_verbs(words: Sequence[str], verbs: Collection[str]) -> Iterator[str]:
    from difflib import get_close_matches

    for word in words[:2]:
        if word in _VERBS or word in verbs:
            yield _VERBS.get(word, word)
        if word not in _NOUNS:
            yield from get_close_matches(word, verbs, n=1)
            return


def _unknown_option(name: str, words: Sequence[str], context: click.Context, see: str) -> UserError:
    # click takes `-workers` for several options of one letter.
    short = not name.startswith("--")
    typed = next((word for word in words if word == name or (short and word.startswith(name))), name)
    typed = typed.partition("=")[0]
    following = _value_after(words, typed)
    command, options = context.command, [*long_options(context.command), "--help"]
    message = f"No such option {typed!r}."
    if isinstance(command, click.Group):
        return UserError(message, hint=f"options follow the verb; {see}")
    takes_file = any(
        "FILE" in (each.metavar or "") for each in command.params if isinstance(each, click.Argument)
    )
    if typed in _FILE_OPTIONS and takes_file:
        example = shlex.quote(following or "job.yaml")
        return UserError(message, hint=f"give the file without `{typed}`: `{context.command_path} {example}`")
    takes_job = any(
        each.metavar in ("JOB", "[JOB]") for each in command.params if isinstance(each, click.Argument)
    )
    if typed == "-N" and takes_job:  # as vcctl takes it
        example = shlex.quote(following or "JOB")
        return UserError(message, hint=f"give the job without `-N`: `{context.command_path} {example}`")
    meant = _meant_option(typed if not short else f"-{typed}", options)
    if meant is not None:
        return UserError(message, hint=f"did you mean `{meant}`? {see[0].upper()}{see[1:]}")
    script = next((word for word in words if word.endswith(".py")), None)
    argument = shlex.join([typed, *([following] if following and following != script else [])])
    if PROGRAM in context.meta:
        line = f"{context.command_path} {shlex.quote(context.meta[PROGRAM])} -- {argument}"
        return UserError(message, hint=f"arguments for the program follow `--`: `{line}`")
    if script is not None and any(each.name == "arguments" for each in command.params):
        line = f"{context.command_path} {shlex.quote(script)} {argument}"
        return UserError(message, hint=f"arguments of a script follow it: `{line}`")
    return UserError(message, hint=see)


def _meant_option(typed: str, options: Collection[str]) -> str | None:
    from difflib import get_close_matches

    typed = typed.replace("_", "-")
    if _OPTIONS.get(typed) in options:
        return _OPTIONS[typed]
    return next(iter(get_close_matches(typed, options, n=1, cutoff=_ALIKE)), None)


def _value_after(words: Sequence[str], option: str) -> str | None:
    """The word after the option, or after `=` in it."""
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option:
            after = words[place + 1 : place + 2]
            return after[0] if after and not after[0].startswith("-") else None
    return None


def _takes(context: click.Context) -> str:
    """Which arguments the verb takes: `vcjob status` takes one JOB."""
    names = [
        (each.metavar or each.human_readable_name.upper()).strip("[]")
        for each in context.command.params
        if isinstance(each, click.Argument)
    ]
    if not names:
        return f"`{context.command_path}` takes options only"
    return f"`{context.command_path}` takes one {' and one '.join(names)}"
