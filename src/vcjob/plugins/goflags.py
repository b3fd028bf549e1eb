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
_PLAIN_DASH = str.maketrans(dict.fromkeys(_DASHES, "-"))
_QUOTES = "\"'\u201c\u201d\u2018\u2019`"


class Flag(msgspec.Struct, frozen=True):
    """One argument of a plugin. `ours` marks an extension that Volcano does not know."""

    name: str
    kind: Kind
    default: Value
    ours: bool = False


class Flags:
    """What was read: a value for every flag, and where each flag that was given stands in the list."""

    __slots__ = ("_values", "places")

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._values: dict[str, Value] = {flag.name: flag.default for flag in flags}
        self.places: dict[str, int] = {}

    def put(self, name: str, value: Value, place: int) -> None:
        self._values[name] = value
        self.places[name] = place

    def forget(self, flag: Flag) -> None:
        """Back to the default; the place stays, for those who ask whether the flag was given."""
        self._values[flag.name] = flag.default

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
    known = {flag.name: flag for flag in flags}
    read = Flags(flags)
    problems: list[Problem] = []
    position = 0
    while position < len(arguments):
        place = position
        item = arguments[place]
        position += 1
        stray = _stray(item, place, arguments, known)
        if stray is not None:
            problems.append(stray)
            item = _plain(item)
            if _flag_name(item) not in known:
                continue
        name, equals, value = item.removeprefix("-").removeprefix("-").partition("=")
        if name not in known:
            problems.append(_unknown(name, item, place, known))
            continue
        flag = known[name]
        if not equals:
            if flag.kind == "bool":
                value = "true"
            elif position < len(arguments) and _flag_name(arguments[position]) not in known:
                value = arguments[position]
                position += 1
            else:
                problems.append(error((place,), f"{_shown(item)} needs a value", f"write --{name}=VALUE"))
                read.places[name] = place
                continue
        parsed = _value(flag, value)
        if parsed is None:
            problems.append(_bad_value(flag, value, place))
            read.places[name] = place
            continue
        read.put(name, parsed, place)
    problems += _ours_before_volcanos(known, arguments, read)
    return read, problems


def _flag_name(item: str) -> str | None:
    """The name in `-name`, `--name` or either with `=value`; None for anything else."""
    if not item.startswith("-"):
        return None
    name = item.removeprefix("-").removeprefix("-").partition("=")[0]
    return None if name == "" or name[0] == "-" else name


def _value(flag: Flag, text: str) -> Value | None:
    if flag.kind == "int":
        return parse_int(text)
    if flag.kind == "bool":
        return True if text in TRUE else False if text in FALSE else None
    return text


def _plain(item: str) -> str:
    """The item as it was meant: dashes and quotes of a rendered page undone, no space around."""
    item = item.strip().strip(_QUOTES).strip()
    if item[:1] and item[0] in _DASHES:
        item = "--" + item.lstrip(_DASHES + "-")
    return item.translate(_PLAIN_DASH) if item.startswith("-") else item


def _shown(text: str) -> str:
    return f"{text[:57]!r}..." if len(text) > 60 else repr(text)


def _stray(item: str, place: int, arguments: Sequence[str], known: dict[str, Flag]) -> Problem | None:
    """The problem with an item at which Go would stop reading, or None for a well-formed flag."""
    if item.startswith("-") and _flag_name(item) is not None and "\u2011" not in item.partition("=")[0]:
        return None
    plain = _plain(item)
    if plain != item and _flag_name(plain) in known:
        what = (
            "starts with a dash that is not '-'"
            if item.strip()[:1] in tuple(_DASHES)
            else "is not a plain flag"
        )
        return error((place,), f"{_shown(item)} {what}", f"write {plain}")
    if item == "--":
        return error((place,), "'--' ends the arguments: Volcano reads nothing after it", "remove it")
    if item.startswith("-") and len(item) > 1:
        return error(
            (place,), f"{_shown(item)} is no flag: a name must follow the dashes", "write --name=value"
        )
    before = arguments[place - 1] if place else ""
    name = _flag_name(before)
    if name in known and "=" not in before and known[name].kind == "bool" and (item in TRUE or item in FALSE):
        hint = f"write --{name}={item} as one item"
    elif item.partition("=")[0] in known:
        hint = f"write --{item}"
    else:
        hint = "arguments are written --name=value, one item each"
    return error((place,), f"{_shown(item)} is no flag: Volcano reads nothing from here on", hint)


def _unknown(name: str, item: str, place: int, known: dict[str, Flag]) -> Problem:
    words = item.split()
    if len(words) > 1 and _flag_name(words[0]) in known:
        return error((place,), f"{_shown(item)} holds more than one word", _split_hint(words))
    nearest = _nearest(name.translate(_PLAIN_DASH), known)
    hint = (
        f"did you mean --{nearest}?"
        if nearest
        else "known arguments: " + ", ".join(f"--{flag}" for flag in known)
    )
    return error((place,), f"there is no argument --{name}", hint)


def _bad_value(flag: Flag, text: str, place: int) -> Problem:
    words = text.split()
    if len(words) > 1 and any(word.startswith("-") for word in words[1:]):
        return error(
            (place,),
            f"--{flag.name} holds more than one argument",
            _split_hint([f"--{flag.name}={words[0]}", *words[1:]]),
        )
    if flag.kind == "bool":
        return error(
            (place,), f"--{flag.name} is true or false, not {_shown(text)}", f"write --{flag.name}=true"
        )
    reason = "is too large a number" if _INT.fullmatch(text) else "is not a whole number"
    return error(
        (place,), f"--{flag.name}={text[:60]}: {text[:60]!r} {reason}", f"write --{flag.name}={flag.default}"
    )


def _split_hint(words: Sequence[str]) -> str:
    return "one list item for each: " + ", ".join(f'"{word}"' for word in words)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _ours_before_volcanos(known: dict[str, Flag], arguments: Sequence[str], read: Flags) -> list[Problem]:
    """Volcano stops at a flag it does not know, so ours must stand behind all of its own."""
    last_of_volcano = max((place for name, place in read.places.items() if not known[name].ours), default=-1)
    return [
        warning(
            (place,),
            f"--{name} is an extension of vcjob: Volcano stops reading here and would ignore "
            f"{_shown(arguments[last_of_volcano])}",
            f"put --{name} last",
        )
        for name, place in sorted(read.places.items(), key=lambda pair: pair[1])
        if known[name].ours and place < last_of_volcano
    ]
