"""The images that tests use, by the names that users' files give them: made here, kept in the cache, pulled from nowhere."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.testbed.images import debian
from tests.testbed.images.archive import pack_layer, write_image, write_layer
from tests.testbed.images.rootfs import compile_python, debian_layer
from tests.testbed.paths import PACKAGE, REPOSITORY, cache_folder
from tests.testbed.progress import Progress

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PAUSE = "testbed.invalid/pause:1"
BUSYBOX = "docker.io/library/busybox:1.36.1"
VCJOB = "testbed.invalid/vcjob:test"
GUIDE = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
BUSYBOX_NAMES = [BUSYBOX, "docker.io/library/busybox:latest", "docker.io/library/busybox:1.24"]
# Volcano's own end-to-end tests want this name; any image that sleeps and ends on SIGTERM will do.
SLEEPER = "docker.io/library/nginx:1.29.3-alpine"
#: Its shell is busybox alone, whose nc has no -z: no program in it can probe a port.
ASH = "testbed.invalid/ash:1"
PY_SPY = "testbed.invalid/py-spy:1"
#: How the names of layers with our wheel begin; what it needs lies in others.
_OUR_LAYER = "vcjob-compiled-"


# Comes with Debian's torch by way of MPI and graphics cards, and is a third of the image.
_LIBRARIES = "usr/lib/*-linux-gnu"
UNUSED_BY_TORCH = (
    "usr/lib/libtorch-test",
    *(f"{_LIBRARIES}/{name}" for name in ("libLLVM*", "libamd*", "libhsa*", "gconv")),
)


def shell_layer() -> Path:
    """busybox for the tools, bash for /bin/sh: it opens /dev/tcp, which Volcano's wait for the master falls back to.

    busybox's own nc is left out, because it has no -z and would be tried first.
    """
    debian.ensure()
    busybox, bash = Path("/bin/busybox"), Path("/bin/bash-static")
    applets = subprocess.run(
        [str(busybox), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    target = cache_folder() / "layers" / f"shell-{_hash(busybox, bash, inspect.getsource(shell_layer))}.tar"
    if not target.exists():
        taken = {"busybox", "sh", "bash", "nc", "python3"}
        write_layer(
            target,
            {
                "usr/bin/busybox": busybox,
                "usr/bin/bash": bash,
                "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
            },
            {"usr/bin/sh": "bash"} | {f"usr/bin/{name}": "busybox" for name in applets if name not in taken},
            {"usr": 0o755, "usr/bin": 0o755, "etc": 0o755, "tmp": 0o1777, "home": 0o755, "root": 0o700},
        )
    return target


def merged_usr_layer() -> Path:
    target = cache_folder() / "layers" / "merged-usr.tar"
    return target if target.exists() else write_layer(target, {}, {"bin": "usr/bin", "sbin": "usr/sbin"}, {})


def python_layer() -> Path:
    return debian_layer(["python3", "ca-certificates"], compiled=True)


def _python_version(layer: Path) -> str:
    listed = subprocess.run(["tar", "-tf", str(layer)], capture_output=True, text=True, check=True).stdout
    return next(
        line.split("/")[2].removeprefix("python")
        for line in listed.splitlines()
        if line.startswith("usr/lib/python3.")
    )


def vcjob_layers(base: Path) -> list[Path]:
    """What our wheel needs, and the wheel itself in a layer of its own, for that one changes all the time."""
    version = _python_version(base)
    needs = (
        cache_folder()
        / "layers"
        / f"vcjob-needs-compiled-{version}-{_hash(REPOSITORY / 'pyproject.toml')}.tar"
    )
    sources = sorted(
        path for path in (REPOSITORY / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    ours = (
        cache_folder()
        / "layers"
        / f"{_OUR_LAYER}{version}-{_hash(*sources, REPOSITORY / 'pyproject.toml')}.tar"
    )
    site = "usr/lib/python3/dist-packages"
    if not needs.exists() or not ours.exists():
        with (
            Progress("building our wheel for an image"),
            tempfile.TemporaryDirectory(prefix="vcjob-testbed-wheel-") as temporary,
        ):
            work = Path(temporary)
            wheel = _wheel(work)
            if not needs.exists():
                fetch = [
                    "install",
                    "-q",
                    "--no-compile",
                    "--only-binary=:all:",
                    "--python-version",
                    version,
                    "--target",
                    str(work / "needs" / site),
                ]
                _pip(*fetch, f"{wheel}[cluster]")
                for path in (work / "needs" / site).glob("vcjob*"):
                    shutil.rmtree(path)
                compile_python(work / "needs")
                pack_layer(needs, work / "needs")
            _pip(
                "install",
                "-q",
                "--no-deps",
                "--no-compile",
                "--python-version",
                version,
                "--only-binary=:all:",
                "--target",
                str(work / "ours" / site),
                str(wheel),
            )
            shutil.rmtree(work / "ours" / site / "bin")
            program = work / "ours/usr/local/bin/vcjob"
            program.parent.mkdir(parents=True)
            program.write_text(
                "#!/usr/bin/python3\nimport sys\nfrom vcjob.cli.main import main\nsys.exit(main())\n"
            )
            program.chmod(0o755)
            compile_python(work / "ours")
            pack_layer(ours, work / "ours")
    return [needs, ours]


def _wheel(work: Path) -> Path:
    """Built from a copy, so that no build folder appears in the repository."""
    copy = work / "copy"
    shutil.copytree(REPOSITORY / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (REPOSITORY / name).exists():
            shutil.copy(REPOSITORY / name, copy)
        else:
            (copy / name).touch()
    _pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(work / "wheel"), str(copy))
    return next((work / "wheel").glob("*.whl"))


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[-2000:]}")


def _pause() -> Path:
    return _image(
        "pause", [PAUSE], [merged_usr_layer(), shell_layer()], ["/usr/bin/busybox", "sleep", "infinity"]
    )


def _busybox() -> Path:
    return _image("busybox", BUSYBOX_NAMES, [merged_usr_layer(), shell_layer()], ["/bin/sh"])


def _ash() -> Path:
    layer = cache_folder() / "layers" / f"ash-{_hash(Path('/bin/busybox'))}.tar"
    if not layer.exists():
        folders = {"usr": 0o755, "usr/bin": 0o755, "tmp": 0o1777}
        write_layer(layer, {"usr/bin/busybox": Path("/bin/busybox")}, {"usr/bin/sh": "busybox"}, folders)
    return _image("ash", [ASH], [merged_usr_layer(), layer], ["/bin/sh"])


def _py_spy() -> Path:
    """Python and py-spy, the one of this Python environment."""
    program = Path(sys.executable).with_name("py-spy")
    layer = cache_folder() / "layers" / f"py-spy-{_hash(program)}.tar"
    if not layer.exists():
        write_layer(layer, {"usr/bin/py-spy": program}, {}, {"usr": 0o755, "usr/bin": 0o755})
    return _image("py-spy", [PY_SPY], [python_layer(), shell_layer(), layer], ["python3"])


def _sleeper() -> Path:
    command = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]
    return _image("sleeper", [SLEEPER], [merged_usr_layer(), shell_layer()], command)


def _vcjob() -> Path:
    base = python_layer()
    return _image("vcjob", [VCJOB], [base, shell_layer(), *vcjob_layers(base)], ["/usr/local/bin/vcjob"])


def _guide_layer() -> Path:
    program = PACKAGE / "images" / "sendrecv.py"
    target = cache_folder() / "layers" / f"sendrecv-{_hash(program)}.tar"
    return (
        target if target.exists() else write_layer(target, {"opt/sendrecv.py": program}, {}, {"opt": 0o755})
    )


def _guide_by_sockets() -> Path:
    return _image(
        "guide-sockets",
        [GUIDE],
        [python_layer(), shell_layer(), _guide_layer()],
        ["python3", "/opt/sendrecv.py"],
    )


def _guide_by_torch() -> Path:
    torch = debian_layer(["python3-torch"], "trixie", UNUSED_BY_TORCH)
    return _image(
        "guide-torch", [GUIDE], [torch, shell_layer(), _guide_layer()], ["python3", "/opt/sendrecv.py"]
    )


IMAGES: dict[str, Callable[[], Path]] = {
    "pause": _pause,
    "busybox": _busybox,
    "sleeper": _sleeper,
    "ash": _ash,
    "py-spy": _py_spy,
    "vcjob": _vcjob,
    "guide": _guide_by_sockets,
    "guide-torch": _guide_by_torch,
}


def image(name: str) -> Path:
    """The archive of an image, made now if it is not in the cache."""
    return IMAGES[name]()


def _image(name: str, names: list[str], layers: list[Path], command: list[str]) -> Path:
    key = hashlib.sha256(repr((names, [layer.name for layer in layers], command)).encode()).hexdigest()[:12]
    target = cache_folder() / "images" / f"{name}-{key}.tar"
    if not target.exists():
        write_image(target, names, layers, command, {"PATH": PATH, "PYTHONUNBUFFERED": "1", "HOME": "/root"})
        _forget_the_oldest(target.parent, rf"{name}-\w+\.tar")
        _forget_the_oldest(cache_folder() / "layers", rf"{_OUR_LAYER}[\d.]+-\w+\.tar")
    return target


def _forget_the_oldest(folder: Path, pattern: str, keep: int = 4) -> None:
    """Our own image is a new one after every change of the sources; the cache must not grow without end."""
    found = [path for path in folder.iterdir() if re.fullmatch(pattern, path.name)]
    for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-keep]:
        path.unlink(missing_ok=True)


def _hash(*inputs: Path | str) -> str:
    content = hashlib.sha256()
    for given in inputs:
        content.update(given.encode() if isinstance(given, str) else given.resolve().read_bytes())
    return content.hexdigest()[:12]
