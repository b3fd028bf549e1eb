"""The Helm chart installs what `vcjob install` installs."""

from __future__ import annotations

import runpy
import subprocess
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
    assert found == wanted, "run `python scripts/make_chart.py`"


def test_its_plain_values_have_our_defaults() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    defaults = Settings()
    for value, (field, _) in runpy.run_path(str(ROOT / "scripts/make_chart.py"))["VALUES"].items():
        assert values[value] == getattr(defaults, field)


@pytest.mark.cluster
@pytest.mark.timeout(1800)  # helm is built on the first run
@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({}, {}),
        (
            {"image": "example.invalid/x:1", "replicas": 3, "gang": "none", "failurePolicy": "Fail"},
            {"image": "example.invalid/x:1", "replicas": 3, "gang": "none", "failure_policy": "Fail"},
        ),
        ({"webhook": False}, {"webhook": False}),
        ({"watchNamespaces": ["a", "b"]}, {"namespaces": ("a", "b")}),
        ({"besideVolcano": True}, {"beside_volcano": True}),
        (
            {"webhook": False, "watchNamespaces": ["a"], "besideVolcano": True},
            {"webhook": False, "namespaces": ("a",), "beside_volcano": True},
        ),
        ({"imagePullSecrets": [{"name": "registry"}]}, {"image_pull_secrets": ("registry",)}),
    ],
    ids=["defaults", "words", "no webhook", "namespaces", "beside volcano", "all at once", "pull secrets"],
)
def test_helm_renders_what_install_applies(values: dict[str, Any], settings: dict[str, Any]) -> None:
    assert by_name(helm_template(values)) == by_name(controller_objects(Settings(**settings)))


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_helm_places_the_pods_and_monitors_them_as_chosen() -> None:
    placement = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
    }
    monitor = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
    found = {
        kind: document for (kind, *_), document in by_name(helm_template({**placement, **monitor})).items()
    }
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert {field: pod[field] for field in placement} == placement
    monitored = found["ServiceMonitor"]
    assert monitored["metadata"]["labels"]["release"] == "prometheus"
    (service,) = (
        item for item in controller_objects(Settings()) if item["metadata"]["name"] == "vcjob-metrics"
    )
    assert monitored["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitored["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def helm_template(values: dict[str, Any]) -> list[Any]:
    from tests.testbed.programs.builder import program

    need(support.control_plane_problem())
    command = [str(program("helm")), "template", "vcjob", str(CHART), "-n", "vcjob-system", "-f", "-"]
    done = subprocess.run(
        [*command, "--kube-version=1.35.4"],
        capture_output=True,
        text=True,
        check=True,
        input=yaml.safe_dump(values),
    )
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def by_name(documents: list[Any]) -> dict[tuple[str, str, str], Any]:
    """Documents by kind, name and namespace; the order of arguments and rules does not matter."""
    found = {}
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["template"]["spec"]["containers"][0]["args"].sort()
        if "rules" in document:
            document["rules"].sort(key=str)
        metadata = document["metadata"]
        found[document["kind"], metadata["name"], metadata.get("namespace", "")] = document
    assert len(found) == len(documents)
    return found
