"""File systems for images out of Debian packages: whatever apt says a package needs, unpacked into one folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.testbed.images import debian
from tests.testbed.images.archive import pack_layer
from tests.testbed.paths import cache_folder
from tests.testbed.progress import Progress

UNNEEDED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/include",
)


def debian_layer(
    packages: list[str], release: str | None = None, prune: tuple[str, ...] = (), compiled: bool = False
) -> Path:
    """A layer with ``packages`` and all they need, from this machine's Debian or from another ``release`` of it.

    ``compiled``: with Python's byte code, without which every start on a read-only root would compile it again.
    """
    inputs = (packages, release or _own_release(), UNNEEDED, prune, *(["compiled"] if compiled else []))
    key = hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]
    target = cache_folder() / "layers" / f"debian-{'-'.join(packages)}-{key}.tar"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        Progress(f"fetching {', '.join(packages)} from Debian {release or ''}".rstrip() + " for an image"),
        tempfile.TemporaryDirectory(prefix="vcjob-testbed-layer-", dir=target.parent) as workplace,
    ):
        fetched = _fetch(packages, release, Path(workplace))
        root = Path(workplace) / "root"
        _unpack(fetched, root, prune)
        if compiled:
            compile_python(root)
        pack_layer(target, root)
    return target


def compile_python(root: Path) -> None:
    """Byte code for what this very version of Python can compile. It is not checked against times, for a layer has none."""
    own = f"python3.{sys.version_info.minor}"
    compiler = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    for folder in (root / "usr/lib" / own, root / "usr/lib/python3/dist-packages"):
        if folder.is_dir():
            # A file that Python cannot compile is one that nobody imports.
            subprocess.run(
                [*compiler, "-s", str(root), "-p", "/", str(folder)], check=False, stdout=subprocess.DEVNULL
            )


def _own_release() -> str:
    said = re.search(r'VERSION_CODENAME="?(\w+)', Path("/etc/os-release").read_text())
    return said[1] if said else "unknown"


def _fetch(packages: list[str], release: str | None, workplace: Path) -> list[Path]:
    archives, status = workplace / "archives", workplace / "status"
    (archives / "partial").mkdir(parents=True)
    status.touch()  # as if nothing were installed: apt then fetches everything that is needed
    options = ["-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={archives}"]
    options += [
        "-o",
        "Dir::Cache::pkgcache=",
        "-o",
        "Dir::Cache::srcpkgcache=",
        "-o",
        "APT::Sandbox::User=root",
    ]
    if release and release != _own_release():
        options += _sources_of(release, workplace)
    if not (release is None or release == _own_release()) or not _has_lists():
        debian.apt(*options, "update", "-qq")
    debian.apt(*options, "--no-install-recommends", "-y", "-qq", "--download-only", "install", *packages)
    shutil.rmtree(archives / "partial")
    return sorted(archives.glob("*.deb"))


def _has_lists() -> bool:
    return any(Path("/var/lib/apt/lists").glob("*_Packages*"))


def _sources_of(release: str, workplace: Path) -> list[str]:
    """The machine's own Debian sources with another release's name in them, in folders apart."""
    parts, lists = workplace / "sources", workplace / "lists"
    parts.mkdir()
    (lists / "partial").mkdir(parents=True)
    own = _own_release()
    given = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for number, path in enumerate(path for path in given if path.is_file()):
        text = path.read_text()
        if "debian" in text and own in text and "archive/debian" not in re.sub(r"#.*", "", text):
            if path.suffix == ".sources":
                (parts / f"{number}.sources").write_text(text.replace(own, release))
            else:
                lines = [line for line in text.splitlines() if re.search(rf"debian\S* {own}", line)]
                (parts / f"{number}.list").write_text("\n".join(lines).replace(own, release) + "\n")
    return [
        *("-o", "Dir::Etc::sourcelist=/dev/null"),
        *("-o", f"Dir::Etc::sourceparts={parts}"),
        *("-o", f"Dir::State::lists={lists}"),
    ]


def _unpack(packages: list[Path], root: Path, prune: tuple[str, ...]) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):  # Debian's layout today: all of it under /usr
        (root / "usr" / name).mkdir(parents=True)
        os.symlink(f"usr/{name}", root / name)
    exclude = [f"--exclude=./{name}" for name in (*UNNEEDED, *prune)]
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as source:
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "-C", str(root), *exclude],
                stdin=source.stdout,
                check=True,
            )
        if source.returncode:
            raise RuntimeError(f"{package.name} cannot be unpacked")
    for name, mode in {
        "tmp": 0o1777,
        "home": 0o755,
        "root": 0o700,
        "proc": 0o755,
        "sys": 0o755,
        "dev": 0o755,
        "etc": 0o755,
    }.items():
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)
    for library in (*root.glob("usr/lib/*/blas/lib*.so.*"), *root.glob("usr/lib/*/lapack/lib*.so.*")):
        link = library.parent.parent / library.name  # on an installed system update-alternatives makes these
        if not link.exists():
            link.symlink_to(f"{library.parent.name}/{library.name}")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # a user's PATH lacks the folders in which ldconfig is
    subprocess.run(["ldconfig", "-r", str(root)], env={**os.environ, "PATH": path}, check=True)
