"""Loads `enter_mounts` of vcjob.local.pod.storage.mounts from its file, and calls it.

A zygote runs in the interpreter of the job, in which vcjob need not be installed, so it cannot import vcjob. Used by
the rank parent before it becomes a rank with volumes; an OSError of the mounts is passed on.
"""

from __future__ import annotations

import importlib.util
import os
import types

_FILE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
    "pod",
    "storage",
    "mounts.py",
)


def enter_mounts(mounts: list[tuple[str, str, bool, int | None]]) -> None:
    spec = importlib.util.spec_from_file_location("_vcjob_warm.mounts", _FILE)
    assert spec is not None and spec.loader is not None
    mounting = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mounting)
    mounting.enter_mounts(
        [
            types.SimpleNamespace(source=source, target=target, read_only=only, memory=memory)
            for source, target, only, memory in mounts
        ]
    )
