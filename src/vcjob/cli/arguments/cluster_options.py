"""Options shared by the verbs that operate a cluster: install, uninstall, controller and doctor.

They name a cluster and the namespaces of the controller and of Volcano. Verbs for jobs use `options` instead, where
the backend can be chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def cluster_options(function: Function) -> Function:
    """`--kubeconfig` and `--context`, as kubectl has them."""
    context = click.option("--context", metavar="NAME", help="The context of the kubeconfig to use.")
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig.  [default: $KUBECONFIG, ~/.kube/config, the pod's own account]",
    )
    return kubeconfig(context(function))


gang_option = click.option(
    "--gang",
    type=click.Choice(["auto", "none", "volcano", "coscheduling"]),
    default="auto",
    show_default=True,
    help="How a Job's pods are scheduled as one group.",
)
volcano_namespace_option = click.option(
    "--volcano-namespace",
    default="volcano-system",
    show_default=True,
    metavar="NAME",
    help="The namespace of Volcano's own components.",
)
