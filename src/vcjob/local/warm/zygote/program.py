"""Makes a forked process look like a freshly started interpreter, and prepares the user's program in it.

`rank_parent` calls `check` and `become` in the forked process; `main` then runs what `prepare` returns. It must not
import anything of vcjob outside this folder, nor leave modules behind that the program did not load. A program that a
fork would run differently raises `Refusal`, and the rank is started normally.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import io
import os
import pkgutil
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

from . import process_title
from .imported_modules import ACTS_AT_START, ImportedModules
from .threads import VARIABLE


class Rank:
    """What runs in a forked process: `python [options] target args...` or `python [options] -m target args...`.

    A plain class: since Python 3.14 a NamedTuple or dataclass loads `ast`, and the program may have its own.
    """

    def __init__(
        self,
        *,
        kind: str,
        target: str,
        args: list[str],
        argv: list[str],
        executable: str,
        env: dict[str, str],
    ) -> None:
        self.kind = kind
        self.target = target
        self.args = args
        self.argv = argv
        self.executable = executable
        self.env = env


class Refusal(Exception):
    """The program must be started normally; the text is the reason.

    The rank parent reports it to the launcher, which starts the rank and notes the reason once.
    """


def check(rank: Rank, imported: ImportedModules, threads: int | None = None) -> Rank:
    """Refuse what a fork would run differently. We are in the rank's folder, with its volumes."""
    differs = imported.other_environment(rank.env)
    if threads and not differs:
        differs = VARIABLE if VARIABLE in imported.read else None
        rank.env = {**rank.env, VARIABLE: str(threads)}
    if differs:
        raise Refusal(f"{differs} differs from its value at import time, when it takes effect")
    if rank.kind == "module":
        folder = os.getcwd()
    else:
        if not os.path.exists(rank.target) or rank.target.endswith(".pyc"):
            raise Refusal("")  # the normal start prints Python's own error
        folder = os.path.dirname(os.path.realpath(rank.target))
    hidden = imported.hidden(folder)
    if hidden:
        raise Refusal(f"{hidden} in {folder} has the name of a module that is already loaded")
    _check_settings(rank, folder)
    return rank


def _check_settings(rank: Rank, folder: str) -> None:
    """Refuse a program that sets, for itself, what acts only before the imports."""
    before = set(sys.modules)
    from . import environment_scan

    try:
        folders = environment_scan.own_folders(folder)
        files = [rank.target]
        if rank.kind == "module":
            files = environment_scan.files_of_module(rank.target, folders)
        setting = environment_scan.first_setting(files, folders, ACTS_AT_START)
    finally:
        for name in set(sys.modules) - before:
            del sys.modules[name]  # the program must not find what only we have imported
    if setting:
        file, name = setting
        raise Refusal(f"{os.path.basename(file)} sets {name}, which may take effect only before the imports")


def become(rank: Rank) -> None:
    """Replace everything in this process that still belongs to the zygote."""
    _signals()
    os.environ.clear()
    os.environ.update(rank.env)
    process_title.show(rank.argv, rank.env, os.path.basename(rank.executable))
    sys.orig_argv[:] = rank.argv
    if sys.executable != rank.executable:
        sys.executable = rank.executable
        spawning: Any = sys.modules.get("multiprocessing.spawn")
        if spawning is not None:
            spawning.set_executable(rank.executable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream is not sys.stderr and stream.isatty():
            stream.reconfigure(line_buffering=True)
    _reseed()
    _forget_folder()
    # As importlib.invalidate_caches(), which also imports importlib.metadata and so inspect and ast.
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, importlib.machinery.FileFinder):
            finder.invalidate_caches()


def prepare(rank: Rank) -> tuple[Callable[..., object], Callable[[], tuple[Any, ...]], Callable[[], None]]:
    """A fresh `__main__`, sys.argv and sys.path; what to call, what gives its arguments, what to call at the end."""
    _start_agent()
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]  # every module has it; the stubs do not
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__loader__ = importlib.machinery.BuiltinImporter
    sys.modules["__main__"] = main
    safe = getattr(sys.flags, "safe_path", False) or sys.flags.isolated
    if rank.kind == "module":
        sys.argv[:] = ["-m", *rank.args]
        if not safe:
            sys.path.insert(0, os.getcwd())
        import runpy

        return runpy._run_module_as_main, lambda: (rank.target,), _nothing  # type: ignore[attr-defined]  # what the interpreter calls
    sys.argv[:] = [rank.target, *rank.args]
    # Absolute but not normalized, as Python does it.
    path = os.getcwd() if rank.target == "." else os.path.join(os.getcwd(), rank.target)
    if pkgutil.get_importer(path) is not None:  # a folder or an archive with a __main__ in it
        sys.path.insert(0, path)
        import runpy

        return runpy._run_module_as_main, lambda: ("__main__", False), _nothing  # type: ignore[attr-defined]  # what the interpreter calls
    if not safe:
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    names = vars(main)
    names["__file__"], names["__cached__"] = path, None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)

    def compiled() -> tuple[Any, ...]:
        with io.open_code(path) as file:
            return compile(file.read(), path, "exec", dont_inherit=True), names

    def done() -> None:
        names.pop("__file__", None)
        names.pop("__cached__", None)

    return exec, compiled, done


def _start_agent() -> None:
    """Report the state of this rank, as a freshly started Python does: see `vcjob.rank_agent`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    file = os.path.join(folder, "..", "..", "..", "rank_agent", "sitecustomize.py")
    names: dict[str, Any] = {"__name__": "_vcjob_agent", "__file__": os.path.normpath(file)}
    if os.environ.get("VCJOB_RANK_STATE"):
        with open(file) as source:
            exec(compile(source.read(), names["__file__"], "exec", dont_inherit=True), names)  # noqa: S102 - our own file
        names["install"]()


def _nothing() -> None:
    pass


def _signals() -> None:
    """Set the signal handlers of a fresh interpreter."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reseed() -> None:
    """Every generator that has drawn its seed at import would give every rank the same numbers.

    The `random` module does it on its own after a fork.
    """
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


def _forget_folder() -> None:
    """multiprocessing remembers the folder it was imported in, to go there in processes that it spawns."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = os.getcwd()
