"""The commands of the pages on tasks for a cluster run on a real one as the pages show them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.controller.conftest import ControllerCluster
from tests.docs.pages import Command
from tests.docs.shell import Shell
from tests.testbed.paths import REPOSITORY

pytestmark = pytest.mark.cluster


def why_not(command: Command) -> str | None:
    """Commands of an administrator are tested in tests/cluster/install."""
    words = command.words[0]
    if words[0] != "vcjob" or words[1] in ("install", "doctor"):
        return "needs the rights of an administrator, or another program"
    return None


@pytest.mark.parametrize("page", ["kubernetes", "volcano-scheduler"])
def test_the_commands_of_a_page_run_on_a_cluster_as_shown(
    testbed: ControllerCluster, tmp_path: Path, page: str
) -> None:
    settings = yaml.safe_load(testbed.cluster.kubeconfig.read_text())
    for context in settings["contexts"]:
        context["context"]["namespace"] = testbed.namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(settings))
    shell = Shell(tmp_path, why_not, KUBECONFIG=str(tmp_path / "kubeconfig"))
    shell.follow(REPOSITORY / f"docs/tasks/{page}.md")
