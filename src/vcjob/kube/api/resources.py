"""Kinds of objects: their names, their URLs, and the Python types they are read into.

Used by everything that addresses objects. Nothing here sends a request.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from vcjob.kube.errors import InvalidResponse

Document = dict[str, Any]
T = TypeVar("T")
S = TypeVar("S")


@lru_cache(maxsize=1024)
def _collection(root: str, plural: str, namespace: str | None) -> str:
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{root}/{plural}"


class Resource(msgspec.Struct, Generic[T], frozen=True):
    """One kind of object as the API serves it, and the Python type it is read into. A bad name is a ValueError.

    Every verb of the client takes one. It builds URLs and manifests, and knows nothing about the content of objects.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    model: type[T]
    #: Lists and watches fetch the metadata alone, so that large objects of others cost nothing.
    metadata_only: bool = False

    def read_as(self, model: type[S]) -> Resource[S]:
        """The same resource, read into the caller's partial structs instead of plain dicts."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, model)

    def read_metadata_as(self, model: type[S]) -> Resource[S]:
        """The same resource, of which lists and watches return only the metadata."""
        return msgspec.structs.replace(self.read_as(model), metadata_only=True)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of one object, or of the collection (of all namespaces without `namespace`)."""
        path = _collection(self.root, self.plural, namespace if self.namespaced else None)
        if name is not None:
            if self.namespaced and not namespace:
                raise ValueError(f"{self.plural} are namespaced, but no namespace was given for {name!r}")
            if not name or name in (".", ".."):
                raise ValueError(f"not a valid name of {self.plural}: {name!r}")
            path += "/" + quote(name, safe=":")
        return f"{path}/{subresource}" if subresource else path

    def manifest(self, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
        """A manifest of this kind with name, namespace and the given fields."""
        metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}


def resource(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = True
) -> Resource[Document]:
    """A kind that is read into plain dicts."""
    return Resource(group, version, plural, kind, namespaced, Document)


PODS = resource("", "v1", "pods", "Pod")
SERVICES = resource("", "v1", "services", "Service")
CONFIG_MAPS = resource("", "v1", "configmaps", "ConfigMap")
SECRETS = resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = resource("", "v1", "serviceaccounts", "ServiceAccount")
PERSISTENT_VOLUME_CLAIMS = resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = resource("", "v1", "events", "Event")
NAMESPACES = resource("", "v1", "namespaces", "Namespace", namespaced=False)
NETWORK_POLICIES = resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
DEPLOYMENTS = resource("apps", "v1", "deployments", "Deployment")
POD_DISRUPTION_BUDGETS = resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
PRIORITY_CLASSES = resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS = resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
ACCESS_REVIEWS = resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

_KNOWN: dict[tuple[str, str], Resource[Document]] = {
    (found.api_version, found.kind): found
    for found in list(globals().values())
    if isinstance(found, Resource)
}


def known(api_version: str, kind: str) -> Resource[Document] | None:
    """The resource of a built-in kind; `Client.discover` finds others."""
    return _KNOWN.get((api_version, kind))


class _Served(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: list[str] = []


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


def kinds_in(api_version: str, body: bytes, verbs: frozenset[str] = frozenset()) -> list[Resource[Document]]:
    """The resources in a server's APIResourceList that support all of `verbs`, without subresources."""
    group, _, version = api_version.rpartition("/")
    try:
        served = msgspec.json.decode(body, type=_ServedList).resources
    except msgspec.MsgspecError as error:
        raise InvalidResponse(f"the list of kinds in {api_version} is invalid: {error}") from error
    return [
        resource(group, version, entry.name, entry.kind, namespaced=entry.namespaced)
        for entry in served
        if "/" not in entry.name and verbs.issubset(entry.verbs)
    ]
