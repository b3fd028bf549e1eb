"""`vcjob doctor`: what can be run here, and what is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.cluster_options import cluster_options
from vcjob.cli.options import output_option
from vcjob.errors import BackendError

if TYPE_CHECKING:
    from vcjob.diagnosis.check import Check

_COLOURS = {"ok": "green", "note": "yellow", "missing": "red"}


@click.command("doctor")
@click.option(
    "--on", "ground", type=click.Choice(["local", "cluster"]), help="Only this one.  [default: both]"
)
@cluster_options
@click.option(
    "-n",
    "--namespace",
    default="vcjob-system",
    show_default=True,
    help="Where the controller is installed.",
)
@output_option(("table", "json"))
def command(
    *, ground: str | None, kubeconfig: str | None, context: str | None, namespace: str, output: str
) -> None:
    """Say what this machine and this cluster can run, and what is missing.

    Changes nothing. Ends with 3 where the ground that was asked for cannot run Jobs; where none was named, a
    missing cluster is no failure.
    """
    found: dict[str, list[Check]] = {}
    if ground != "cluster":
        from vcjob.local.jobs.doctor import examine

        found["local"] = list(examine())
    if ground != "local":
        found["cluster"] = _cluster(kubeconfig, context, namespace)
    _show(found, output)
    judged = found[ground or "local"]
    if any(check.standing == "missing" for check in judged):
        raise click.exceptions.Exit(BackendError.exit_code)


def _cluster(kubeconfig: str | None, context: str | None, namespace: str) -> list[Check]:
    import asyncio

    from vcjob.cluster.install.doctor import examine
    from vcjob.cluster.install.settings import Settings
    from vcjob.diagnosis.check import missing
    from vcjob.kube.api.client import Client
    from vcjob.kube.config.config import load

    async def work() -> list[Check]:
        async with Client(load(kubeconfig, context)) as client:
            return [check async for check in examine(client, Settings(namespace=namespace))]

    try:
        return asyncio.run(work())
    except BackendError as error:
        return [missing("cluster", error.message, error.hint)]


def _show(found: dict[str, list[Check]], output: str) -> None:
    if output == "json":
        import msgspec

        from vcjob.cli.json_text import to_json

        sys.stdout.write(to_json({ground: msgspec.to_builtins(checks) for ground, checks in found.items()}))
        return
    from vcjob.cli.style import Style

    style = Style(sys.stdout)
    titles = {"local": "This machine", "cluster": "The cluster"}
    for number, (ground, checks) in enumerate(found.items()):
        sys.stdout.write(f"{'' if not number else chr(10)}{style(titles[ground], 'bold')}\n")
        for check in checks:
            standing = style(check.standing.ljust(7), _COLOURS[check.standing])
            sys.stdout.write(f"  {standing}  {check.topic}: {check.message}\n")
            if check.hint:
                sys.stdout.write(f"           hint: {check.hint}\n")
