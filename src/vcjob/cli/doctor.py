"""`vcjob doctor`: what this machine and this cluster can run, and what is missing.

It prints the checks of `local.jobs.doctor` and `cluster.install.commands`; each backend is loaded only if it is
checked. The exit code is 3 where the requested backend cannot run Jobs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.cluster_options import cluster_options
from vcjob.cli.arguments.options import output_option
from vcjob.errors import BackendError

if TYPE_CHECKING:
    from vcjob.diagnosis.check import Check

_COLOURS = {"ok": "green", "note": "yellow", "missing": "red"}


@click.command("doctor")
@click.option(
    "--on",
    "backend",
    type=click.Choice(["local", "cluster"]),
    help="Check this one only.  [default: both]",
)
@cluster_options
@click.option(
    "-n", "--namespace", help="The namespace in which Jobs shall run.  [default: that of the context]"
)
@click.option(
    "--controller-namespace",
    metavar="NAME",
    help="Where the controller is installed.  [default: found in the cluster, else vcjob-system]",
)
@output_option(("table", "json"))
def command(
    *,
    backend: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    controller_namespace: str | None,
    output: str,
) -> None:
    """Check what this machine and this cluster can run, and what is missing.

    Changes nothing. The exit code is 3 where the backend of --on cannot run Jobs; without --on, a missing cluster
    is no failure.
    """
    found: dict[str, list[Check]] = {}
    if backend != "cluster":
        from vcjob.local.jobs.doctor import examine

        found["local"] = list(examine())
    if backend != "local":
        found["cluster"] = _examine_cluster(kubeconfig, context, namespace, controller_namespace)
    _show(found, output)
    if any(check.standing == "missing" for check in found[backend or "local"]):
        raise click.exceptions.Exit(BackendError.exit_code)


def _examine_cluster(*arguments: str | None) -> list[Check]:
    from vcjob.cluster.install.commands import examine
    from vcjob.diagnosis.check import missing

    try:
        return examine(*arguments)
    except BackendError as error:
        return [missing("cluster", error.message, error.hint)]


def _show(found: dict[str, list[Check]], output: str) -> None:
    if output == "json":
        import msgspec

        from vcjob.cli.output.json_text import to_json

        sys.stdout.write(to_json({backend: msgspec.to_builtins(checks) for backend, checks in found.items()}))
        return
    from vcjob.cli.output.style import Style

    style = Style(sys.stdout)
    titles = {"local": "This machine", "cluster": "The cluster"}
    for number, (backend, checks) in enumerate(found.items()):
        sys.stdout.write(f"{'' if not number else chr(10)}{style(titles[backend], 'bold')}\n")
        for check in checks:
            standing = style(check.standing.ljust(7), _COLOURS[check.standing])
            sys.stdout.write(f"  {standing}  {check.topic}: {check.message}\n")
            if check.hint:
                sys.stdout.write(f"           hint: {check.hint}\n")
