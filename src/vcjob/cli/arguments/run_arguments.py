"""How the command line of `vcjob run` and `vcjob render` is divided: its own options, the file or script, the program's arguments.

As with `python` and `torchrun`, everything after a script belongs to the script. After a Job file more options may
follow, and the arguments for the program begin after `--`.
"""

from __future__ import annotations

from typing import Any

import click

from vcjob.errors import UserError

_LAUNCHERS = ("torchrun", "python", "python3", "accelerate", "deepspeed")


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
        rest = list(rest) if isinstance(rest, list | tuple) else []
        if program in _LAUNCHERS:
            raise UserError(
                f"`vcjob {ctx.info_name}` takes the script, and starts {program} where it is needed",
                hint=f"for example `vcjob {ctx.info_name} --nproc 4 train.py`",
            )
        if options.get("module") is True or program.endswith(".py"):
            own = args[: len(args) - len(rest) - 1]
            given = rest[1:] if rest[:1] == ["--"] else rest
            return super().parse_args(
                ctx, [*(own[:-1] if own[-1:] == ["--"] else own), "--", program, *given]
            )
        end = len(args) - len(rest) + rest.index("--") if "--" in rest else len(args)
        before, given = args[:end], args[end + 1 :]
        left = super().parse_args(ctx, before)
        if ctx.params.get("arguments"):
            raise click.UsageError(
                f"unexpected argument {ctx.params['arguments'][0]!r}: arguments for the program follow `--`",
                ctx,
            )
        ctx.params["arguments"] = tuple(given)
        return left
