"""Translates errors of an API server for a user of the command line: what was refused, why, and what to do.

Used by everything in `client`. The server's own message is always kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from vcjob.cluster.resources import COMMANDS, JOBS
from vcjob.errors import BackendError, Denied, UserError
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, Unauthorized

_VOLCANO_PATHS = (f"/apis/{JOBS.group}/", f"/apis/{COMMANDS.group}/")
_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')


@contextmanager
def translate_api_errors(config: ClusterConfig, doing: str, namespace: str | None = None) -> Iterator[None]:
    """Raise an `ApiError` inside the block as an error for the user; `doing` completes "you may not"."""
    try:
        yield
    except ApiError as error:
        raise translate(error, config, doing, namespace) from error


def translate(
    error: ApiError, config: ClusterConfig, doing: str, namespace: str | None
) -> BackendError | UserError:
    cluster = f"the cluster {config.server}" + (f" (context {config.context!r})" if config.context else "")
    said = error.server_message or error.reason
    if isinstance(error, Unauthorized):
        return BackendError(
            f"{cluster} does not accept your credentials: {said}",
            hint="they may have expired: log in again, or check the user in the kubeconfig",
        )
    if "denied the request" in said or isinstance(error, Invalid):
        return UserError(f"the cluster refuses to {doing}: {said}")
    if isinstance(error, Forbidden):
        where = f" in the namespace {namespace!r}" if namespace else ""
        return Denied(
            f"you may not {doing}{where}: {said}",
            hint="request that right from an administrator of the cluster; `kubectl auth can-i --list` shows yours",
        )
    if isinstance(error, NotFound):
        if error.details.get("kind") == "namespaces":
            return UserError(
                f"the cluster has no namespace {namespace!r}",
                hint="choose another with -n, or create it: `kubectl create namespace NAME`",
            )
        if error.path.startswith(_VOLCANO_PATHS) and not error.details.get("name"):
            return BackendError(
                f"{cluster} does not know Jobs of {JOBS.api_version}", hint="install them: `vcjob install`"
            )
    if isinstance(error, BadRequest) and (lost := _UNKNOWN_FIELD.findall(said)):
        fields = ", ".join(dict.fromkeys(lost))
        return BackendError(
            f"the definition of Jobs in {cluster} has no {fields}: the server would silently drop it",
            hint="remove it from the Job, or update the cluster's definition of Jobs: `vcjob install`",
        )
    if isinstance(error, BadRequest):
        return UserError(f"the cluster cannot {doing}: {said}")
    return BackendError(f"the cluster could not {doing}: {said} ({error.status})", hint=error.hint)
