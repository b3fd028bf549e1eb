"""The number of threads that libraries compute with, set in a process that has loaded them already.

In a fresh start they read OMP_NUM_THREADS when they are imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

VARIABLE = "OMP_NUM_THREADS"
#: By the beginning of a library's name: the functions that set the number, whichever of them it has.
_SETTERS = {
    "libopenblas": ("openblas_set_num_threads", "openblas_set_num_threads64_"),
    "libscipy_openblas": (
        "scipy_openblas_set_num_threads",
        "scipy_openblas_set_num_threads64_",
        "openblas_set_num_threads64_",
    ),
    "libgomp": ("omp_set_num_threads",),
    "libiomp": ("omp_set_num_threads",),
    "libomp": ("omp_set_num_threads",),
}


def math_libraries() -> list[str]:
    """Paths of the loaded libraries that have such a number."""
    found = set()
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[5].strip() if line.count("/") else ""
            if os.path.basename(path).startswith(tuple(_SETTERS)):
                found.add(path)
    return sorted(found)


def set_threads(number: int, libraries: list[str]) -> None:
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(number)  # also for the threads that it starts later
    for path in libraries:
        library = ctypes.CDLL(path)
        names = next(names for start, names in _SETTERS.items() if os.path.basename(path).startswith(start))
        for name in names:
            if hasattr(library, name):
                getattr(library, name)(number)
