"""`vcjob.run_async()` and `vcjob.find_async()`: the same functions for programs with an event loop.

They run in a thread, so that reading a file or a request to a cluster does not block the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from vcjob.sdk.finding import find
from vcjob.sdk.running import run

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _in_thread(
    function: Callable[_Arguments, _Result],
) -> Callable[_Arguments, Coroutine[Any, Any, _Result]]:
    @wraps(function)
    async def called(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        import asyncio

        return await asyncio.to_thread(function, *arguments, **options)

    return called


run_async = _in_thread(run)
find_async = _in_thread(find)
