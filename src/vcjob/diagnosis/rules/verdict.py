"""`Verdict`: what a matcher says about one failed rank. `failure` turns it into a finding.

A matcher gets a `Suspect` and returns None if it does not know the cause, so that the next one is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from vcjob.diagnosis.finding import Confidence
from vcjob.diagnosis.suspect import Suspect


class Verdict(NamedTuple):
    """The cause of one rank's failure. `what` completes the sentence "rank 1 …".

    A matcher returns it; `failure` adds the ranks and the evidence.
    """

    cause: str
    what: str
    hint: str = ""
    confidence: Confidence = "high"


Matcher: TypeAlias = Callable[[Suspect], Verdict | None]
