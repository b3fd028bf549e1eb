"""What an installation consists of."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from vcjob.cli.main import main
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.manifests import manifests
from vcjob.cluster.install.objects.structural import fields, structural
from vcjob.cluster.install.objects.workload import settings_of
from vcjob.cluster.install.settings import MANAGED_BY, Settings
from vcjob.spec.field_docs import own_paths
from vcjob.spec.schema import job_schema

Object = dict[str, Any]


def by_kind(kind: str, **settings: Any) -> list[Object]:
    return [found for found in manifests(Settings(**settings)) if found["kind"] == kind]


def test_everything_is_labelled_as_ours() -> None:
    for found in manifests(Settings()):
        assert found["metadata"]["labels"][MANAGED_BY] == "vcjob", found["metadata"]["name"]


def test_the_kinds_have_volcanos_names() -> None:
    names = {
        found["metadata"]["name"]: (
            found["spec"]["versions"][0]["name"],
            found["spec"]["names"].get("shortNames"),
            found["spec"]["scope"],
        )
        for found in crds.definitions()
    }
    assert names == {
        "jobs.batch.volcano.sh": ("v1alpha1", ["vcjob", "vj"], "Namespaced"),
        "commands.bus.volcano.sh": ("v1alpha1", None, "Namespaced"),
        "podgroups.scheduling.volcano.sh": ("v1beta1", ["pg", "podgroup-v1beta1"], "Namespaced"),
        "queues.scheduling.volcano.sh": ("v1beta1", ["q", "queue-v1beta1"], "Cluster"),
    }


def test_the_definition_knows_every_field_of_the_schema() -> None:
    whole = job_schema()
    known = fields(crds.job_spec())
    assert {"suspend", "activeDeadlineSeconds", "tasks[].partitionPolicy.minPartitions"} <= known
    assert "tasks[].template.spec.containers[].livenessProbe.httpGet.httpHeaders[].name" in known
    assert fields(structural(whole["properties"]["spec"], whole["$defs"])) == known


def test_kubectl_explains_every_field_that_is_not_kubernetes_own() -> None:
    spec = crds.job_spec()
    undescribed = []
    for path in own_paths():
        node, (first, *names) = spec, path.split(".")
        for name in names if first == "spec" else ():
            node = node.get("items", node)["properties"][name]
        if first == "spec" and not node.get("description"):
            undescribed.append(path)
    assert undescribed == []
    assert spec["properties"]["plugins"]["description"].startswith("The plugins of the Job")
    assert spec["properties"]["maxRetry"]["description"].endswith(" Default: 3.")
    estimate = spec["properties"]["runningEstimate"]["description"]
    assert estimate.endswith(" for schedulers. A duration such as `90s`, `10m` or `1h30m`.")


def _nodes(schema: Any) -> list[Object]:
    found = [schema]
    for inner in (schema.get("properties") or {}).values():
        found += _nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += _nodes(schema[key])
    return found


def test_the_schema_is_structural() -> None:
    for definition in crds.definitions():
        for node in _nodes(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
            assert isinstance(node.get("type", ""), str)
            assert ("type" in node) != ("x-kubernetes-int-or-string" in node)
            assert "$ref" not in node
            assert None not in node.get("enum", [])
            assert not ("properties" in node and "additionalProperties" in node)


def test_no_role_has_a_wildcard_or_a_secret_of_others() -> None:
    for settings in (Settings(), Settings(namespaces=("a", "b"))):
        for found in manifests(settings):
            for rule in found.get("rules") or []:
                assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
                assert not {"escalate", "bind", "impersonate"} & {*rule["verbs"]}
                assert "deletecollection" not in rule["verbs"] or found["metadata"]["name"] == "vcjob-edit"
                if "secrets" in rule["resources"]:
                    assert found["kind"] == "Role"
                    assert rule["resourceNames"] == ["vcjob-webhook-tls"]


def test_served_namespaces_keep_the_rights_there() -> None:
    bound = {found["roleRef"]["name"] for found in by_kind("ClusterRoleBinding", namespaces=("a", "b"))}
    everywhere = {
        resource
        for found in by_kind("ClusterRole", namespaces=("a", "b"))
        if found["metadata"]["name"] in bound
        for rule in found["rules"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"} and "resourceNames" not in rule
    }
    assert everywhere == {"subjectaccessreviews"}, "creating a review stores nothing"
    roles = {
        (found["metadata"]["namespace"], found["metadata"]["name"])
        for found in by_kind("Role", namespaces=("a", "b"))
    }
    assert {("a", "vcjob-controller-jobs"), ("b", "vcjob-controller-jobs")} <= roles
    (hooks,) = by_kind("ValidatingWebhookConfiguration", namespaces=("a", "b"))
    assert hooks["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"] == ["a", "b"]


def test_the_users_of_a_namespace_get_rights_through_the_clusters_own_roles() -> None:
    roles = {found["metadata"]["name"]: found for found in by_kind("ClusterRole")}
    for name, targets in (("vcjob-view", {"view", "edit", "admin"}), ("vcjob-edit", {"edit", "admin"})):
        prefix = "rbac.authorization.k8s.io/aggregate-to-"
        labels = roles[name]["metadata"]["labels"]
        assert {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} == targets
    granted = {verb for rule in roles["vcjob-view"]["rules"] for verb in rule["verbs"]}
    assert granted == {"get", "list", "watch"}
    assert {name for rule in roles["vcjob-edit"]["rules"] for name in rule["resources"]} == {
        "jobs",
        "commands",
    }
    for rule in roles["vcjob-edit"]["rules"]:  # as for the kinds in the cluster's own role `edit`
        assert {"create", "delete", "deletecollection"} <= {*rule["verbs"]}


def test_the_pods_are_restricted() -> None:
    (deployment,) = by_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert by_kind("PodDisruptionBudget")[0]["spec"]["minAvailable"] == 1
    (home,) = by_kind("Namespace")
    assert home["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_webhooks_ask_about_jobs_alone_and_never_hold_them_up() -> None:
    hooks = [
        hook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for found in by_kind(kind)
        for hook in found["webhooks"]
    ]
    assert {hook["name"] for hook in hooks} == {"mutate.jobs.vcjob.io", "validate.jobs.vcjob.io"}
    for hook in hooks:
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"]) == (["batch.volcano.sh"], ["jobs"])
        assert hook["failurePolicy"] == "Ignore"
        assert hook["sideEffects"] == "None"
        assert hook["timeoutSeconds"] <= 5
        assert "caBundle" not in hook["clientConfig"]
    assert (
        by_kind("MutatingWebhookConfiguration", failure_policy="Fail")[0]["webhooks"][0]["failurePolicy"]
        == "Fail"
    )


def test_without_the_webhook_nothing_of_it_is_made() -> None:
    kinds = {found["kind"] for found in manifests(Settings(webhook=False))}
    assert not kinds & {"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    assert [found["metadata"]["name"] for found in by_kind("Service", webhook=False)] == ["vcjob-metrics"]
    (deployment,) = by_kind("Deployment", webhook=False)
    assert "--no-webhook" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_manifests_are_printed_without_a_cluster(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "-o", output, "--image", "registry.invalid/vcjob:7", "-n", "elsewhere"]) == 0
    text = capsys.readouterr().out
    found = json.loads(text)["items"] if output == "json" else list(yaml.load_all(text, yaml.CSafeLoader))
    assert found == manifests(Settings(image="registry.invalid/vcjob:7", namespace="elsewhere"))


def test_the_controller_understands_the_arguments_that_it_is_given() -> None:
    from vcjob.cli.controller import command
    from vcjob.cluster.install.objects.workload import arguments

    settings = Settings(namespaces=("a", "b"), webhook=False, beside_volcano=True, gang="none")
    verb, *words = arguments(settings)
    assert verb == "controller"
    with command.make_context("controller", words) as context:
        assert context.params["namespaces"] == ("a", "b")
        assert context.params["lease_namespace"] == "vcjob-system"
        assert not context.params["webhook"]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(namespace="there", namespaces=("a", "b"), beside_volcano=True, webhook=False),
        Settings(failure_logs=False),
        Settings(volcano_namespace="other"),
    ],
)
def test_the_settings_of_an_installed_controller_can_be_read_back(settings: Settings) -> None:
    (deployment,) = (found for found in manifests(settings) if found["kind"] == "Deployment")
    assert settings_of(deployment) == settings


def test_without_a_kubeconfig_it_says_so(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for verb in ("install", "uninstall", "controller"):
        assert main([verb]) == 3
        assert "there is no kubeconfig" in capsys.readouterr().err
