"""Which objects of a cluster belong to a vcjob installation, and who manages that installation.

`vcjob install` labels its objects as managed by vcjob; Helm replaces that label by its own and keeps `part-of`. What
has neither label belongs to somebody else and is never changed. Used by install, uninstall and doctor.
"""

from __future__ import annotations

from vcjob.cluster.install.settings import MANAGED_BY, NAME, PART_OF
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CLUSTER_ROLE_BINDINGS, Document, Resource
from vcjob.kube.errors import NotFound

_RELEASE, _RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


def is_ours(found: Document) -> bool:
    """Whether `vcjob install` made it."""
    return _labels(found).get(MANAGED_BY) == "vcjob"


def is_part_of_vcjob(found: Document) -> bool:
    """Whether `vcjob install` or the Helm chart made it."""
    return _labels(found).get(PART_OF) == "vcjob"


async def find(
    client: Client, resource: Resource[Document], name: str, namespace: str | None = None
) -> Document | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


async def refuse_if_helm_manages_it(client: Client, verb: str) -> None:
    """Raise where the installation is a Helm release; `verb` is the one of helm that does it instead."""
    binding = await find(client, CLUSTER_ROLE_BINDINGS, NAME)
    if binding is None or _labels(binding).get(MANAGED_BY) != "Helm":
        return
    annotations = binding["metadata"].get("annotations") or {}
    release = annotations.get(_RELEASE, "RELEASE")
    namespace = annotations.get(_RELEASE_NAMESPACE, "NAMESPACE")
    raise BackendError(
        f"vcjob was installed by Helm (release {release} in namespace {namespace}), so nothing was changed",
        hint=f"use `helm {verb} {release} --namespace {namespace}`"
        + ("; afterwards `vcjob uninstall` removes the definitions too" if verb == "uninstall" else ""),
    )


async def refuse_other_namespace(client: Client, namespace: str, verb: str) -> None:
    """Raise where vcjob is installed in another namespace: a cluster has at most one installation."""
    installed = await installed_namespace(client)
    if installed is not None and installed != namespace:
        raise BackendError(
            f"vcjob is already installed in namespace {installed}, and a cluster has one installation",
            hint=f"`vcjob {verb} --namespace {installed}`",
        )


async def installed_namespace(client: Client) -> str | None:
    """The namespace of the controller's account; None where vcjob is not installed."""
    binding = await find(client, CLUSTER_ROLE_BINDINGS, NAME)
    if binding is None or not is_part_of_vcjob(binding):
        return None
    for subject in binding.get("subjects") or []:
        if found := subject.get("namespace"):
            return str(found)
    return None


def _labels(found: Document) -> dict[str, str]:
    labels: dict[str, str] = (found.get("metadata") or {}).get("labels") or {}
    return labels
