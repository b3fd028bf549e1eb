"""Plugin arguments in the syntax of Go's `flag` package, which is what users' YAML relies on.

`-x` is `--x`; a value follows `=` or is the next item; a bool stands alone or has `=value`; integers are
read in base 0; the last duplicate wins. Where Go stops in silence and drops what follows (`--`, an item
that is no flag, an unknown flag), or takes one flag as another's value, there is a problem here, at the
item's place. Reading goes on after a problem, so that one look shows them all.
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

_INT = re.compile(
    r"[+-]?(?:0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|0(?:_?[0-7])*|[1-9](?:_?[0-9])*)"
)
# What word processors and rendered web pages make of `-` and `--`, and the quotes they put around.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_PLAIN = str.maketrans(dict.fromkeys(_DASHES, "-"))
_QUOTES = "\"'\u201c\u201d\u2018\u2019`"


class Flag(msgspec.Struct, frozen=True):
    """One argument of a plugin. `ours` marks an extension that Volcano does not know."""

    name: str
    kind: Kind
    default: Value
    ours: bool = False


class Flags:
    """What was read: a value for every flag, and where each flag that was given stands in the list.

    A flag that was given with a bad value has its default here, and its place.
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
        """The item that gave this flag, or the list itself."""
        return (self.places[name],) if name in self.places else ()


def parse_int(text: str) -> int | None:
    """Go's `strconv.ParseInt(text, 0, 64)`; None where Go has an error."""
    if not _INT.fullmatch(text):
        return None
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").replace("_", "")
    if digits[0] == "0" and digits.isdigit():
        value = sign * int(digits, 8)
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
    """The name in `-name`, `--name` or either with `=value`; None for what is no flag to Go."""
    name = item.removeprefix("-").removeprefix("-").partition("=")[0]
    return name if item.startswith("-") and name and not name.startswith("-") else None


class _Reader:
    def __init__(self, flags: Sequence[Flag], arguments: Sequence[str]) -> None:
        self.known = {flag.name: flag for flag in flags}
        self.arguments = arguments
        self.position = 0
        self.read = Flags(flags)
        self.problems: list[Problem] = []
        #: Where an extension of ours stands first: there Volcano stops.
        self.ours: dict[str, int] = {}

    def read_one(self) -> None:
        place = self.position
        self.position += 1
        item: str | None = self.arguments[place]
        if flag_name(self.arguments[place]) not in self.known:
            item = self._mended(self.arguments[place], place)
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

    def _mended(self, item: str, place: int) -> str | None:
        """Reports an item that is none of the flags; returns what was meant where that is beyond doubt."""
        plain = _plain(item)
        if plain.partition("=")[0] in self.known and "=" in plain:
            plain = f"--{plain}"
        if plain != item and self._is_flag(plain):
            what = (
                "its dash is not the `-` of the keyboard"
                if _has_other_dash(item)
                else "it must be plain `--name`"
            )
            self.problems.append(error((place,), f"`{_shown(item)}` is no flag: {what}", f"write {plain}"))
            return plain
        self.problems.append(
            self._stray(item, place) if flag_name(item) is None else self._unknown(item, place)
        )
        return None

    def _stray(self, item: str, place: int) -> Problem:
        """An item at which Go stops reading without a word, or which breaks its syntax."""
        if item == "--":
            return error((place,), "`--` ends the arguments: Volcano reads nothing after it", "remove it")
        if len(item) > 1 and item.startswith("-"):
            return error(
                (place,), f"`{_shown(item)}` is no flag: no name follows the dashes", "write --name=value"
            )
        before = self.arguments[place - 1] if place else ""
        flag = self.known.get(flag_name(before) or "")
        if flag is not None and flag.kind == "bool" and "=" not in before and item in TRUE | FALSE:
            hint = f"write --{flag.name}={item} as one item"
        else:
            hint = "arguments are written --name=value, one item each"
        return error((place,), f"`{_shown(item)}` is no flag: Volcano reads nothing from here on", hint)

    def _unknown(self, item: str, place: int) -> Problem:
        from vcjob.spec.spelling import nearest

        words = item.split()
        if len(words) > 1 and self._is_flag(words[0]):
            return error((place,), f"`{_shown(item)}` holds more than one word", _one_item_each(words))
        name = flag_name(item) or ""
        near = nearest(name.translate(_PLAIN), self.known)
        known = ", ".join(f"--{one}" for one in self.known)
        return error(
            (place,),
            f"there is no argument `--{_shown(name)}`",
            f"did you mean --{near}?" if near else f"known: {known}",
        )

    def ours_before_volcanos(self) -> list[Problem]:
        """Volcano stops at a flag it does not know, so ours must stand behind all of its own."""
        last = max(
            (place for name, place in self.read.places.items() if not self.known[name].ours), default=-1
        )
        return [
            warning(
                (place,),
                f"`--{name}` is an extension of vcjob: Volcano stops reading here and ignores what follows",
                f"put --{name} last",
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
            (place,), f"`--{flag.name}` holds more than one argument", _one_item_each([first, *words[1:]])
        )
    mended = text.strip(_QUOTES + " \t\r\n")
    if flag.kind == "bool":
        right = mended if _value(flag, mended) is not None else "true"
        return error(
            (place,),
            f"`--{flag.name}` is true or false, not `{_shown(text)}`",
            f"write --{flag.name}={right}",
        )
    right = mended if _value(flag, mended) is not None else str(flag.default)
    reason = "does not fit 64 bits" if _INT.fullmatch(text) else "is not a whole number"
    return error((place,), f"`--{flag.name}`: `{_shown(text)}` {reason}", f"write --{flag.name}={right}")


def _one_item_each(words: Sequence[str]) -> str:
    return "write one list item for each: " + ", ".join(f'"{word}"' for word in words)


def _plain(item: str) -> str:
    """The item as it was meant: dashes and quotes of a rendered page undone, no space around."""
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
