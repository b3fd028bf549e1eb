"""One check of `vcjob doctor` and its result.

The doctors of both backends return these, and `vcjob doctor` prints them: its exit code depends on `missing`. They
are plain data.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

#: ok: as it should be; note: works, but know this; missing: does not work.
Standing: TypeAlias = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True):
    """The result of one check of `vcjob doctor`: its topic, how it stands, one sentence, and what to do.

    Made with `ok`, `note` and `missing`; `vcjob doctor -o json` prints its fields.
    """

    #: What was checked.
    topic: str
    #: `ok`: as it should be; `note`: works, but know this; `missing`: does not work.
    standing: Standing
    #: The result as one sentence.
    message: str
    #: What to do.
    hint: str | None = None


def ok(topic: str, message: str) -> Check:
    return Check(topic, "ok", message)


def note(topic: str, message: str, hint: str | None = None) -> Check:
    return Check(topic, "note", message, hint)


def missing(topic: str, message: str, hint: str | None = None) -> Check:
    return Check(topic, "missing", message, hint)
