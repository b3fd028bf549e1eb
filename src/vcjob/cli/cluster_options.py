"""Which cluster a verb speaks to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def cluster_options(function: Function) -> Function:
    """`--kubeconfig` and `--context`, as kubectl has them."""
    context = click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig.  [default: $KUBECONFIG, ~/.kube/config, the pod's own account]",
    )
    return kubeconfig(context(function))
