"""`vcjob install`: installs or updates the controller in a cluster. Shares its output with `uninstall`.

It fills `Settings` in from its options and calls `cluster.install.commands`; with `-o yaml` or `-o json` it prints
the manifests instead. BackendError if something prevents the installation or the controller does not start.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.cluster_options import cluster_options, gang_option, volcano_namespace_option
from vcjob.cli.arguments.numbers import Number, WholeNumber
from vcjob.cli.arguments.options import output_option

if TYPE_CHECKING:
    from vcjob.cluster.install.apply import Change, Report
    from vcjob.cluster.install.settings import Settings

_TABLE = "table"


@click.command("install")
@cluster_options
@click.option(
    "-n", "--namespace", default="vcjob-system", show_default=True, help="The namespace to install into."
)
@click.option("--image", metavar="IMAGE", help="The controller's image.  [default: vcjob:<this version>]")
@click.option(
    "--image-pull-secret",
    "image_pull_secrets",
    metavar="NAME",
    multiple=True,
    help="A Secret with credentials for the image's registry; may be given several times.",
)
@click.option(
    "--replicas",
    type=WholeNumber(1, 10),
    default=2,
    show_default=True,
    help="Number of replicas. One leads; all serve the webhook.",
)
@click.option(
    "--watch-namespace",
    "namespaces",
    metavar="NAME",
    multiple=True,
    help="Serve Jobs of this namespace only, with rights limited to it; may be given several times.  [default: all]",
)
@gang_option
@click.option(
    "--webhook/--no-webhook",
    default=True,
    show_default=True,
    help="Have the API server check every Job with the admission webhook.",
)
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="What the API server does with a Job when no replica answers: accept it (the controller then checks it) or "
    "refuse it.",
)
@volcano_namespace_option
@click.option(
    "--beside-volcano",
    is_flag=True,
    help="Install although Volcano's controller manager is running. Its job controller must be switched off.",
)
@click.option(
    "--failure-logs/--no-failure-logs",
    default=True,
    show_default=True,
    help="Read the last lines of pods that failed, to name the cause on the Job; grants the controller `get` on `pods/log`.",
)
@click.option(
    "--replace-crds",
    is_flag=True,
    help="Replace CustomResourceDefinitions of another program (uninstall does not remove them then).",
)
@click.option("--force-conflicts", is_flag=True, help="Overwrite fields that another program has changed.")
@click.option(
    "--wait",
    "wait_seconds",
    metavar="SECONDS",
    type=Number(min=0),
    default=120.0,
    show_default=True,
    help="How long to wait until the controller runs; 0 does not wait.",
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
    """Install the controller in a cluster, or update it.

    It can be run again at any time: it changes only what differs, and running Jobs continue. Everything is checked
    before anything is written. With `-o yaml` or `-o json` the manifests are printed and no cluster is contacted.
    """
    import msgspec

    from vcjob.cluster.install.commands import install
    from vcjob.cluster.install.settings import IMAGE, Settings

    settings = msgspec.convert({"image": image or IMAGE, **chosen}, Settings)
    if output != _TABLE:
        _print(settings, output)
        return
    report = install(
        kubeconfig,
        context,
        settings,
        replace_crds=replace_crds,
        force=force_conflicts,
        wait_seconds=wait_seconds,
        on_change=show_change,
        progress=show_progress,
    )
    show_notes(report)
    changed = sum(change.outcome not in ("unchanged", "kept") for change in report.changes)
    state = "and runs" if wait_seconds else "(without waiting for its start)"
    sys.stdout.write(
        f"vcjob is installed in namespace {settings.namespace} {state}; {changed} objects changed\n"
    )


def show_change(change: Change) -> None:
    if change.outcome != "unchanged":
        sys.stdout.write(f"{change}\n")
        sys.stdout.flush()


def show_progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def show_notes(report: Report) -> None:
    """Warnings for the user; changes were printed as they happened."""
    for note in report.notes:
        sys.stderr.write(f"note: {note}\n")


def _print(settings: Settings, output: str) -> None:
    from vcjob.cluster.install.objects.manifests import manifests

    documents = manifests(settings)
    if output == "json":
        from vcjob.cli.output.json_text import to_json
        from vcjob.cli.output.objects import as_list

        sys.stdout.write(to_json(as_list(documents)))
        return
    from vcjob.sdk.yaml_text import to_yaml_stream

    for text in to_yaml_stream(documents):
        sys.stdout.write(text)
