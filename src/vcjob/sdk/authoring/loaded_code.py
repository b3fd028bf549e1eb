"""Whether a text is the one from which a function was loaded; its file may have changed since.

`function_source` asks before it ships the text. It compares compiled code, so comments may differ.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
from types import CodeType
from typing import Any

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
    inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (one, other)]
    return (
        _steps(one) == _steps(other)
        and (one.co_varnames, one.co_freevars) == (other.co_varnames, other.co_freevars)
        and len(inner[0]) == len(inner[1])
        and all(map(_same, *inner))
    )


def _steps(code: CodeType) -> list[tuple[str, type, Any]]:
    """The instructions, as far as they do not depend on the code around them.

    A call of an attribute is compiled in another way where an import of the name is in the same text. IPython compiles
    the statements of a cell one by one, so that it never is there.
    """
    found: list[tuple[str, type, Any]] = []
    for each in dis.get_instructions(code):
        if each.opname in ("EXTENDED_ARG", "PRECALL", "PUSH_NULL"):
            continue
        name = "LOAD_ATTR" if each.opname == "LOAD_METHOD" else each.opname
        place = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        value = None if place or isinstance(each.argval, CodeType) else each.argval
        found.append((name, type(value), value))
    return found
