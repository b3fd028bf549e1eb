"""Whether a text is the one from which a function was loaded; its file may have changed since.

`function_source` asks before it ships the text. It compares compiled code, so comments may differ.
"""

from __future__ import annotations
import __future__

import ast
import functools
from types import CodeType

_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def is_loaded_from(text: str, code: CodeType) -> bool:
    """Whether the text compiles to this code, at the same line; yes where that cannot be decided."""
    if any(name.startswith("@") for name in (*code.co_names, *code.co_varnames)):
        return True  # pytest has rewritten the assertions
    flags = code.co_flags & _FUTURE | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        found = _functions(text, flags).get((code.co_firstlineno, code.co_name), [])
    except (SyntaxError, ValueError):
        return True
    return any(_same(each, code) for each in found)


@functools.lru_cache(maxsize=1)
def _functions(text: str, flags: int) -> dict[tuple[int, str], list[CodeType]]:
    found: dict[tuple[int, str], list[CodeType]] = {}
    waiting = [compile(text, "<loaded>", "exec", flags=flags, dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        found.setdefault((code.co_firstlineno, code.co_name), []).append(code)
        waiting += (each for each in code.co_consts if isinstance(each, CodeType))
    return found


def _same(one: CodeType, other: CodeType) -> bool:
    names = (one.co_names, one.co_varnames, one.co_freevars, len(one.co_consts))
    return (
        one.co_code == other.co_code
        and names == (other.co_names, other.co_varnames, other.co_freevars, len(other.co_consts))
        and all(
            _same(each, constant)
            if isinstance(each, CodeType) and isinstance(constant, CodeType)
            else type(each) is type(constant) and each == constant
            for each, constant in zip(one.co_consts, other.co_consts, strict=True)
        )
    )
