"""The modules that the zygote has imported: would a fresh start import the same, and may the process be forked?

The zygote's server asks before every fork, the rank parent for every rank. It answers with the reason why not; the
client then uses a plain start.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
import time
from typing import Any

from .inheritance import inherited
from .threads import math_libraries

#: Variables that act when a program, the C library, BLAS, OpenMP, CUDA or torch is imported, and not after.
ACTS_AT_START = re.compile(
    r"(PYTHON.*|LD_.*|OMP_.*|GOMP_.*|KMP_.*|MKL_.*|OPENBLAS_.*|GOTO_.*|BLIS_.*|VECLIB_.*|NUMEXPR_.*|DNNL_.*"
    r"|ONEDNN_.*|MALLOC_.*|GLIBC_TUNABLES|TORCH.*|PYTORCH.*|ATEN_.*|C10_.*|CUDA_(?!VISIBLE_DEVICES).*|CUDNN.*"
    r"|CUBLAS.*|LANG|LANGUAGE|LC_.*|TZ|HOME|TMPDIR|COVERAGE_.*)"
)

#: Set per run or per rank, read when the program runs: never part of what a zygote is.
INJECTED = re.compile(
    r"(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|HOSTNAME"
    r"|GLOO_SOCKET_IFNAME|NCCL_SOCKET_IFNAME|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES"
    r"|PET_.*|VC_.*|VK_TASK_INDEX|VCJOB_.*)"
)


class ReadNames(dict[bytes, bytes]):
    """Stands in for the data of os.environ while modules are imported: records which names they read."""

    names: set[str]

    def __getitem__(self, name: bytes) -> bytes:
        self.names.add(os.fsdecode(name))
        return super().__getitem__(name)


class ImportedModules:
    """Everything imported so far, the environment it was imported in, and the files it came from.

    The zygote's server and the rank parent ask it before every fork. It answers with a reason as text, or None; it
    never raises.
    """

    def __init__(self, baseline: frozenset[str]) -> None:
        self.env = dict(os.environ)
        self.inherited = inherited()
        self.read: set[str] = set()
        self.failed: dict[str, str] = {}
        self._baseline = baseline
        self._files: dict[str, tuple[int, int, int]] = {}
        self._hidden: list[str | None] = []
        self._checked = 0.0
        self._stale: str | None = None
        #: Imported libraries whose number of threads can be set.
        self.math: list[str] = []

    def import_all(self, names: list[str]) -> None:
        """Import what is there; a module that is not installed is left out."""
        data: Any = vars(os.environ)["_data"]
        watched = ReadNames(data)
        watched.names = self.read
        vars(os.environ)["_data"] = watched
        try:
            for name in names:
                try:
                    __import__(name)
                except ModuleNotFoundError as error:
                    if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                        self.failed[name] = str(error)
                except Exception as error:
                    self.failed[name] = f"{type(error).__name__}: {error}"
        finally:
            data.clear()
            data.update(watched)
            vars(os.environ)["_data"] = data

    def remember_files(self) -> None:
        """The identity of every file that a fresh start would read again, and of the folders it would look in."""
        paths = {sys.executable, os.path.realpath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg")}
        paths.update(folder for folder in sys.path if folder.endswith("-packages"))
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                paths.add(file)
        for folder in filter(os.path.isdir, sys.path):
            paths.update(
                entry.path for entry in os.scandir(folder) if entry.name.endswith((".pth", ".dist-info"))
            )
        self._files = {path: _identity(path) for path in paths}
        self._hidden = [self.hidden(folder) for folder in sys.path]
        self._checked = time.monotonic()
        self.math = math_libraries()

    def stale(self) -> str | None:
        """What has changed since, if anything: the interpreter, a package, a module."""
        if self._stale is None and time.monotonic() - self._checked > 0.2:
            self._stale = next((path for path, was in self._files.items() if _identity(path) != was), None)
            if self._stale is None and self._hidden != [self.hidden(folder) for folder in sys.path]:
                self._stale = "a folder of PYTHONPATH"
            self._checked = time.monotonic()
        return self._stale

    def unfit(self) -> str | None:
        """Why no process may be forked from this one now."""
        for name, error in self.failed.items():
            return f"importing {name} failed: {error}"
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            return f"what was imported runs {threads - 1} thread(s) of its own, and threads do not survive a fork"
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return "what was imported has initialised CUDA, which does not survive a fork"
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue
            if target.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                return f"what was imported has opened {target}, and a device does not survive a fork"
        return None

    def other_environment(self, env: dict[str, str]) -> str | None:
        """A variable that was read at import, or may have been, and is not what it would be in a fresh start."""
        for name in sorted({*self.env, *env}):
            acts = ACTS_AT_START.fullmatch(name) and not INJECTED.fullmatch(name)
            if self.env.get(name) != env.get(name) and (acts or name in self.read):
                return name
        return None

    def hidden(self, folder: str) -> str | None:
        """A file in `folder` that a fresh start would import from there, instead of what is loaded here."""
        suffixes = importlib.machinery.all_suffixes()
        try:
            entries = os.listdir(folder)
        except OSError:
            return None
        for entry in entries:
            name, dot, rest = entry.partition(".")
            if not self._is_ours(name, folder):
                continue
            inside = os.path.join(folder, entry)
            if dot + rest in suffixes or any(
                os.path.isfile(os.path.join(inside, f"__init__{suffix}")) for suffix in suffixes
            ):
                return entry
        return None

    def _is_ours(self, name: str, folder: str) -> bool:
        """Was this imported here (after the start of the interpreter) from somewhere else than `folder`?"""
        if name in self._baseline or name not in sys.modules:
            return False
        file = getattr(sys.modules[name], "__file__", None)
        return not (
            isinstance(file, str) and os.path.realpath(file).startswith(os.path.realpath(folder) + os.sep)
        )


def _identity(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)
