"""Simulated container images: a folder of links as the only PATH, and the shell that is `sh` in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vcjob.plugins.wait import program

COREUTILS = ("timeout", "sleep", "date")


@dataclass(frozen=True)
class Image:
    """`tools` maps a name in the PATH to the program behind it; `shell` is what `sh` is."""

    shell: str
    tools: Mapping[str, str] = field(default_factory=dict)

    def commands(self) -> list[str]:
        """Every program of this machine that the image is made of."""
        return [self.shell, *self.tools.values()]


def plain(*names: str) -> dict[str, str]:
    return {name: name for name in names}


#: How each image is expected to probe; None: it has no way to.
IMAGES: dict[str, tuple[Image, str | None]] = {
    "dash, netcat-openbsd": (Image("dash", {"nc": "nc.openbsd", **plain(*COREUTILS)}), "nc -z"),
    "dash, netcat-traditional": (Image("dash", {"nc": "nc.traditional", **plain(*COREUTILS)}), "nc -z"),
    "dash, ncat": (Image("dash", {"nc": "ncat", **plain(*COREUTILS)}), "nc -z"),
    "bash, netcat-openbsd": (Image("bash", {"nc": "nc.openbsd", **plain(*COREUTILS)}), "nc -z"),
    "bash, no timeout, netcat-openbsd": (Image("bash", {"nc": "nc.openbsd", **plain("sleep")}), "nc -z"),
    "bash, no nc": (Image("bash", plain(*COREUTILS)), "/dev/tcp under timeout"),
    "bash, no nc, no timeout": (Image("bash", plain("sleep")), "/dev/tcp"),
    "dash, no nc, with bash": (Image("dash", plain(*COREUTILS, "bash")), "/dev/tcp under timeout"),
    "dash, no nc, no timeout, with bash": (Image("dash", plain("sleep", "bash")), "/dev/tcp"),
    "dash, no nc, python3": (Image("dash", plain(*COREUTILS, "python3")), "python3"),
    "dash, busybox nc without -z, python3": (
        Image("dash", {"nc": "busybox", **plain(*COREUTILS, "python3")}),
        "python3",
    ),
    "dash, no nc": (Image("dash", plain(*COREUTILS)), None),
    "busybox ash": (Image("busybox", {}), None),
    "busybox ash, netcat-openbsd": (Image("busybox", {"nc": "nc.openbsd"}), "nc -z"),
    "busybox ash, ncat": (Image("busybox", {"nc": "ncat"}), "nc -z"),
    "busybox ash, with bash": (Image("busybox", plain("bash")), "/dev/tcp under timeout"),
}


def build(image: Image, folder: Path) -> Path:
    """The folder that is the PATH of the image."""
    folder.mkdir()
    for name, target in {"sh": image.shell, **image.tools}.items():
        (folder / name).symlink_to(located(target))
    return folder


def located(command: str) -> str:
    if command == "python3":
        # The system's own, where there is one: any user can run it.
        return os.path.realpath("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable)
    found = shutil.which(command)
    assert found is not None, f"no {command} on this machine"
    return os.path.realpath(found)


def start(
    path: Path,
    host: str,
    port: int | str,
    timeout: int | str = 5,
    *,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    **popen: object,
) -> subprocess.Popen[str]:
    """The program in the image, started as a kubelet starts it: `sh -c PROGRAM`, and settings by env.

    `before` is put before the command, to enter a namespace or to change the user.
    """
    settings = {"VCJOB_WAIT_HOST": host, "VCJOB_WAIT_PORT": str(port), "VCJOB_WAIT_TIMEOUT": str(timeout)}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*before, str(path / "sh"), "-c", program()],
        env={"PATH": str(path), "RANK": "1", **settings, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **popen,
    )
