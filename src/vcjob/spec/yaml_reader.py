"""Reads YAML text into documents, by one walk over the parser's events.

The walk makes data and positions together, and bounds depth, size and alias expansion: nothing is composed
first (the C composer overflows its stack on deeply nested brackets), and an alias is a bounded copy. So a file
can neither crash the process nor fill its memory, and no two parts of a Job share an object.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from vcjob.spec import scalars
from vcjob.spec.document import (
    MAX_DEPTH,
    MAX_INTEGER,
    MIN_INTEGER,
    Document,
    Mark,
    Places,
    bad_key,
    not_finite,
    too_deep,
    too_large,
)
from vcjob.spec.problem import Problem, error
from vcjob.spec.syntax import syntax_problem
from vcjob.spec.wording import show

MAX_NODES = 1_000_000
MAX_ALIASED_NODES = 100_000

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
# Characters that YAML does not allow; the parser would report them by a byte offset only.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Stop(Exception):
    """Reading cannot continue; the cause is already among the problems."""


def read_documents(text: str, name: str) -> list[Document]:
    """All documents of `text`. What is wrong with the text is in the `problems` of its document."""
    if found := _FORBIDDEN.search(text):
        return [Document(None, file=name, problems=[_control_character(text, found.start(), name)])]
    loader = _Loader(text)
    try:
        return _Walk(loader.get_event, name, text).stream()
    finally:
        loader.dispose()


class _Walk:
    """One walk over the events of a text: builds data and positions and counts what the limits bound."""

    def __init__(self, next_event: Any, name: str, text: str = "") -> None:
        self.next_event = next_event
        self.name = name
        self.text = text
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self.anchors: dict[str, tuple[Any, Places]] = {}
        self.open_anchors: set[str] = set()
        self.nodes = 0
        self.aliased = 0

    def stream(self) -> list[Document]:
        documents: list[Document] = []
        start: Mark | None = None
        try:
            while True:
                event = self.next_event()
                kind = type(event)
                if kind is StreamEndEvent:
                    break
                if kind is DocumentStartEvent:
                    self.anchors.clear()
                    event = self.next_event()
                    start = event.start_mark
                    data, places = self.node(event, 1)
                    documents.append(self._document(data, places, start))
                else:
                    assert kind in (StreamStartEvent, DocumentEndEvent)
        except _Stop:
            documents.append(self._document(None, None, start))
        except yaml.YAMLError as bad:
            self.problems.append(syntax_problem(bad, self.name, self.text))
            documents.append(self._document(None, None, start))
        return [document for document in documents if document.data is not None or document.problems]

    def _document(self, data: Any, places: Places, start: Mark | None) -> Document:
        document = Document(data, file=self.name, problems=self.problems, places=places, start=start)
        self.problems = []
        return document

    def node(self, event: Any, depth: int) -> tuple[Any, Places]:
        kind = type(event)
        if kind is ScalarEvent:
            value = event.value if event.implicit[1] else self.scalar(event)
            result: tuple[Any, Places] = (value, None)
        elif kind is AliasEvent:
            return self.alias(event, depth)
        else:
            if depth > MAX_DEPTH:
                self.stop(event, too_deep(tuple(self.path)))
            if event.anchor is not None:
                self.open_anchors.add(event.anchor)
            tag = event.tag
            if kind is MappingStartEvent:
                if tag is not None and tag not in ("!", _TAG + "map"):
                    self.add(event, self.unknown_tag(tag))
                result = self.mapping(depth + 1)
            else:
                if tag is not None and tag not in ("!", _TAG + "seq"):
                    self.add(event, self.unknown_tag(tag))
                result = self.sequence(depth + 1)
            self.nodes += len(result[0])
            if self.nodes > MAX_NODES:
                self.stop(
                    event,
                    error(tuple(self.path), f"the file has more than {MAX_NODES} values", "split the file"),
                )
        if event.anchor is not None:
            self.open_anchors.discard(event.anchor)
            self.anchors[event.anchor] = result
        return result

    def mapping(self, depth: int) -> tuple[dict[str, Any], Places]:
        data: dict[str, Any] = {}
        places: dict[str, tuple[Mark, Places]] = {}
        merges: list[tuple[Any, Any, Places]] = []
        next_event, path = self.next_event, self.path
        while True:
            event = next_event()
            if type(event) is MappingEndEvent:
                break
            mark = event.start_mark
            key = self.key(event, depth)
            value_event = next_event()
            if key == "<<" and type(event) is ScalarEvent and event.implicit[0]:
                value, inside = self.node(value_event, depth)
                merges.append((event, value, inside))
                continue
            if key is None:
                self.node(value_event, depth)
                continue
            path.append(key)
            if type(value_event) is ScalarEvent and value_event.implicit[1] and value_event.anchor is None:
                value, inside = value_event.value, None
            else:
                value, inside = self.node(value_event, depth)
            if key in data:
                first = places[key][0].line + 1
                self.add(
                    event,
                    error(
                        tuple(path),
                        f"`{show(key)}` is set twice; the first time on line {first}",
                        "remove one of them",
                    ),
                )
            else:
                data[key] = value
                places[key] = (mark, inside)
            path.pop()
        for event, value, inside in merges:
            self.merge(event, data, places, value, inside)
        return data, places

    def sequence(self, depth: int) -> tuple[list[Any], Places]:
        data: list[Any] = []
        places: list[tuple[Mark, Places]] = []
        next_event, path = self.next_event, self.path
        path.append(0)
        while True:
            event = next_event()
            if type(event) is SequenceEndEvent:
                break
            path[-1] = len(data)
            value, inside = self.node(event, depth)
            data.append(value)
            places.append((event.start_mark, inside))
        path.pop()
        return data, places

    def key(self, event: Any, depth: int) -> str | None:
        """A key as text; None, with a problem, where it cannot be a key."""
        if type(event) is ScalarEvent:
            value: Any = event.value if event.implicit[1] else self.scalar(event)
        else:
            value, _ = self.node(event, depth)
        if value is not None and value != "" and not isinstance(value, list | dict):
            return scalars.key_text(value)
        self.add(event, bad_key(tuple(self.path), value))
        return None

    def scalar(self, event: Any) -> scalars.Scalar:
        text: str = event.value
        if event.implicit[0]:
            return self.checked(event, scalars.plain(text))
        tag: str | None = event.tag
        if tag is None or tag in ("!", _TAG + "str"):
            return text
        wanted = _SCALAR_TAGS.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
        if wanted is None:
            self.add(event, self.unknown_tag(tag))
            return text
        value = scalars.plain(text)
        if type(value) not in wanted:
            short = tag.removeprefix(_TAG)
            self.add(
                event,
                error(
                    tuple(self.path), f"`{show(text)}` is tagged !!{short} but is not one", "remove the tag"
                ),
            )
            return None
        return self.checked(event, value)

    def checked(self, event: Any, value: scalars.Scalar) -> scalars.Scalar:
        if type(value) is int and not MIN_INTEGER <= value <= MAX_INTEGER:
            self.add(event, too_large(tuple(self.path)))
            return None
        if type(value) is float and not math.isfinite(value):
            self.add(event, not_finite(tuple(self.path)))
            return None
        return value

    def alias(self, event: Any, depth: int) -> tuple[Any, Places]:
        name = event.anchor
        if name in self.anchors and name not in self.open_anchors:
            value, places = self.anchors[name]
            return self.copied(event, value, depth), places
        if name in self.open_anchors:
            message, hint = f"the alias `*{name}` is used inside its own anchor", "write the values out"
        else:
            message, hint = (
                f"the alias `*{name}` has no anchor `&{name}` before it",
                "define the anchor first",
            )
        self.add(event, error(tuple(self.path), message, hint))
        return None, None

    def copied(self, event: Any, value: Any, depth: int) -> Any:
        self.aliased += 1
        if self.aliased > MAX_ALIASED_NODES:
            problem = error(
                tuple(self.path),
                f"the aliases of this file expand to more than {MAX_ALIASED_NODES} values",
                "write the values out, or use fewer aliases",
            )
            self.stop(event, problem)
        if isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                self.stop(event, too_deep(tuple(self.path)))
            if isinstance(value, dict):
                return {key: self.copied(event, item, depth + 1) for key, item in value.items()}
            return [self.copied(event, item, depth + 1) for item in value]
        return value

    def merge(self, event: Any, data: dict[str, Any], places: Any, value: Any, inside: Any) -> None:
        """`<<: *anchor`: keys that the mapping does not have itself; of several sources the first wins."""
        sources = list(zip(value, inside)) if isinstance(value, list) else [(value, (None, inside))]
        for source, (_, source_places) in sources:
            if not isinstance(source, dict):
                self.add(
                    event,
                    error(tuple(self.path), "`<<` can merge mappings only", "use an alias of a mapping"),
                )
                continue
            for key, item in source.items():
                if key not in data:
                    data[key] = item
                    places[key] = source_places[key]

    def unknown_tag(self, tag: str) -> Problem:
        shown = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
        return error(
            tuple(self.path),
            f"the YAML tag `{shown}` is not supported",
            "remove the tag",
        )

    def add(self, event: Any, problem: Problem) -> None:
        mark = event.start_mark
        self.problems.append(
            Problem(
                severity=problem.severity,
                where=problem.where,
                message=problem.message,
                hint=problem.hint,
                file=self.name,
                line=mark.line + 1,
                column=mark.column + 1,
            )
        )

    def stop(self, event: Any, problem: Problem) -> None:
        self.add(event, problem)
        raise _Stop


def _control_character(text: str, index: int, name: str) -> Problem:
    before = text[:index].split("\n")
    return Problem(
        severity="error",
        where=(),
        message=f"the character U+{ord(text[index]):04X} is not allowed in YAML",
        hint="remove it, or write it as an escape inside double quotes",
        file=name,
        line=len(before),
        column=len(before[-1]) + 1,
    )
