"""Plugin arguments in the syntax of Go's `flag` package, which is what users' YAML relies on.

`-x` is `--x`; a value follows `=` or is the next item; a bool stands alone or has `=value`; integers are
read in base 0; the last duplicate wins. Where Go silently ignores the rest (`--`, an item that is not a flag,
an unknown flag) or takes one flag as the value of another, a problem is reported at the item. Reading continues
after a problem, so that all of them are reported at once. The plugins call `parse_flags`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from vcjob.spec.problem import Problem, error, warning

Kind: TypeAlias = Literal["string", "int", "bool"]
Value: TypeAlias = str | int | bool

TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_MOST_DIGITS = len(str(INT_MAX))

_INT = re.compile(
    r"[+-]?(?:0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|0(?:_?[0-7])*|[1-9](?:_?[0-9])*)"
)
# Dashes and quotes that word processors and rendered web pages put in place of `-` and around values.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_PLAIN = str.maketrans(dict.fromkeys(_DASHES, "-"))
_SHOWN_WORDS = 10
_QUOTES = "\"'\u201c\u201d\u2018\u2019`"


class Flag(msgspec.Struct, frozen=True):
    """One argument of a plugin. `ours` marks an extension that Volcano does not know; `meaning` is for the
    documentation.

    The plugins list theirs in `FLAGS`, from which the parser, `vcjob explain` and the reference are made.
    """

    name: str
    kind: Kind
    default: Value
    ours: bool = False
    meaning: str = ""


class Flags:
    """The value of every flag, and the position in the list of each flag that was given.

    A flag with a bad value has its default and its position.
    """

    __slots__ = ("_values", "places")

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._values: dict[str, Value] = {flag.name: flag.default for flag in flags}
        self.places: dict[str, int] = {}

    def put(self, name: str, value: Value) -> None:
        self._values[name] = value

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int) and not isinstance(value, bool)
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def where(self, name: str) -> tuple[int, ...]:
        """The path of the item that set this flag, or of the list itself."""
        return (self.places[name],) if name in self.places else ()


def parse_int(text: str) -> int | None:
    """Go's `strconv.ParseInt(text, 0, 64)`; None where Go has an error."""
    if not _INT.fullmatch(text):
        return None
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").replace("_", "")
    if digits[0] == "0" and digits.isdigit():
        value = sign * int(digits, 8)
    elif digits.isdigit() and len(digits) > _MOST_DIGITS:
        return None  # Python itself refuses to read very long decimal numbers
    else:
        value = sign * int(digits, 0)
    return value if INT_MIN <= value <= INT_MAX else None


def parse_flags(flags: Sequence[Flag], arguments: Sequence[str]) -> tuple[Flags, list[Problem]]:
    """Read the list; `where` of every problem is `(index of the item,)`."""
    reader = _Reader(flags, arguments)
    while reader.position < len(arguments):
        reader.read_one()
    return reader.read, [*reader.problems, *reader.ours_before_volcanos()]


def flag_name(item: str) -> str | None:
    """The name in `-name`, `--name` or either with `=value`; None for what Go does not accept as a flag."""
    name = item.removeprefix("-").removeprefix("-").partition("=")[0]
    return name if item.startswith("-") and name and not name.startswith("-") else None


class _Reader:
    """Reads one list of arguments and collects its problems."""

    def __init__(self, flags: Sequence[Flag], arguments: Sequence[str]) -> None:
        self.known = {flag.name: flag for flag in flags}
        self.arguments = arguments
        self.position = 0
        self.read = Flags(flags)
        self.problems: list[Problem] = []
        #: The first position of each extension of vcjob: Volcano stops reading there.
        self.ours: dict[str, int] = {}

    def read_one(self) -> None:
        place = self.position
        self.position += 1
        item: str | None = self.arguments[place]
        if flag_name(self.arguments[place]) not in self.known:
            item = self._corrected(self.arguments[place], place)
        if item is not None:
            self._read_flag(item, place)

    def _read_flag(self, item: str, place: int) -> None:
        name, equals, value = item.removeprefix("-").removeprefix("-").partition("=")
        flag = self.known[name]
        self.read.places[name] = place
        if flag.ours:
            self.ours.setdefault(name, place)
        if not equals:
            if flag.kind == "bool":
                value = "true"
            elif self.position < len(self.arguments) and not self._is_flag(self.arguments[self.position]):
                value = self.arguments[self.position]
                self.position += 1
            else:
                self.problems.append(error((place,), f"`--{name}` needs a value", f"write --{name}=VALUE"))
                return
        parsed = _value(flag, value)
        if parsed is None:
            self.problems.append(_bad_value(flag, value, place))
        else:
            self.read.put(name, parsed)

    def _is_flag(self, item: str) -> bool:
        return flag_name(item) in self.known

    def _corrected(self, item: str, place: int) -> str | None:
        """Report an item that is not a known flag; return what was meant where that is certain."""
        plain = _plain(item)
        if plain.partition("=")[0] in self.known and "=" in plain:
            plain = f"--{plain}"
        if plain != item and self._is_flag(plain):
            what = (
                "it begins with a typographic dash instead of `-`"
                if _has_other_dash(item)
                else "a flag is written `--name`"
            )
            message = f"`{_shown(item)}` is not a flag: {what}"
            self.problems.append(error((place,), message, f"write {_shown(plain)}"))
            return plain
        self.problems.append(
            self._stray(item, place) if flag_name(item) is None else self._unknown(item, place)
        )
        return None

    def _stray(self, item: str, place: int) -> Problem:
        """An item at which Go silently stops reading, or which breaks its syntax."""
        if item == "--":
            return error(
                (place,), "`--` ends the arguments, and Volcano ignores everything after it", "remove it"
            )
        if len(item) > 1 and item.startswith("-"):
            return error(
                (place,), f"`{_shown(item)}` is not a flag: no name follows the dashes", "write --name=value"
            )
        before = self.arguments[place - 1] if place else ""
        flag = self.known.get(flag_name(before) or "")
        if flag is not None and flag.kind == "bool" and "=" not in before and item in TRUE | FALSE:
            hint = f"write --{flag.name}={item} as one item"
        else:
            hint = "write each argument as one item: --name=value"
        return error(
            (place,), f"`{_shown(item)}` is not a flag, and Volcano ignores everything from here on", hint
        )

    def _unknown(self, item: str, place: int) -> Problem:
        from vcjob.spec.spelling import nearest

        words = item.split()
        if len(words) > 1 and self._is_flag(words[0]):
            return error((place,), f"`{_shown(item)}` contains more than one argument", _one_item_each(words))
        name = flag_name(item) or ""
        near = nearest(name.translate(_PLAIN), self.known)
        known = ", ".join(f"--{one}" for one in self.known)
        return error(
            (place,),
            f"there is no argument `--{_shown(name)}`",
            f"did you mean --{near}?" if near else f"the arguments are {known}",
        )

    def ours_before_volcanos(self) -> list[Problem]:
        """Volcano stops at a flag that it does not know, so the extensions must come after all of its own flags."""
        last = max(
            (place for name, place in self.read.places.items() if not self.known[name].ours), default=-1
        )
        return [
            warning(
                (place,),
                f"`--{name}` is an extension of vcjob: Volcano stops reading here and ignores the arguments after it",
                f"move --{name} to the end of the list",
            )
            for name, place in self.ours.items()
            if place < last
        ]


def _value(flag: Flag, text: str) -> Value | None:
    if flag.kind == "int":
        return parse_int(text)
    if flag.kind == "bool":
        return True if text in TRUE else False if text in FALSE else None
    return text


def _bad_value(flag: Flag, text: str, place: int) -> Problem:
    words = text.split()
    if any(word.startswith("-") for word in words[1:]):
        first = f"--{flag.name}={words[0]}"
        return error(
            (place,), f"`--{flag.name}` contains more than one argument", _one_item_each([first, *words[1:]])
        )
    stripped = text.strip(_QUOTES + " \t\r\n")
    if flag.kind == "bool":
        right = stripped if _value(flag, stripped) is not None else "true"
        return error(
            (place,),
            f"the value of `--{flag.name}` must be true or false, not `{_shown(text)}`",
            f"write --{flag.name}={right}",
        )
    right = stripped if _value(flag, stripped) is not None else str(flag.default)
    reason = "does not fit into 64 bits" if _INT.fullmatch(text) else "is not a whole number"
    return error((place,), f"`--{flag.name}`: `{_shown(text)}` {reason}", f"write --{flag.name}={right}")


def _one_item_each(words: Sequence[str]) -> str:
    shown = ", ".join(f'"{_shown(word)}"' for word in words[:_SHOWN_WORDS])
    return f"write one list item for each: {shown}{', ...' if len(words) > _SHOWN_WORDS else ''}"


def _plain(item: str) -> str:
    """The item with plain dashes, and without quotes and spaces around it."""
    item = item.strip(_QUOTES + " \t\r\n")
    if not item or item[0] not in _DASHES + "-":
        return item
    name, equals, value = item.lstrip(_DASHES + "-").partition("=")
    return f"--{name.rstrip().translate(_PLAIN)}{equals}{value.lstrip()}"


def _has_other_dash(item: str) -> bool:
    return any(letter in _DASHES for letter in item.partition("=")[0])


def _shown(text: str) -> str:
    from vcjob.spec.wording import show

    return show(text)
