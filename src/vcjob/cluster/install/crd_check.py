"""Checks the CustomResourceDefinitions that a cluster serves: who owns them, and which fields of a Job they lack.

Used by install, by doctor and by the controller's start. Raises `BackendError` only in
`refuse_if_fields_are_missing`; everything else is for the caller to report.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.structural import fields
from vcjob.cluster.install.ownership import find, is_ours
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Document
from vcjob.wellknown.annotations import REPLACED

Owner: TypeAlias = Literal["nobody", "vcjob", "other"]

#: Fields of vcjob's own, which no definition of Volcano's has.
EXTENSIONS = frozenset({"suspend", "activeDeadlineSeconds"})
#: Below these fields are Kubernetes' own types, which differ between versions.
_NOT_BELOW = frozenset({"template", "volumeClaim"})
_SHOWN = 6


class ServedDefinition(msgspec.Struct, frozen=True):
    """One definition as the cluster has it; owner "nobody" where it does not exist."""

    name: str
    owner: Owner
    #: Fields of a Job's spec that the API server would silently drop.
    missing: tuple[str, ...] = ()

    @property
    def missing_of_volcano(self) -> tuple[str, ...]:
        return tuple(field for field in self.missing if field not in EXTENSIONS)


async def read(client: Client, name: str) -> ServedDefinition:
    found = await find(client, CUSTOM_RESOURCE_DEFINITIONS, name)
    return ServedDefinition(name, "nobody") if found is None else check(name, found)


def check(name: str, found: Document) -> ServedDefinition:
    owner: Owner = "vcjob" if is_ours(found) else "other"
    if name != crds.JOBS:
        return ServedDefinition(name, owner)
    wanted = fields(crds.job_spec(), stop=_NOT_BELOW)
    return ServedDefinition(name, owner, tuple(sorted(wanted - _known_fields(found))))


def was_replaced(found: Document) -> bool:
    """Whether `--replace-crds` put our definition in the place of somebody else's."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(REPLACED) == "true"


def _known_fields(found: Document) -> set[str]:
    for version in (found.get("spec") or {}).get("versions") or []:
        if version.get("name") == "v1alpha1":
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            spec = (schema.get("properties") or {}).get("spec") or {}
            return fields(spec, stop=_NOT_BELOW)
    return set()


def refuse_if_fields_are_missing(definition: ServedDefinition) -> None:
    """Raise where the cluster's definition of Jobs lacks fields of Volcano's own Job."""
    missing = definition.missing_of_volcano
    if missing:
        raise BackendError(
            f"the definition {definition.name} is not vcjob's and lacks {_listed(missing)}: "
            "the API server would silently drop these fields",
            hint="update Volcano's definitions, or replace them by vcjob's, which have all fields of Volcano's: "
            "`vcjob install --replace-crds`",
        )


async def check_served(client: Client) -> list[str]:
    """Warnings about the definition of Jobs that is served now."""
    definition = await read(client, crds.JOBS)
    if definition.owner == "nobody":
        return [f"the definition {crds.JOBS} does not exist: `vcjob install` creates it"]
    return warnings_about(definition)


def warnings_about(definition: ServedDefinition) -> list[str]:
    if not definition.missing:
        return []
    return [
        f"the definition {definition.name} lacks {_listed(definition.missing)}: vcjob refuses Jobs that use these "
        "fields, and kubectl silently loses them; `vcjob install --replace-crds` adds them"
    ]


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"spec.{name}" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
