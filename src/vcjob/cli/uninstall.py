"""`vcjob uninstall`: the controller out of a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.cluster_options import cluster_options

if TYPE_CHECKING:
    from vcjob.cluster.install.apply import Report


@click.command("uninstall")
@cluster_options
@click.option("-n", "--namespace", default="vcjob-system", show_default=True, help="Where it is installed.")
@click.option(
    "--delete-jobs",
    is_flag=True,
    help="Delete every Job (batch.volcano.sh) of the cluster first, with its pods.  [default: Jobs stay]",
)
@click.option("--keep-crds", is_flag=True, help="Keep the definitions even where no Job is left.")
def command(
    *, kubeconfig: str | None, context: str | None, namespace: str, delete_jobs: bool, keep_crds: bool
) -> None:
    """Take the controller out of a cluster.

    Jobs, and the definitions that they need, stay unless you ask for their removal; what somebody else made
    stays in any case. Pods of Jobs that run on are then looked after by nobody.
    """
    from vcjob.cli.install import show_report

    report = _uninstall(kubeconfig, context, namespace, delete_jobs=delete_jobs, keep_crds=keep_crds)
    show_report(report)
    removed = sum(change.outcome == "removed" for change in report.changes)
    sys.stdout.write(
        f"vcjob is gone from namespace {namespace}; {removed} objects removed\n"
        if removed
        else f"vcjob is not installed in namespace {namespace}\n"
    )


def _uninstall(
    kubeconfig: str | None, context: str | None, namespace: str, *, delete_jobs: bool, keep_crds: bool
) -> Report:
    import asyncio

    from vcjob.cli.install import show_change
    from vcjob.cluster.install.remove import uninstall
    from vcjob.kube.api.client import Client
    from vcjob.kube.config.config import load

    async def work() -> Report:
        async with Client(load(kubeconfig, context), field_manager="vcjob-install") as client:
            return await uninstall(
                client, namespace, delete_jobs=delete_jobs, keep_crds=keep_crds, tell=show_change
            )

    return asyncio.run(work())
