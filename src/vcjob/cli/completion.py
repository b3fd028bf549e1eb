"""`vcjob completion`: the script with which a shell completes verbs, options and the names of jobs, tasks and fields.

It prints click's own script for the shell. The names come from `arguments.completing`, which runs when the shell
asks, in a process of its own.
"""

from __future__ import annotations

import click


@click.command("completion", short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  vcjob completion bash > ~/.local/share/bash-completion/completions/vcjob
    zsh:   vcjob completion zsh > "${fpath[1]}/_vcjob"
    fish:  vcjob completion fish > ~/.config/fish/completions/vcjob.fish
    """
    from click.shell_completion import get_completion_class

    from vcjob.wellknown.environment import COMPLETE

    completion = get_completion_class(shell)
    assert completion is not None, "click knows these three shells"
    click.echo(completion(context.find_root().command, {}, "vcjob", COMPLETE).source())
