"""The cache of built programs: whole or absent, keyed by its inputs, built once however many ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.images import rootfs
from tests.testbed.images.archive import pack_layer, write_image, write_layer
from tests.testbed.paths import PACKAGE, REPOSITORY
from tests.testbed.programs import builder as build
from tests.testbed.programs import families


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "find_go", lambda: "go")
    build.family_folder.cache_clear()
    yield tmp_path
    build.family_folder.cache_clear()


def output_of(arguments: list[str]) -> Path:
    return Path(arguments[arguments.index("-o") + 1])


def test_a_build_that_fails_half_way_leaves_nothing_in_the_cache(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(_go: str, arguments: list[str], _folder: Path) -> str:
        output_of(arguments).write_text("half a pro")
        raise build.BuildFailed("out of memory")

    monkeypatch.setattr(build, "_go", dies)
    with pytest.raises(build.BuildFailed, match="out of memory"):
        build.program("etcd")
    assert [path.name for path in empty_cache.rglob("*") if path.is_file()] == [".lock"]


@pytest.mark.parametrize("minor", families.KUBERNETES_VERSIONS)
def test_every_kubernetes_minor_is_pinned_to_one_version_of_all_its_modules(minor: str) -> None:
    family, version = families.kubernetes(minor), families.KUBERNETES_VERSIONS[minor]
    folder = PACKAGE / "go" / family.folder
    go_mod, sums = (folder / "go.mod").read_text(), (folder / "go.sum").read_text()
    assert f"k8s.io/kubernetes {version} // indirect" in go_mod
    assert f"k8s.io/kubernetes {version} h1:" in sums
    replaced = re.findall(r"k8s\.io/[a-z-]+ => k8s\.io/[a-z-]+ (\S+)", go_mod)
    assert len(replaced) > 20 and set(replaced) == {version.replace("v1.", "v0.", 1)}


def test_every_kubernetes_minor_has_a_place_of_its_own_in_the_cache() -> None:
    places = {build.family_folder(families.kubernetes(minor)) for minor in families.KUBERNETES_VERSIONS}
    assert len(places) == len(families.KUBERNETES_VERSIONS) >= 4


def test_an_unknown_kubernetes_minor_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-c", "import tests.testbed.programs.families"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "VCJOB_TESTBED_KUBERNETES": "1.2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "VCJOB_TESTBED_KUBERNETES is '1.2'; it can be 1.33, 1.34, 1.35, 1.36" in done.stderr


def test_two_builders_build_once(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def builds(_go: str, arguments: list[str], _folder: Path) -> str:
        built.append(arguments[-1])
        time.sleep(0.05)  # long enough for the other to come and find the lock taken
        output_of(arguments).write_text("a program")
        return ""

    monkeypatch.setattr(build, "_go", builds)
    threads = [threading.Thread(target=build.program, args=("etcd",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == ["go.etcd.io/etcd/server/v3"]
    assert build.program("etcd").read_text() == "a program"


def test_the_repository_is_never_built_in(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path] = []

    def builds(_go: str, arguments: list[str], folder: Path) -> str:
        places.append(folder)
        output_of(arguments).write_text("a program")
        return ""

    monkeypatch.setattr(build, "_go", builds)
    build.program("kwok")
    assert not places[0].is_relative_to(PACKAGE)


@pytest.mark.parametrize("family", families.FAMILIES, ids=lambda family: family.name)
def test_every_family_pins_its_modules(family: families.Family) -> None:
    folder = PACKAGE / "go" / family.name
    text = (folder / "go.mod").read_text()
    assert "latest" not in text
    assert (folder / "go.sum").stat().st_size > 1000
    for package in family.programs.values():
        assert package in text, f"{package} needs a tool line, or go.sum lacks what it needs"


def test_an_image_archive_is_the_same_for_the_same_input(tmp_path: Path) -> None:
    layers = [
        write_layer(tmp_path / f"{name}.tar", {"bin/x": b"x", "etc/y": b"y"}, {"bin/z": "x"}, {"bin": 0o755})
        for name in "ab"
    ]
    assert layers[0].read_bytes() == layers[1].read_bytes()
    folder = tmp_path / "root"
    (folder / "usr").mkdir(parents=True)
    (folder / "usr" / "file").write_text("text")
    packed = pack_layer(tmp_path / "packed.tar", folder)
    image = write_image(
        tmp_path / "image.tar", ["name:tag"], [layers[0], packed], ["/bin/x"], {"PATH": "/bin"}
    )
    assert image.stat().st_size > packed.stat().st_size
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(not Path("/sbin/ldconfig").exists(), reason="this system has no ldconfig")
def test_a_user_whose_path_lacks_ldconfig_can_unpack_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rootfs._unpack([], tmp_path / "root", ())
    assert (tmp_path / "root/etc/ld.so.cache").exists()
