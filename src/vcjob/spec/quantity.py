"""Kubernetes quantities such as `500m`, `2Gi` and `1e3`: exact, and formatted the way Kubernetes does.

Used by the checks of a Job, by the plan for sums of resources, and by the local backend for limits. Text that is no
quantity raises ValueError with a message for the user.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

NANO = 1_000_000_000
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_NAMES = ("", *_BINARY)
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_TEXT = re.compile(r"([-+]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([-+]?[0-9]+))?")
_LARGEST = (2**63 - 1) * NANO
# Longer texts and larger exponents cannot be a valid amount; parsing them would only cost time.
_LONGEST_TEXT = 200
_LARGEST_EXPONENT = 60

Format = Literal["decimal", "binary", "exponent"]


class Quantity(msgspec.Struct, frozen=True):
    """An amount in billionths, and the family of suffixes it was written with.

    `parse` makes it. Sums and products are exact and keep the family of the first amount, as in Kubernetes.
    """

    nano: int
    format: Format = "decimal"

    @property
    def value(self) -> int:
        """Whole units, rounded up."""
        return -(-self.nano // NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // 1_000_000)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nano * times, self.format)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        if self.format == "binary" and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            whole, steps = _shortened(self.nano // NANO, 1024, len(_BINARY_NAMES) - 1)
            return f"{whole}{_BINARY_NAMES[steps]}"
        whole, steps = _shortened(self.nano, 1000, 9)
        power = 3 * steps - 9
        if self.format == "exponent":
            return f"{whole}e{power}" if power else str(whole)
        return f"{whole}{_DECIMAL_NAMES[power]}"


def parse(value: str | int | float) -> Quantity:
    """A quantity from a manifest; ValueError says what is wrong."""
    text = value if isinstance(value, str) else str(value)
    match = _TEXT.fullmatch(text)
    if match is None or len(text) > _LONGEST_TEXT:
        raise ValueError(f"`{text[:60]}` is not a quantity")
    sign, amount, binary, decimal, exponent = match.groups()
    whole, _, fraction = amount.partition(".")
    # digits × 10^power × 1024^k, in billionths
    power = 9 - len(fraction)
    numerator = int(whole + fraction)
    form: Format = "decimal"
    if binary:
        form, numerator = "binary", numerator * 1024 ** _BINARY[binary]
    elif exponent:
        form = "exponent"
        power += max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, int(exponent)))
    else:
        power += _DECIMAL[decimal or ""]
    nano = numerator * 10**power if power >= 0 else -(-numerator // 10**-power)
    nano = min(nano, _LARGEST)
    return Quantity(-nano if sign == "-" else nano, form)


def _shortened(number: int, base: int, most: int) -> tuple[int, int]:
    """`number` without its factors of `base`, and how many there were (at most `most`)."""
    steps = 0
    while steps < most and number % base == 0:
        number //= base
        steps += 1
    return number, steps
