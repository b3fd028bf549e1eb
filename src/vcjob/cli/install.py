"""`vcjob install`: the controller in a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.cluster_options import cluster_options, gang_option, volcano_namespace_option
from vcjob.cli.options import output_option

if TYPE_CHECKING:
    from vcjob.cluster.install.apply import Change, Report
    from vcjob.cluster.install.settings import Settings

_TABLE = "table"


@click.command("install")
@cluster_options
@click.option(
    "-n", "--namespace", default="vcjob-system", show_default=True, help="Where the controller lives."
)
@click.option("--image", metavar="IMAGE", help="The controller's image.  [default: vcjob:<this version>]")
@click.option("--image-pull-secret", "image_pull_secrets", metavar="NAME", multiple=True)
@click.option("--replicas", type=click.IntRange(1, 10), default=2, show_default=True)
@click.option(
    "--watch-namespace",
    "namespaces",
    metavar="NAME",
    multiple=True,
    help="Serve, and have rights in, this namespace only; may be given several times.  [default: all]",
)
@gang_option
@click.option(
    "--webhook/--no-webhook",
    default=True,
    show_default=True,
    help="Have the API server ask about every Job.",
)
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="What the API server does with a Job when no replica answers: take it (the controller checks it "
    "then) or refuse it.",
)
@volcano_namespace_option
@click.option("--beside-volcano", is_flag=True, help="Install although Volcano's controllers are alive.")
@click.option(
    "--replace-crds",
    is_flag=True,
    help="Put our definitions in the place of another's (they stay when we go).",
)
@click.option("--force-conflicts", is_flag=True, help="Take back fields that somebody else has changed.")
@click.option(
    "--wait",
    "wait_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="How long to wait until the controller runs; 0: not at all.",
)
@output_option((_TABLE, "yaml", "json"))
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    image: str | None,
    replace_crds: bool,
    force_conflicts: bool,
    wait_seconds: float,
    output: str,
    **chosen: Any,
) -> None:
    """Put the controller into a cluster, or bring it up to date.

    Run it again at any time: it changes what differs and nothing else, and running Jobs run on. With
    `-o yaml` or `-o json` the manifests are printed and no cluster is asked.
    """
    import msgspec

    from vcjob.cluster.install.settings import IMAGE, Settings

    settings = msgspec.convert({"image": image or IMAGE, **chosen}, Settings)
    if output != _TABLE:
        _print(settings, output)
        return
    report = _install(
        settings,
        kubeconfig,
        context,
        replace_crds=replace_crds,
        force=force_conflicts,
        wait_seconds=wait_seconds,
    )
    show_report(report)
    changed = sum(change.outcome not in ("unchanged", "kept") for change in report.changes)
    state = "and runs" if wait_seconds else "(its start was not waited for)"
    sys.stdout.write(
        f"vcjob is installed in namespace {settings.namespace} {state}; {changed} objects changed\n"
    )


def _install(settings: Settings, kubeconfig: str | None, context: str | None, **options: Any) -> Report:
    import asyncio

    from vcjob.cluster.install.apply import install
    from vcjob.kube.api.client import Client
    from vcjob.kube.config.config import load

    async def work() -> Report:
        async with Client(load(kubeconfig, context), field_manager="vcjob-install") as client:
            return await install(client, settings, tell=show_change, **options)

    return asyncio.run(work())


def show_change(change: Change) -> None:
    if change.outcome != "unchanged":
        sys.stdout.write(f"{change}\n")
        sys.stdout.flush()


def show_report(report: Report) -> None:
    """What the user should know beside the changes, which were told as they happened."""
    for note in report.notes:
        sys.stderr.write(f"note: {note}\n")


def _print(settings: Settings, output: str) -> None:
    from vcjob.cluster.install.objects.manifests import manifests

    documents = manifests(settings)
    if output == "json":
        from vcjob.cli.json_text import to_json
        from vcjob.cli.objects import as_list

        sys.stdout.write(to_json(as_list(documents)))
        return
    from vcjob.sdk.yaml_text import to_yaml_stream

    for text in to_yaml_stream(documents):
        sys.stdout.write(text)
