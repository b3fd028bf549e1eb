"""`Finding`: one named cause of a pending, failed or hung job, with its evidence.

Rules make findings from an `Observation`; `vcjob why`, the summary of a run, events and the SDK show them.
The JSON form of a finding is part of the public interface.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

#: high: the evidence names the cause; medium: the usual cause of what was seen; low: one of several.
Confidence: TypeAlias = Literal["high", "medium", "low"]
_ORDER = {"high": 0, "medium": 1, "low": 2}


class Evidence(msgspec.Struct, frozen=True):
    """A quoted line and where it was found: "rank 1, stderr", "event FailedMount", "pod status".

    Part of a finding; the text is what a program or Kubernetes wrote, unchanged.
    """

    #: Where it was found: `rank 1, stderr`, `event FailedMount`, `pod status`.
    source: str
    #: What a program or Kubernetes wrote, unchanged.
    text: str


class Ranks(msgspec.Struct, frozen=True):
    """The ranks that a finding is about, by name ("rank 1", or the pod of a task without ranks).

    `first` failed or are stuck; `victims` ended or wait because of them.
    """

    #: Ranks that failed or are stuck.
    first: tuple[str, ...] = ()
    #: Ranks that ended or wait because of them.
    victims: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """`cause` is a stable word from `vcjob.wellknown.causes`; `message` is one sentence for users.

    Rules yield them, `diagnose` sorts them, and `Handle.why` returns them. Scripts read them with `vcjob why -o
    json`.
    """

    #: A word from the list of causes.
    cause: str
    #: One sentence for users.
    message: str
    #: The ranks that it is about, by name.
    ranks: Ranks = Ranks()
    #: The lines that show it.
    evidence: tuple[Evidence, ...] = ()
    #: What helps.
    hint: str = ""
    #: `high`: the evidence names the cause; `medium`: the usual cause of what was seen; `low`: one of
    #: several.
    confidence: Confidence = "medium"


def ranked(findings: list[Finding]) -> list[Finding]:
    """The most likely finding first; among equals the order of the rules. One finding per cause and message."""
    unique = {(finding.cause, finding.message): finding for finding in reversed(findings)}
    kept = [finding for finding in findings if unique[finding.cause, finding.message] is finding]
    return sorted(kept, key=lambda finding: _ORDER[finding.confidence])
