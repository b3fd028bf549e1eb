"""Builds the pinned programs once and keeps them under the user's cache folder.

The key is a hash of everything that goes in (go.mod, go.sum, flags, patches), so a stale program is never
used; a program appears in the cache by one rename, so a build that dies half-way leaves nothing that could be taken for whole;
a lock that dies with its holder lets two builders share the work instead of doing it twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.testbed.paths import PACKAGE, cache_folder
from tests.testbed.programs.families import DEFAULT_FAMILIES, FAMILIES, Family, family_of
from tests.testbed.programs.prefetch import fetched_ahead
from tests.testbed.programs.toolchain import find_go, go_environment
from tests.testbed.progress import Progress

STRIPPED = "-s -w"


class BuildFailed(Exception):
    """Go refused; the message ends with what it said."""


def program(name: str) -> Path:
    """The path of a built program, built now if it is not in the cache."""
    family = family_of(name)
    path = family_folder(family) / name
    if not path.exists():
        with _locked(family):
            if not path.exists():
                _build(family, name)
    return path


def data(family_name: str, name: str) -> Path:
    """The path of a family's data folder (Volcano's CRDs and configuration), copied out of the module cache if need be."""
    family = next(f for f in FAMILIES if f.name == family_name)
    path = family_folder(family) / name
    if not path.exists():
        with _locked(family):
            if not path.exists():
                _publish_data(family)
    return path


def build_all(names: list[str] | None = None) -> None:
    """The given programs or families, else all that tests need, in the order in which tests need them."""
    wanted = names or list(DEFAULT_FAMILIES)
    absent = [family for family in FAMILIES if family.name in wanted and not _is_built(family)]
    with fetched_ahead(absent):
        _build_wanted(wanted)


def _build_wanted(wanted: list[str]) -> None:
    for family in FAMILIES:
        if family.name in wanted:
            for name in family.programs:
                program(name)
            for folder in family.data.values():
                data(family.name, folder)
        if f"{family.name}-e2e" in wanted:
            for name in family.test_programs:
                program(name)
    for name in wanted:
        if not any(name in (family.name, f"{family.name}-e2e") for family in FAMILIES):
            program(name)


def missing() -> list[str]:
    """The default programs that are not in the cache yet."""
    return [
        name
        for family in FAMILIES
        if family.name in DEFAULT_FAMILIES
        for name in family.programs
        if not (family_folder(family) / name).exists()
    ]


def _is_built(family: Family) -> bool:
    return all((family_folder(family) / name).exists() for name in family.programs)


@cache
def family_folder(family: Family) -> Path:
    inputs = hashlib.sha256()
    for file in sorted((PACKAGE / "go" / family.folder).iterdir()):
        inputs.update(file.read_bytes())
    patch = inspect.getsource(family.prepare) if family.prepare else ""
    inputs.update(
        repr((family.linker_flags, dict(family.programs), patch, STRIPPED, os.uname().machine)).encode()
    )
    return cache_folder() / "bin" / f"{family.name}-{inputs.hexdigest()[:16]}"


@contextmanager
def _locked(family: Family) -> Iterator[None]:
    folder = family_folder(family)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with Progress(f"waiting for another builder of {family.name}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(family: Family, name: str) -> None:
    target = family_folder(family) / name
    position = list({**family.programs, **family.test_programs}).index(name) + 1
    go = find_go()
    with (
        tempfile.TemporaryDirectory(prefix="vcjob-testbed-build-") as workplace,
        Progress(
            f"building {name} ({position} of {len(family.programs) + len(family.test_programs)} of {family.name})"
        ),
    ):
        folder = _module_copy(family, go, Path(workplace))
        fresh = target.with_name(f".{name}.{os.getpid()}")
        if name in family.programs:
            verb, package = ["build"], family.programs[name]
        else:
            verb, package = ["test", "-c"], family.test_programs[name]
        flags = ["-trimpath", "-ldflags", f"{STRIPPED} {family.linker_flags}".strip()]
        try:
            _go(go, [*verb, *flags, "-o", str(fresh), package], folder)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)


def _publish_data(family: Family) -> None:
    go = find_go()
    source = _module_folder(go, PACKAGE / "go" / family.folder, family.data_module)
    for inside, name in family.data.items():
        target = family_folder(family) / name
        if target.exists():
            continue
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=target.parent))
        shutil.copytree(source / inside, fresh, dirs_exist_ok=True, copy_function=shutil.copyfile)
        fresh.chmod(0o755)
        fresh.rename(target)


def _module_copy(family: Family, go: str, workplace: Path) -> Path:
    """A private copy of the module folder: nothing that Go or a patch writes reaches the repository."""
    folder = workplace / family.name
    shutil.copytree(PACKAGE / "go" / family.folder, folder)
    if family.prepare:
        family.prepare(folder, lambda module: _module_folder(go, folder, module))
    return folder


def _module_folder(go: str, where: Path, module: str) -> Path:
    said = _go(go, ["mod", "download", "-json", module], where)
    return Path(json.loads(said)["Dir"])


def _go(go: str, arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        ["nice", "-n", "10", go, *arguments], cwd=folder, env=go_environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise BuildFailed(f"go {' '.join(arguments)}\n{(done.stderr or done.stdout).strip()[-4000:]}")
    return done.stdout
