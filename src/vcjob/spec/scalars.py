"""Values that are written as text: plain YAML scalars as kubectl reads them, base64, command lines, and `$(VAR)`.

kubectl turns YAML into JSON with YAML 1.1 words (`yes`, `off`, `y`) as booleans, without base-60 numbers
and without dates: `22:22` and `2026-11-15` stay text. A float with no fraction is written as an integer
in JSON, so `1e3` is 1000.
"""

from __future__ import annotations

import base64
import math
import re
import shlex

from vcjob.errors import UserError

Scalar = str | int | float | bool | None

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_INFINITY = (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")

WORDS: dict[str, Scalar] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
    **dict.fromkeys(_INFINITY, math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}

_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NATURAL = re.compile(r"[0-9]{1,10}")
# Longer digits than any number that fits 64 bits; int() of very long text is refused by Python itself.
_LONGEST_NUMBER = 400


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in WORDS:
        return WORDS[text]
    if text[0] in _NUMBER_STARTS:
        return number(text)
    return text


def number(text: str) -> Scalar:
    """`text` as a number if kubectl would take it for one, else the text itself."""
    digits = text if text[0] == "." else text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        return text
    if match := _INTEGER.fullmatch(digits):
        sign, hexadecimal, binary, octal, decimal = match.groups()
        if hexadecimal:
            value = int(hexadecimal, 16)
        elif binary:
            value = int(binary, 2)
        elif octal:
            value = int(octal, 8)
        else:
            value = int(decimal)
        return -value if sign == "-" else value
    if _FLOAT.fullmatch(digits):
        return whole(float(digits)) if math.isfinite(float(digits)) else text
    return text


def whole(value: float) -> int | float:
    """A float without a fraction as the integer that JSON would show."""
    return int(value) if value.is_integer() else value


def natural(text: str, limit: int = 2**31) -> int | None:
    """The number that `text` from outside writes in ASCII digits; None where it is not one or not below `limit`.

    Python's own tests of characters accept digits that `int` refuses, such as `²`."""
    return found if _NATURAL.fullmatch(text) and (found := int(text)) < limit else None


def key_text(value: str | int | float | bool) -> str:
    """A mapping's key as text, as JSON needs it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return value if isinstance(value, str) else str(value)


def base64_bytes(text: str | None) -> bytes:
    """The bytes of a value in a Secret's `data` or a ConfigMap's `binaryData`; ValueError where it is not base64."""
    return base64.b64decode((text or "").replace("\n", "").replace("\r", ""), validate=True)


def escape_references(text: str) -> str:
    """The text as a field in which Kubernetes replaces `$(VAR)` and reads `$$` as `$`; the program gets it unchanged."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def command_words(text: str, where: str, refusal: type[UserError] = UserError) -> list[str]:
    """The words of a command line, split as a shell does; `where` begins the message if that is impossible."""
    try:
        return shlex.split(text)
    except ValueError as error:
        open_quote = "quotation" in str(error)
        reason = "a quote is not closed" if open_quote else "nothing follows the last backslash"
        hint = "close it, or write `\\` before a quote that is a character of the command"
        raise refusal(f"{where}: {reason} in `{text}`", hint=hint if open_quote else None) from error
