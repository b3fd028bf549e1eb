"""Reading the fields of an object of another system so that none is dropped silently.

The converters take the fields that they understand; `rest` reports every other one. Used by `pytorchjob` and `trainjob`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from vcjob.errors import UserError

NO_EQUIVALENT = "has no equivalent in a Volcano Job and was left out"
_CORRECT = "correct it in the original file"


class Note(NamedTuple):
    """A field of the original that was left out or means something else now.

    The converters collect them, and `vcjob convert` prints them.
    """

    path: str
    message: str


class Fields:
    """A mapping of the original and its path. A field is reported unless it is taken.

    The converters read PyTorchJobs and TrainJobs through it, so no field gets lost silently. UserError for a value of
    another type.
    """

    def __init__(self, value: Any, path: str, notes: list[Note]) -> None:
        self._values = dict(mapping_at(path, value))
        self.path = path
        self.notes = notes

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a field that the converter understands."""
        value = self._values.pop(name, None)
        return default if value is None else value

    def inner(self, name: str) -> Fields:
        return Fields(self._values.pop(name, None), f"{self.path}.{name}", self.notes)

    def renamed(self, *names: str) -> Fields:
        """The same, with these names for fields that are written in another case; the exact name wins."""
        for name in names:
            for other in [each for each in self._values if str(each).lower() == name.lower()]:
                if name not in self:
                    self._values[name] = self._values.pop(other)
        return self

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping that is kept as it is; empty where it is not set."""
        return mapping_at(f"{self.path}.{name}", self.take(name))

    def words(self, name: str) -> list[str]:
        """A list of texts, such as a command; empty where it is not set."""
        value = self.take(name, [])
        if not isinstance(value, list):
            raise UserError(f"{self.path}.{name} must be a list", hint=_CORRECT)
        return [str(word) for word in value]

    def note(self, name: str, message: str) -> None:
        self.notes.append(Note(f"{self.path}.{name}", message))

    def rest(self) -> None:
        """Report the fields that nothing has taken."""
        for name, value in self._values.items():
            if value is not None:
                self.note(name, NO_EQUIVALENT)


def mapping_at(path: str, value: Any) -> dict[str, Any]:
    """The mapping at this path of the original; empty where it is not set."""
    if value is not None and not isinstance(value, dict):
        raise UserError(f"{path} must be a mapping", hint=_CORRECT)
    return value or {}


def metadata_of(document: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """Name, namespace, labels and annotations; what a server has added is dropped."""
    metadata = Fields(document.get("metadata"), "metadata", notes)
    names = ("name", "generateName", "namespace", "labels", "annotations")
    return {name: metadata.take(name) for name in names if name in metadata}


def runs_torchrun(words: Iterable[object]) -> bool:
    """Whether a command starts torchrun, as far as its words show it."""
    return any("torchrun" in str(word) or "torch.distributed.run" in str(word) for word in words)


def note_processes(fields: Fields, name: str, nproc: object) -> None:
    """A number of processes for each pod, next to a command that does not start torchrun."""
    fields.note(
        name,
        f"`{nproc}` became --nproc-per-node={nproc}, which has an effect only where a pod runs torchrun; "
        "otherwise remove it, and the plugin sets LOCAL_RANK",
    )
