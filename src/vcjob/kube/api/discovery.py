"""Finds every kind of object that a namespace can contain, by asking the server. Used before a namespace is deleted.

One request per version of every group. Raises the ApiError of the first group that does not answer: what it serves is
unknown then. `Client.discover` finds the resource of one kind.
"""

from __future__ import annotations

import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Document, Resource, kinds_in
from vcjob.kube.errors import InvalidResponse, NotFound

#: A group of another server may be down for long.
_RETRY_SECONDS = 3.0
_DELETABLE = frozenset({"list", "delete"})


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    groups: list[_Group] = []


async def deletable_kinds(client: Client) -> list[Resource[Document]]:
    """The namespaced kinds whose objects a user can list and delete, each in one of its versions."""
    try:
        groups = msgspec.json.decode(await client.raw("/apis"), type=_GroupList).groups
    except msgspec.MsgspecError as error:
        raise InvalidResponse(f"the server's list of API groups is invalid: {error}") from error
    found: dict[tuple[str, str], Resource[Document]] = {}
    for version in ["v1", *(each.group_version for group in groups for each in group.versions)]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            served = kinds_in(version, await client.raw(root, retry_seconds=_RETRY_SECONDS), _DELETABLE)
        except NotFound:
            continue  # its definition was deleted after the groups were listed
        for kind in served:
            if kind.namespaced:
                found.setdefault((kind.group, kind.plural), kind)
    return list(found.values())
