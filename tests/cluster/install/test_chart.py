"""The Helm chart installs what `vcjob install` installs."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.release import package_chart
from tests.testbed import support
from tests.testbed.fixtures import need
from vcjob.cli.ui import command as ui_command
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.settings import Settings
from vcjob.cluster.process.metrics import Metrics

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/vcjob"
DASHBOARD = CHART / "dashboards/vcjob.json"


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
        ({"failureLogs": False}, {"failure_logs": False}),
        (
            {"webhook": False, "watchNamespaces": ["a"], "besideVolcano": True},
            {"webhook": False, "namespaces": ("a",), "beside_volcano": True},
        ),
        ({"imagePullSecrets": [{"name": "registry"}]}, {"image_pull_secrets": ("registry",)}),
    ],
    ids=[
        "defaults",
        "words",
        "no webhook",
        "namespaces",
        "beside volcano",
        "no failure logs",
        "all at once",
        "pull secrets",
    ],
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


PROXY = {"name": "proxy", "image": "proxy:1", "args": ["--upstream=http://127.0.0.1:8090"]}


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_the_ui_listens_for_its_proxy_alone_and_its_account_may_only_impersonate() -> None:
    ui = {"enabled": True, "proxy": PROXY, "namespace": "team", "secretName": "shared", "groups": ["ml"]}
    found = by_name(helm_template({"ui": ui}))
    ours = {key: document for key, document in found.items() if key[1] == "vcjob-ui"}
    assert {key[0] for key in ours} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "NetworkPolicy", "Deployment",
    }  # fmt: skip
    assert found[("ClusterRole", "vcjob-ui", "")]["rules"] == [
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["ml"]},
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
    ]
    pod = found["Deployment", "vcjob-ui", "vcjob-system"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    server, proxy = pod["containers"]
    assert proxy == PROXY, "the proxy gets no token of the account"
    assert "ports" not in server, "it listens on the loopback address only"
    options = [word for word in server["args"] if word != "ui"]
    given = ui_command.make_context("ui", options, resilient_parsing=True).params
    assert given["behind_proxy"] and given["on"] == "cluster" and given["namespace"] == "team"


class Refusing(BaseHTTPRequestHandler):
    """As the UI does with a request without a user."""

    def do_GET(self) -> None:
        self.send_error(403)


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_the_probes_of_the_ui_see_whether_it_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as listening:
        ui = {"enabled": True, "proxy": PROXY, "loopbackPort": listening.server_port}
        found = by_name(helm_template({"ui": ui}))
        server = found["Deployment", "vcjob-ui", "vcjob-system"]["spec"]["template"]["spec"]["containers"][0]
        probes = [server[name]["exec"]["command"] for name in ("readinessProbe", "livenessProbe")]
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            assert [subprocess.run(probe, timeout=60).returncode for probe in probes] == [0, 0]
        finally:
            listening.shutdown()
            thread.join()
    assert all(subprocess.run(probe, timeout=60).returncode for probe in probes)


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_the_ui_is_not_installed_without_a_proxy() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        helm_template({"ui": {"enabled": True}})
    assert "ui.proxy is required" in refused.value.stderr


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_the_dashboard_is_a_config_map_for_grafanas_sidecar() -> None:
    found = by_name(helm_template({"dashboard": {"enabled": True}}))
    dashboard = found["ConfigMap", "vcjob-dashboard", "vcjob-system"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["vcjob.json"]) == json.loads(DASHBOARD.read_text())


def test_every_metric_of_the_dashboard_is_exported_with_its_labels() -> None:
    exported: dict[str, set[str]] = {}
    for family in busy_metrics().registry.collect():
        for sample in family.samples:
            exported.setdefault(sample.name, set()).update(sample.labels)
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queried: set[str] = set()
    for expression in (target["expr"] for panel in panels for target in panel["targets"]):
        names = set(re.findall(r"vcjob_\w+", expression))
        assert names and names <= set(exported), expression
        labels = {
            label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")
        } | set(re.findall(r"(\w+)[=!]", expression))
        assert labels <= set.union(*(exported[name] for name in names)), expression
        queried |= names
    unused = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in exported}
    assert unused == {name.removesuffix("_bucket").removesuffix("_count") for name in queried}, (
        "a metric without a panel"
    )


def busy_metrics() -> Metrics:
    """The metrics of a controller that has done everything once."""
    metrics = Metrics()
    metrics.phase_changed("Running")
    metrics.reconciled(0.01, False)
    metrics.waited(0.01)
    metrics.all_pods(1.0)
    metrics.restarted("PodFailed")
    metrics.reviewed("validate", 200, 0.01)
    metrics.requested("create", "pods", 201, 0.01)
    return metrics


def test_the_panels_of_the_dashboard_have_titles_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert panel["title"] and not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_helm_lint_finds_nothing_in_the_chart_as_it_is_released(tmp_path: Path) -> None:
    package_chart(CHART, tmp_path / "vcjob.tgz", 1_700_000_000)
    done = subprocess.run(
        [helm(), "lint", "--strict", str(tmp_path / "vcjob.tgz")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[ERROR]" not in done.stdout and "[WARNING]" not in done.stdout


def helm() -> str:
    from tests.testbed.programs.builder import program

    need(support.control_plane_problem())
    return str(program("helm"))


def helm_template(values: dict[str, Any]) -> list[Any]:
    command = [helm(), "template", "vcjob", str(CHART), "-n", "vcjob-system", "-f", "-"]
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
