"""The steps of a release that need no build: its version, the changelog, the packed chart, the checksums."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.release import (
    ROOT,
    ReleaseError,
    check_version,
    package_chart,
    release_changelog,
    write_checksums,
)

CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n- one\n\n## 1.0.0 - 2025-01-01\n- old\n"


@pytest.mark.parametrize(("wanted", "expected"), [("1.2.3", "1.2.3"), ("1.2.3-rc.1", "1.2.3rc1")])
def test_a_version_is_written_in_its_normal_form(wanted: str, expected: str) -> None:
    assert check_version(wanted, "1.0.0", ["v1.0.0"]) == expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("1.2", "is not a version such as"),
        ("latest", "is not a version such as"),
        ("1.2.3.dev1", "is not a version such as"),
        ("1.2.3+local", "is not a version such as"),
        ("0.9.0", "is below the current one, 1.0.0"),
        ("1.0.0", "is released already: the tag v1.0.0 exists"),
    ],
)
def test_a_version_that_cannot_be_released_is_refused(wanted: str, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        check_version(wanted, "1.0.0", ["v1.0.0"])


def test_the_unreleased_changes_become_the_section_of_the_version() -> None:
    changed, notes = release_changelog(CHANGELOG, "1.1.0", "2026-01-02")
    assert changed == (
        "# Changelog\n\n## Unreleased\n\n## 1.1.0 - 2026-01-02\n\n### Added\n- one\n\n## 1.0.0 - 2025-01-01\n- old\n"
    )
    assert notes == "### Added\n- one\n"


def test_a_release_without_a_change_in_the_changelog_is_refused() -> None:
    changed, _ = release_changelog(CHANGELOG, "1.1.0", "2026-01-02")
    with pytest.raises(ReleaseError, match="says nothing about this release"):
        release_changelog(changed, "1.2.0", "2026-01-03")
    with pytest.raises(ReleaseError, match="has no heading"):
        release_changelog("# Changelog\n", "1.2.0", "2026-01-03")


def test_the_changelog_of_the_repository_can_be_released() -> None:
    _, notes = release_changelog((ROOT / "CHANGELOG.md").read_text(), "99.0.0", "2026-01-02")
    assert notes.startswith("### ")


def test_the_packed_chart_has_the_same_bytes_each_time_and_matches_its_checksum(tmp_path: Path) -> None:
    for name in ("a.tgz", "b.tgz"):
        package_chart(ROOT / "charts/vcjob", tmp_path / name, 1_700_000_000)
    assert (tmp_path / "a.tgz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    write_checksums(tmp_path)
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout) == (0, "a.tgz: OK\nb.tgz: OK\n")
