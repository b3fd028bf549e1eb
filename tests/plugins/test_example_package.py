"""The example of a plugin package, installed as a user would install it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.packages import EXAMPLE, Packages, on_path
from vcjob.plugins import registry


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, installed as a user would, without a network."""
    target = tmp_path_factory.mktemp("packages")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(target), str(EXAMPLE)], check=True
    )
    return target


@pytest.fixture
def installed(target: Path) -> Iterator[Packages]:
    with on_path(target) as packages:
        yield packages


@pytest.mark.slow
def test_the_example_package_is_found_and_shapes_the_pods(installed: Packages) -> None:
    assert registry.names() == ["env", "pytorch", "shm", "svc"]
    said = installed.ask({"shm": ["--size=8Gi"]})
    assert said["problems"] == []
    assert [pod["spec"] for pod in said["pods"]] == [
        {
            "containers": [
                {"name": "main", "image": "i", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
            **{key: pod["spec"][key] for key in ("schedulerName",) if key in pod["spec"]},
        }
        for pod in said["pods"]
    ]


@pytest.mark.slow
def test_the_command_renders_the_examples_job(target: Path) -> None:
    sources = Path(registry.__file__).parents[2]
    call = "import sys; from vcjob.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", call, "render", str(EXAMPLE / "job.yaml"), "-o", "json"],
        env={"PYTHONPATH": f"{target}:{sources}", "PATH": "/usr/bin:/bin", "HOME": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"sizeLimit"' in done.stdout and '"8Gi"' in done.stdout


@pytest.mark.slow
def test_it_runs_behind_our_own(installed: Packages) -> None:
    said = installed.ask({"shm": [], "svc": []})
    assert [mount["name"] for mount in said["pods"][0]["spec"]["containers"][0]["volumeMounts"]] == [
        "job-svc",
        "shm",
    ]


@pytest.mark.slow
def test_its_problems_have_the_path_of_the_item(installed: Packages) -> None:
    said = installed.ask({"shm": ["--size=8GB", "--sise=1Gi"]}, volumes=[{"name": "shm", "emptyDir": {}}])
    assert said["problems"] == [
        ["error", "spec.plugins.shm[1]", "there is no argument `--sise`", "did you mean --size?"],
        ["error", "spec.plugins.shm[0]", "`8GB` is not a size", "write --size=8Gi"],
        [
            "error",
            "spec.tasks[0].template.spec.volumes[0].name",
            "the shm plugin uses the volume name `shm`",
            "rename this volume",
        ],
    ]
