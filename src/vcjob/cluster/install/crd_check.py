"""The definitions that a cluster serves: are they ours, and do they know every field that a Job may have?"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.structural import fields
from vcjob.cluster.install.settings import MANAGED_BY, REPLACED
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Document
from vcjob.kube.errors import NotFound

Whose: TypeAlias = Literal["nobody", "ours", "theirs"]

#: Fields of vcjob's own, which no definition of Volcano's has.
EXTENSIONS = frozenset({"suspend", "activeDeadlineSeconds"})
#: What lies below is Kubernetes' own, in many versions.
_NOT_BELOW = frozenset({"template", "volumeClaim"})
_NAMED = 6


class Served(msgspec.Struct, frozen=True):
    """One definition as the cluster has it."""

    name: str
    whose: Whose
    #: Fields of a Job's spec that it would drop in silence.
    lacking: tuple[str, ...] = ()

    @property
    def lacking_of_volcano(self) -> tuple[str, ...]:
        return tuple(field for field in self.lacking if field not in EXTENSIONS)


async def look(client: Client, name: str) -> Served:
    try:
        return judge(name, await client.get(CUSTOM_RESOURCE_DEFINITIONS, name))
    except NotFound:
        return Served(name, "nobody")


def judge(name: str, found: Document) -> Served:
    metadata = found.get("metadata") or {}
    whose: Whose = "ours" if (metadata.get("labels") or {}).get(MANAGED_BY) == "vcjob" else "theirs"
    if name != crds.JOBS:
        return Served(name, whose)
    wanted = fields(crds.job_spec(), stop=_NOT_BELOW)
    return Served(name, whose, tuple(sorted(wanted - _known(found))))


def was_replaced(found: Document) -> bool:
    """Whether it was somebody else's before it became ours."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(REPLACED) == "true"


def _known(found: Document) -> set[str]:
    for version in (found.get("spec") or {}).get("versions") or []:
        if version.get("name") == "v1alpha1":
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            spec = (schema.get("properties") or {}).get("spec") or {}
            return fields(spec, stop=_NOT_BELOW)
    return set()


def refuse_if_poor(served: Served) -> None:
    """Raise where the cluster's definition of Jobs lacks fields of Volcano's own Job."""
    missing = served.lacking_of_volcano
    if missing:
        raise BackendError(
            f"the definition {served.name} is not ours and lacks {_some(missing)}: "
            "the API server would drop these fields in silence",
            hint="update Volcano's definitions, or let ours take their place (they know all that Volcano's "
            "do): `vcjob install --replace-crds`",
        )


async def check_served(client: Client) -> list[str]:
    """What a user should know about the definition of Jobs that is served now."""
    served = await look(client, crds.JOBS)
    if served.whose == "nobody":
        return [f"the definition {crds.JOBS} is not there: `vcjob install` makes it"]
    return notes_on(served)


def notes_on(served: Served) -> list[str]:
    if not served.lacking:
        return []
    return [
        f"the definition {served.name} lacks {_some(served.lacking)}: Jobs that use them are refused by "
        "vcjob's own client and lose them by kubectl; `vcjob install --replace-crds` adds them"
    ]


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"spec.{name}" for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
