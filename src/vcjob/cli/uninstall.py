"""`vcjob uninstall`: removes the controller from a cluster.

It calls `cluster.install.commands` and prints each change as it happens. BackendError if Helm manages the
installation, or if something that was deleted does not disappear in time.
"""

from __future__ import annotations

import sys

import click

from vcjob.cli.arguments.cluster_options import cluster_options


@click.command("uninstall")
@cluster_options
@click.option(
    "-n", "--namespace", default="vcjob-system", show_default=True, help="The namespace of the installation."
)
@click.option(
    "--delete-jobs",
    is_flag=True,
    help="First delete every Job (batch.volcano.sh) of the cluster, with its pods.  [default: Jobs stay]",
)
@click.option(
    "--keep-crds", is_flag=True, help="Keep the CustomResourceDefinitions even where no Job is left."
)
def command(
    *, kubeconfig: str | None, context: str | None, namespace: str, delete_jobs: bool, keep_crds: bool
) -> None:
    """Remove the controller from a cluster.

    Jobs and the definitions that they need stay unless you request their removal; objects of other programs always
    stay. The pods of running Jobs continue without a controller. A Helm release is not removed;
    use `helm uninstall`.
    """
    from vcjob.cli.install import show_change, show_notes, show_progress
    from vcjob.cluster.install.commands import uninstall

    report = uninstall(
        kubeconfig,
        context,
        namespace,
        delete_jobs=delete_jobs,
        keep_crds=keep_crds,
        on_change=show_change,
        progress=show_progress,
    )
    show_notes(report)
    removed = sum(change.outcome == "removed" for change in report.changes)
    sys.stdout.write(
        f"vcjob was removed from namespace {namespace}; {removed} objects deleted\n"
        if removed
        else f"vcjob is not installed in namespace {namespace}\n"
    )
