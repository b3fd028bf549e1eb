"""The Helm chart says what `vcjob install` does."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.testbed import support
from tests.testbed.fixtures import need
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.settings import Settings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/vcjob"


def test_the_chart_is_current() -> None:
    wanted: dict[str, str] = runpy.run_path(str(ROOT / "scripts/make_chart.py"))["files"]()
    found = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert found == wanted, "python scripts/make_chart.py writes it anew"


def test_its_values_are_our_defaults() -> None:
    assert _rendered(
        yaml.safe_load((CHART / "values.yaml").read_text()), "vcjob-system"
    ) == controller_objects(Settings())


def test_what_is_chosen_arrives() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values |= {"image": "example.invalid/x:1", "replicas": 3, "gang": "none", "failurePolicy": "Fail"}
    chosen = Settings(
        namespace="there", image="example.invalid/x:1", replicas=3, gang="none", failure_policy="Fail"
    )
    assert _rendered(values, "there") == controller_objects(chosen)


def _rendered(values: dict[str, Any], namespace: str) -> list[Any]:
    """The template as Helm fills it in; it uses no more of Helm's language than this."""
    text = (CHART / "templates/controller.yaml").read_text()
    text = text.replace("{{ .Release.Namespace }}", namespace)
    text = re.sub(r"\{\{ \.Values\.(\w+) \| quote \}\}", lambda m: json.dumps(str(values[m[1]])), text)
    text = re.sub(r"\{\{ \.Values\.(\w+) \}\}", lambda m: str(values[m[1]]), text)
    assert "{{" not in text
    return list(yaml.safe_load_all(text))


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(1800)  # helm is built on the first run
def test_helm_itself_reads_it_so() -> None:
    import subprocess

    from tests.testbed.programs.builder import program

    need(support.control_plane_problem())
    done = subprocess.run(
        [
            str(program("helm")),
            "template",
            "vcjob",
            str(CHART),
            "-n",
            "vcjob-system",
            "--kube-version=1.35.4",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [document for document in yaml.safe_load_all(done.stdout) if document]
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in found}
    assert by_name == {
        (item["kind"], item["metadata"]["name"]): item for item in controller_objects(Settings())
    }
