"""What an installation wants to have in a cluster, next to what the cluster has now.

`apply` builds it before it writes anything. Raises `BackendError` where an object of one of our names belongs to
somebody else, or a definition lacks fields that a Job needs.
"""

from __future__ import annotations

import msgspec

from vcjob.cluster.install.crd_check import check, refuse_if_fields_are_missing, warnings_about, was_replaced
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.objects.workload import namespace as namespace_manifest
from vcjob.cluster.install.ownership import find, is_ours
from vcjob.cluster.install.settings import MANAGED_BY, Settings
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Document, Resource, known
from vcjob.wellknown.annotations import REPLACED


class Intended(msgspec.Struct, frozen=True):
    """One object as it should be (`body`) and as it is (`found`).

    Everything is looked up before anything is written, so that conflicts are known beforehand. `keep`: it is left as
    it is.
    """

    resource: Resource[Document]
    body: Document
    found: Document | None
    #: It belongs to somebody else and may stay as it is.
    keep: bool = False
    #: Take over fields that another manager owns.
    force: bool = False

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        found: str | None = self.body["metadata"].get("namespace")
        return found

    def forced(self) -> Intended:
        return msgspec.structs.replace(self, force=True)


async def intended_definitions(client: Client, *, replace: bool) -> tuple[list[Intended], list[str]]:
    """The CustomResourceDefinitions, and warnings about those of somebody else that are kept."""
    intended: list[Intended] = []
    warnings: list[str] = []
    for body in crds.definitions():
        name = body["metadata"]["name"]
        found = await find(client, CUSTOM_RESOURCE_DEFINITIONS, name)
        definition = check(name, found) if found else None
        foreign = definition is not None and definition.owner == "other"
        if definition is not None and foreign and not replace:
            refuse_if_fields_are_missing(definition)
            warnings += warnings_about(definition)
        if found and (foreign or was_replaced(found)):
            body["metadata"]["annotations"] = {REPLACED: "true"}
        intended.append(
            Intended(
                CUSTOM_RESOURCE_DEFINITIONS,
                body,
                found,
                keep=foreign and not replace,
                force=foreign and replace,
            )
        )
    return intended, warnings


async def intended_objects(client: Client, settings: Settings) -> list[Intended]:
    """The namespace and everything in it, and what belongs to no namespace but the definitions."""
    found = await find(client, NAMESPACES, settings.namespace)
    # A namespace that an administrator has made is the administrator's.
    keep = found is not None and not is_ours(found)
    intended = [Intended(NAMESPACES, namespace_manifest(settings), found, keep=keep)]
    for name in settings.namespaces:
        if await find(client, NAMESPACES, name) is None:
            raise BackendError(
                f"there is no namespace {name} to serve", hint=f"`kubectl create namespace {name}`"
            )
    for body in controller_objects(settings):
        resource = known(body["apiVersion"], body["kind"])
        assert resource is not None
        each = Intended(resource, body, None)
        found = await find(client, resource, each.name, each.namespace)
        if found is not None and not is_ours(found):
            raise BackendError(
                f"{resource.kind} {each.name} already exists and was not made by `vcjob install`, so nothing was changed",
                hint="rename or delete it, or label it "
                f"{MANAGED_BY}=vcjob if it may become part of the installation",
            )
        intended.append(msgspec.structs.replace(each, found=found))
    return intended
