"""Metadata that every object has: name, namespace, uid, version.

Informers and watches read it through `MetadataReader`, from partial structs and from plain dicts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from vcjob.kube.api.resources import Document

Key = tuple[str, str]  # namespace ("" for cluster-scoped objects), name
T = TypeVar("T")


class Meta(msgspec.Struct, rename="camel", gc=False):
    """The metadata fields that a cached object must have; subclass it to read more.

    Informers need these fields to identify an object and to order its versions. Fields that are not named are not
    kept.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """An owner in an object's metadata.

    The owner is identified by its uid: another object can get the same name later.
    """

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class MetadataReader(Generic[T]):
    """Functions that read the metadata of one type.

    Chosen once per resource, so that informers and watches treat structs and plain dicts alike without a check per
    object.
    """

    __slots__ = ("key", "uid", "version")

    def __init__(self, kind: type[T]) -> None:
        self.key: Callable[[T], Key]
        self.uid: Callable[[T], str]
        self.version: Callable[[T], str]
        if kind is Document or kind is dict:
            self.key, self.uid, self.version = _dict_key, _dict_uid, _dict_version  # type: ignore[assignment]  # T is a dictionary here
        else:
            self.key = attrgetter("metadata.namespace", "metadata.name")
            self.uid = attrgetter("metadata.uid")
            self.version = attrgetter("metadata.resource_version")


def _dict_key(document: dict[str, Any]) -> Key:
    metadata = document["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _dict_uid(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("uid", ""))


def _dict_version(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("resourceVersion", ""))


def version_number(resource_version: str) -> int:
    """A resource version as a number: within one kind it grows with every write."""
    return int(resource_version) if resource_version.isdigit() else 0


def is_same_object(found: dict[str, Any], posted: dict[str, Any]) -> bool:
    """Whether the metadata `found` is that of the object we posted, which is not being deleted."""
    if found.get("deletionTimestamp"):
        return False
    owners = _owner_uids(posted.get("ownerReferences"))
    if not owners or _owner_uids(found.get("ownerReferences")) != owners:
        return False
    for part in ("labels", "annotations"):
        have, want = found.get(part) or {}, posted.get(part) or {}
        if any(have.get(key) != value for key, value in want.items()):
            return False
    return True


def _owner_uids(references: Iterable[dict[str, Any]] | None) -> set[str]:
    return {str(reference.get("uid")) for reference in references or ()}
