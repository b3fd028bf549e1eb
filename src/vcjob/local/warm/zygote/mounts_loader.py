"""`enter_mounts` of vcjob.local.pod.storage.mounts, loaded from its file: vcjob need not be installed in this interpreter."""

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
