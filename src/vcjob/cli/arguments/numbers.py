"""Types for numbers in options, with messages that need no knowledge of click.

Verbs use them as the `type` of an option. A value outside of the range, NaN included, is a usage error that names the
range.
"""

from __future__ import annotations

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within a range; the help shows the range.

    The `type` of an option. Anything else is a usage error in plain words.
    """

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return _within(self, number, param, ctx)


class Number(click.FloatRange):
    """A number within a range; the help shows the range.

    The `type` of an option. NaN is in no range.
    """

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return _within(self, number, param, ctx)


def _within(
    limits: click.IntRange | click.FloatRange,
    number: float,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> float:
    least, most = limits.min, limits.max
    # Not `number < least`: NaN is in no range.
    if not ((least is None or number >= least) and (most is None or number <= most)):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        limits.fail(f"it is {number}, and it must be {allowed}.", param, ctx)
    return number
