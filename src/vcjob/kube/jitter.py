"""Spreads what many clients would otherwise do at the same moment."""

from __future__ import annotations

import random


def jittered(seconds: float, least: float, most: float) -> float:
    """`seconds`, times something at random from `least` to `most`."""
    return seconds * random.uniform(least, most)  # noqa: S311 - who guesses it learns when we call, and no secret
