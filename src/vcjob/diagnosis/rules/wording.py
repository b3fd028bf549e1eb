"""Lists of names in a sentence, for the messages of the rules.

The number of names is bounded, because a job may have thousands of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 8


def joined(names: Sequence[str]) -> str:
    """`a, b and c`; of many names the first eight and how many more there are."""
    shown = list(names[:_SHOWN]) + ([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
