"""Label selectors as kubectl takes them with `-l`: `team=vision,tier!=test,gpu,!old`.

A selector is parsed once and then applied to the labels of each job. Set-based selectors (`in`, `notin`) are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from vcjob.errors import UserError

_TERM = re.compile(r"(?P<not>!)?(?P<key>[\w./-]+)(?:\s*(?P<operator>==|=|!=)\s*(?P<value>[\w.-]*))?")

Selector = Callable[[Mapping[str, str]], bool]


def label_selector(text: str) -> Selector:
    """A test of an object's labels; UserError where the text is no selector."""
    terms = [_term(part.strip()) for part in text.split(",")]
    return lambda labels: all(term(labels) for term in terms)


def _term(text: str) -> Selector:
    match = _TERM.fullmatch(text)
    if match is None or (match["not"] and match["operator"]):
        raise UserError(f"`{text}` is not a label selector", hint="write KEY=VALUE, KEY!=VALUE, KEY or !KEY")
    key, value = match["key"], match["value"]
    if match["operator"] is None:
        return lambda labels: (key in labels) is not bool(match["not"])
    if match["operator"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value
