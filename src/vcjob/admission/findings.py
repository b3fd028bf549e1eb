"""The problems of one Job as the checks find them, kept to a bounded number.

`admit()` fills it from check to check and asks it for the list that callers get. Errors end the collection
at `MAX_ERRORS`: the Job is refused anyway. Warnings never do, because an error may still follow.
"""

from __future__ import annotations

from collections.abc import Iterable

from vcjob.admission.limits import MAX_ERRORS, MAX_PROBLEMS
from vcjob.spec.document import Document
from vcjob.spec.problem import Problem, error, warning


class Findings:
    """Errors and warnings in the order in which they were found; not `complete` where checking was cut short.

    `admission.review` collects the problems of one document in it. It bounds their number, so that a hostile document
    costs little.
    """

    __slots__ = ("complete", "errors", "warnings", "warnings_left_out")

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self.warnings_left_out = 0
        self.complete = True

    def add(self, problems: Iterable[Problem]) -> None:
        """Take problems until there are too many errors; a generator is not asked for more than that."""
        if len(self.errors) >= MAX_ERRORS:
            return
        for problem in problems:
            if problem.severity == "error":
                self.errors.append(problem)
                if len(self.errors) >= MAX_ERRORS:
                    self.complete = False
                    return
            elif len(self.warnings) < MAX_ERRORS:
                self.warnings.append(problem)
            else:
                self.warnings_left_out += 1

    def shown(self, document: Document) -> list[Problem]:
        """At most MAX_PROBLEMS with their places, in the order of the file, errors before warnings where
        not all fit; the last one then says how many more there are."""
        if not self.errors and not self.warnings and self.complete:
            return []
        errors, warnings = document.locate(self.errors), document.locate(self.warnings)
        kept = [*errors, *warnings][:MAX_PROBLEMS]
        more = len(errors) + len(warnings) + self.warnings_left_out - len(kept)
        located = document.locate(kept)
        if more:
            message = f"and {'' if self.complete else 'at least '}{more} more {'problem' if more == 1 else 'problems'}"
        elif not self.complete:
            message = "the rest of the Job was not checked, because it is too large to list all problems"
        else:
            return located
        summary = warning if self.complete and len(errors) <= MAX_PROBLEMS else error
        return [*located, summary((), message, "fix the problems above first, then check again")]
