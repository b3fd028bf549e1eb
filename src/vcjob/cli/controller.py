"""`vcjob controller`: the process that `vcjob install` runs in the cluster.

It only passes its options to `cluster.process.main`, which runs until it is ended; the exit code is that of the
process. Users do not call this verb.
"""

from __future__ import annotations

import click

from vcjob.cli.arguments.cluster_options import cluster_options, gang_option, volcano_namespace_option
from vcjob.cli.arguments.numbers import WholeNumber

_PORT = WholeNumber(0, 65535)


@click.command("controller")
@cluster_options
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True,
    help="Serve Jobs of this namespace only; may be given several times.  [default: all]",
)  # fmt: skip
@gang_option
@click.option(
    "--scheduler",
    metavar="NAME",
    help="schedulerName for pods that request `volcano` when its scheduler is not running.  "
    "[default: the cluster's default scheduler]",
)
@volcano_namespace_option
@click.option(
    "--beside-volcano",
    is_flag=True,
    help="Run although Volcano's controller manager is running. Its job controller must be switched off.",
)
@click.option(
    "--failure-logs/--no-failure-logs",
    default=True,
    show_default=True,
    help="Read the last lines of pods that failed, to name the cause on the Job (the right `get` on `pods/log`).",
)
@click.option(
    "--workers",
    type=WholeNumber(1, 1000),
    default=16,
    show_default=True,
    help="Number of Jobs reconciled concurrently.",
)
@click.option(
    "--lease-name",
    default="vcjob-controller",
    show_default=True,
    metavar="NAME",
    help="The Lease by which replicas elect their leader.",
)
@click.option(
    "--lease-namespace",
    default="vcjob-system",
    show_default=True,
    metavar="NAME",
    help="The controller's own namespace, with its Lease, Service and Secret.",
)
@click.option(
    "--webhook/--no-webhook",
    default=True,
    show_default=True,
    help="Serve the admission webhook.",
)
@click.option(
    "--host", default="", metavar="ADDRESS", help="Listen on this address only.  [default: every address]"
)
@click.option(
    "--webhook-port", type=_PORT, default=8443, show_default=True, help="HTTPS port of the admission webhook."
)
@click.option(
    "--health-port", type=_PORT, default=8080, show_default=True, help="HTTP port of /healthz and /readyz."
)
@click.option("--metrics-port", type=_PORT, default=8081, show_default=True, help="HTTP port of /metrics.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe log lines to write.",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="Format of the log lines on standard error.",
)
@click.option("--profile", metavar="FILE", help="Write a CPU profile (for pstats) to this file on exit.")
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    gang: str,
    scheduler: str | None,
    volcano_namespace: str,
    beside_volcano: bool,
    failure_logs: bool,
    workers: int,
    lease_name: str,
    lease_namespace: str,
    webhook: bool,
    host: str,
    webhook_port: int,
    health_port: int,
    metrics_port: int,
    log_level: str,
    log_format: str,
    profile: str | None,
) -> None:
    """Run the controller for the Jobs of a cluster, and the webhook that checks them.

    `vcjob install` runs this in the cluster. Any number of replicas may run: one of them leads, all of them serve the
    webhook. SIGTERM ends it gracefully.
    """
    from vcjob.cluster.process.main import run

    options = {
        "namespaces": namespaces or None,
        "gang": gang,
        "scheduler": scheduler,
        "volcano_namespace": volcano_namespace,
        "beside_volcano": beside_volcano,
        "failure_logs": failure_logs,
        "workers": workers,
        "lease_name": lease_name,
        "lease_namespace": lease_namespace,
        "webhook": webhook,
        "host": host,
        "webhook_port": webhook_port,
        "health_port": health_port,
        "metrics_port": metrics_port,
        "log_level": log_level,
        "log_json": log_format == "json",
        "profile": profile,
    }
    if code := run(kubeconfig, context, options):
        raise click.exceptions.Exit(code)
