"""Spelling suggestions: which known name did the user probably mean?

The checks of a Job ask this for every unknown field, task, volume or flag, and the answer goes into the
hint of a problem. The author of a Job chooses both the wrong names and many of the known ones, so the cost
must not depend on how many there are: known names are indexed by their spelling with one or two letters
left out, and a lookup costs a number of steps that depends on the length of the wrong name alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations

#: Longer names are cut for the comparison; Kubernetes allows 63 characters in most names.
MAX_LENGTH = 63
#: Known names beyond this number are never suggested.
MAX_NAMES = 500
#: Two letters are left out only of short names in small vocabularies, where the index stays small.
_SMALL_VOCABULARY = 100
_SHORT_NAME = 24
#: Share of equal letters from which on two names are alike.
_ALIKE = 0.7
_SEPARATORS = str.maketrans("", "", "-_. ")


class Vocabulary:
    """A set of known names that answers which one is nearest to a wrong one.

    The index is built at the first question, so that a Job without mistakes pays nothing for it.
    """

    __slots__ = ("_index", "_letters", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._letters = 1
        self._index: dict[str, str] | None = None

    def nearest(self, name: str) -> str | None:
        """The known name that was probably meant, or None."""
        if self._index is None:
            self._index = self._build()
        wrong = _folded(name)
        best, best_share = None, _ALIKE
        for form in _forms(wrong, self._letters):
            found = self._index.get(form)
            if found is not None:
                share = 2 * len(form) / (len(wrong) + len(_folded(found)) or 1)
                if share > best_share:
                    best, best_share = found, share
        return best

    def _build(self) -> dict[str, str]:
        names = [name for name, _ in zip(self._names, range(MAX_NAMES))]
        self._letters = 2 if len(names) <= _SMALL_VOCABULARY else 1
        index: dict[str, str] = {}
        for name in names:
            index.setdefault(_folded(name), name)
        for name in names:
            for form in _forms(_folded(name), self._letters):
                index.setdefault(form, name)
        return index


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant, among the few that a schema or a table knows."""
    return _kept(tuple(known)).nearest(name)


def did_you_mean(name: str, known: Vocabulary | Iterable[str], otherwise: str) -> str:
    """A hint that suggests the nearest known name, or else says `otherwise`."""
    near = known.nearest(name) if isinstance(known, Vocabulary) else nearest(name, known)
    return f"did you mean `{near}`?" if near else otherwise


@lru_cache(maxsize=64)
def _kept(known: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(known)


def _folded(name: str) -> str:
    return name[:MAX_LENGTH].lower().translate(_SEPARATORS)


def _forms(name: str, letters: int) -> Iterator[str]:
    """The name itself, and with up to `letters` letters left out."""
    yield name
    for count in range(1, (letters if len(name) <= _SHORT_NAME else 1) + 1):
        for left_out in combinations(range(len(name)), count):
            form = name
            for position in reversed(left_out):
                form = form[:position] + form[position + 1 :]
            if form:
                yield form
