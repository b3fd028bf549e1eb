from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.wait_for_master.images import IMAGES, build


def absent(reason: str) -> None:
    """Skip the test, or fail it where all tests are required to run."""
    if os.environ.get("VCJOB_TESTBED") == "require":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def paths() -> Iterator[dict[str, Path]]:
    """The PATH of every image, by the image's name."""
    commands = {command for image, _ in IMAGES.values() for command in image.commands()} - {"python3"}
    missing = sorted(command for command in commands if shutil.which(command) is None)
    if missing:
        absent(
            f"not on this machine: {', '.join(missing)} (their packages stand in tests/debian-packages.txt)"
        )
    with tempfile.TemporaryDirectory() as root:
        # Other users must reach it, too.
        os.chmod(root, 0o755)
        yield {
            name: build(image, Path(root, str(number)))
            for number, (name, (image, _)) in enumerate(IMAGES.items())
        }


@pytest.fixture(scope="session")
def namespaces() -> list[str]:
    """The command that enters new namespaces for network, mounts and processes; all processes end with the first."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        absent("not on this machine: unshare or ip (their packages stand in tests/debian-packages.txt)")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = [str(unshare), *user, "--net", "--mount", "--pid", "--fork", "--kill-child"]
    try_out = [*enter, "ip", "link", "add", "swallow", "type", "veth"]
    tried = subprocess.run(try_out, capture_output=True, text=True, timeout=20)
    if tried.returncode:
        absent(f"no namespaces here: {tried.stderr.strip()}")
    return enter


@pytest.fixture
def master() -> Iterator[socket.socket]:
    """A port of this machine that is bound but not listening; `listen()` starts the master."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held
