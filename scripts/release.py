"""Builds and checks a release: `make release VERSION=x.y.z`, with DRY_RUN=1 without changing the repository.

    python -m scripts.release VERSION [--dry-run] [--no-image] [--out FOLDER]       (from the repository's root)

Everything is built from a copy of the tracked files in which the version, the changelog and the chart are those of the
release: the wheel and the sdist, the chart, the image, release notes, an SBOM and checksums. The wheel is installed
into an empty environment and started there; the SBOM lists that environment. Only when all of this has succeeded are
the changed files written to the repository, committed and tagged. Nothing is published: the commands that publish are
printed at the end.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE, CHANGELOG = "src/vcjob/_version.py", "CHANGELOG.md"
UNRELEASED = "## Unreleased"
#: The files of the repository that a release changes.
CHANGED = (VERSION_FILE, CHANGELOG, "charts/vcjob")


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def check_version(wanted: str, current: str, tags: list[str]) -> str:
    """The version in its normal form; it must not be below the current one, and not be released already."""
    try:
        version = Version(wanted)
    except InvalidVersion:
        raise ReleaseError(f"{wanted!r} is not a version such as 1.2.3 or 1.2.3rc1") from None
    if len(version.release) != 3 or version.local or version.dev is not None:
        raise ReleaseError(f"{wanted!r} is not a version such as 1.2.3 or 1.2.3rc1")
    if version < Version(current):
        raise ReleaseError(f"the version {version} is below the current one, {current}")
    if f"v{version}" in tags:
        raise ReleaseError(f"the version {version} is released already: the tag v{version} exists")
    return str(version)


def release_changelog(text: str, version: str, date: str) -> tuple[str, str]:
    """The changelog with what was unreleased under the version, and that section alone."""
    before, heading, rest = text.partition(f"{UNRELEASED}\n")
    section, following, older = rest.partition("\n## ")
    if not heading:
        raise ReleaseError(f"{CHANGELOG} has no heading {UNRELEASED!r}")
    if not section.strip():
        raise ReleaseError(f"{CHANGELOG} says nothing about this release: {UNRELEASED!r} is empty")
    released = f"{before}{UNRELEASED}\n\n## {version} - {date}\n{section.rstrip()}\n{following}{older}"
    return released, section.strip() + "\n"


def package_chart(chart: Path, target: Path, epoch: int) -> None:
    """The chart as `helm package` packs it; the same files give the same bytes."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime, entry.mode = epoch, 0o644
        return entry

    with (
        open(target, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            tar.add(path, f"{chart.name}/{path.relative_to(chart)}", filter=plain)


def write_checksums(folder: Path) -> None:
    """SHA256SUMS in the form that `sha256sum --check` reads."""
    lines = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines))


class Release:
    """One release, built in a copy of the repository and collected in one folder."""

    def __init__(self, version: str, copy: Path, out: Path) -> None:
        self.version = version
        self.copy = copy
        self.out = out
        self.epoch = int(_git("log", "-1", "--format=%ct"))
        #: Our sources and scripts are those of the copy.
        self._env = {**os.environ, "PYTHONPATH": f"{copy}:{copy}/src", "SOURCE_DATE_EPOCH": str(self.epoch)}

    def prepare(self, date: str) -> None:
        """The copy, with the version, the changelog and the chart of the release."""
        for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
            if name and (ROOT / name).is_file():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.copy / name)
        (self.copy / VERSION_FILE).write_text(f'__version__ = "{self.version}"\n')
        changelog, notes = release_changelog((self.copy / CHANGELOG).read_text(), self.version, date)
        (self.copy / CHANGELOG).write_text(changelog)
        (self.out / "NOTES.md").write_text(notes)
        self._run(sys.executable, "scripts/make_chart.py")

    def build_packages(self) -> Path:
        """The sdist, and the wheel built from it; returns the wheel."""
        self._run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(self.out), ".")
        (wheel,), (sdist,) = self.out.glob("*.whl"), self.out.glob("*.tar.gz")
        self._run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
        return wheel

    def check_wheel(self, wheel: Path, work: Path) -> None:
        """Install the wheel into an empty environment with the pinned dependencies, start it, and list it as an SBOM."""
        self._run(sys.executable, "-m", "venv", "--without-pip", str(work))
        python = str(work / "bin/python")
        self._run(
            sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python,
            "--constraint", _without_hashes(self.copy / "requirements/run.txt", work), f"{wheel}[cluster]",
        )  # fmt: skip
        shown = self._run(str(work / "bin/vcjob"), "--version", env={"PATH": os.environ["PATH"]})
        if self.version not in shown:
            raise ReleaseError(f"the installed wheel answers {shown.strip()!r}, not {self.version}")
        self._run(
            sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--validate",
            "--output-file", str(self.out / f"vcjob-{self.version}.cdx.json"), python,
        )  # fmt: skip

    def build_chart(self) -> None:
        package_chart(self.copy / "charts/vcjob", self.out / f"vcjob-chart-{self.version}.tgz", self.epoch)

    def build_image(self) -> None:
        archive = str(self.out / f"vcjob-image-{self.version}.tar")
        self._run(sys.executable, "-m", "scripts.build_image", f"vcjob:{self.version}", archive)

    def record(self) -> None:
        """Write the changed files to the repository, commit and tag them."""
        for name in CHANGED:
            if (self.copy / name).is_dir():
                shutil.copytree(self.copy / name, ROOT / name, dirs_exist_ok=True)
            else:
                shutil.copy2(self.copy / name, ROOT / name)
        _git("commit", "--quiet", "--message", f"Release {self.version}", "--", *CHANGED)
        _git("tag", "--annotate", "--message", f"vcjob {self.version}", f"v{self.version}")

    def _run(self, *command: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command, cwd=self.copy, env=env or self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ReleaseError(f"{' '.join(command)}:\n{(done.stdout + done.stderr).strip()[-4000:]}")
        return done.stdout


def _without_hashes(requirements: Path, work: Path) -> str:
    """The pinned versions alone: with hashes, the installer would refuse the wheel, which has none."""
    pins = re.findall(r"^([\w.\-]+==\S+(?: ;[^\\\n]*)?)", requirements.read_text(), re.MULTILINE)
    target = work / "constraints.txt"
    target.write_text("\n".join(pins) + "\n")
    return str(target)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _publishing(version: str, out: Path) -> str:
    return f"""To publish it:
  git push origin main v{version}
  twine upload {out}/*.whl {out}/*.tar.gz
  skopeo copy docker-archive:{out}/vcjob-image-{version}.tar docker://REGISTRY/vcjob:{version}
  helm push {out}/vcjob-chart-{version}.tgz oci://REGISTRY/charts
and attach the files of {out} to the release, with NOTES.md as its text.
"""


def release(wanted: str, *, dry_run: bool, image: bool, out: Path) -> None:
    """Build, check and, without `dry_run`, record the release."""
    current = re.findall(r'"(.+)"', (ROOT / VERSION_FILE).read_text())[0]
    version = check_version(wanted, current, _git("tag").split())
    if not dry_run and _git("status", "--porcelain").strip():
        raise ReleaseError("the repository has changes that are not committed: a release is made of a commit")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="vcjob-release-") as temporary:
        made = Release(version, Path(temporary, "copy"), out.resolve())
        made.prepare(datetime.datetime.now(datetime.UTC).date().isoformat())
        wheel = made.build_packages()
        made.check_wheel(wheel, Path(temporary, "environment"))
        made.build_chart()
        if image:
            made.build_image()
        write_checksums(out)
        if not dry_run:
            made.record()
    for path in sorted(out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")
    print(
        "Dry run: nothing was committed, tagged or published."
        if dry_run
        else f"Committed and tagged v{version}. {_publishing(version, out)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and check a release of vcjob.")
    parser.add_argument("version", help="the version, such as 1.2.3 or 1.2.3rc1")
    parser.add_argument("--dry-run", action="store_true", help="do not commit and tag")
    parser.add_argument("--no-image", action="store_true", help="leave the image out")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "release", help="[default: dist/release]")
    options = parser.parse_args()
    try:
        release(options.version, dry_run=options.dry_run, image=not options.no_image, out=options.out)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
