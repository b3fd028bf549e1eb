"""What `vcjob doctor --on cluster` reports about the controller and its webhook."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.testbed.programs.families import KUBERNETES_VERSIONS
from vcjob.cluster.install import doctor
from vcjob.cluster.install.objects.manifests import manifests
from vcjob.cluster.install.settings import SUPPORTED_KUBERNETES, Settings
from vcjob.kube.api.resources import CLUSTER_ROLE_BINDINGS, DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS
from vcjob.kube.errors import ApiError, Forbidden, NotFound

DENIED = ApiError(422, server_message='admission webhook "mutate.jobs.vcjob.io" denied the request: no')
UNREACHED = ApiError(500, server_message='failed calling webhook "mutate.jobs.vcjob.io": no endpoints')


class Cluster:
    """Answers reads with the manifests of an installation, and a dry run of a Job with `review`."""

    def __init__(
        self, settings: Settings, *, review: Exception | None = DENIED, readable: bool = True
    ) -> None:
        self._review = review
        self._readable = readable
        self._objects = {(found["kind"], found["metadata"]["name"]): found for found in manifests(settings)}
        for hook in self._objects.get(("MutatingWebhookConfiguration", "vcjob-jobs"), {}).get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = "Y2E="
        deployment = self._objects["Deployment", "vcjob-controller"]
        replicas = deployment["spec"]["replicas"]
        names = ("replicas", "updatedReplicas", "availableReplicas")
        deployment["status"] = dict.fromkeys(names, replicas)
        renewed = datetime.now(UTC).isoformat()
        lease = {"spec": {"holderIdentity": "a", "renewTime": renewed, "leaseDurationSeconds": 600}}
        self._objects["Lease", "vcjob-controller"] = lease

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> Any:
        assert resource in (DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, CLUSTER_ROLE_BINDINGS)
        if not self._readable:
            raise Forbidden(403)
        try:
            return self._objects[resource.kind, name]
        except KeyError:
            raise NotFound(404) from None

    async def create(self, resource: Any, body: Any, namespace: str, *, dry_run: bool) -> None:
        assert dry_run
        if self._review is not None:
            raise self._review


@pytest.mark.parametrize(
    ("version", "standing", "text"),
    [
        ("v1.32.9", "note", "is Kubernetes v1.32.9; versions before 1.33 are not tested"),
        ("v1.33.0", "ok", "is Kubernetes v1.33.0"),
        ("v1.36.3-gke.1", "ok", "is Kubernetes v1.36.3-gke.1"),
        ("unknown", "note", "has an unknown version: unknown"),
    ],
)
def test_a_kubernetes_that_is_older_than_those_of_the_tests_is_noted(
    version: str, standing: str, text: str
) -> None:
    check = doctor._version(version, "https://here")
    assert (check.standing, check.message) == (standing, f"https://here {text}")


def test_the_supported_kubernetes_minors_are_those_that_the_testbed_can_run() -> None:
    assert tuple(KUBERNETES_VERSIONS) == SUPPORTED_KUBERNETES


@pytest.mark.parametrize(
    ("policy", "review", "standing", "text"),
    [
        ("Ignore", DENIED, "ok", "answers the API server"),
        ("Ignore", None, "missing", "a dry run of an invalid Job was accepted (failurePolicy Ignore)"),
        ("Fail", UNREACHED, "missing", "refuses every Job until it does (failurePolicy Fail)"),
    ],
)
async def test_the_webhook_is_reported_by_its_failure_policy(
    policy: Any, review: Exception | None, standing: str, text: str
) -> None:
    settings = Settings(failure_policy=policy)
    check = await doctor._webhook(Cluster(settings, review=review), settings, "team")  # type: ignore[arg-type]
    assert (check.standing, text in check.message) == (standing, True), check.message


async def test_a_namespace_that_the_controller_does_not_serve_is_reported() -> None:
    settings = Settings(namespaces=("a", "b"))
    cluster: Any = Cluster(settings)
    refused = await doctor._controller(cluster, settings, "team")
    assert (refused.standing, refused.message) == (
        "missing",
        "does not serve namespace team: it serves a, b only",
    )
    assert (await doctor._controller(cluster, settings, "a")).standing == "ok"


async def test_the_installation_is_found_in_its_namespace_with_its_options() -> None:
    settings = Settings(namespace="elsewhere", beside_volcano=True, namespaces=("a",))
    cluster: Any = Cluster(settings)
    assert await doctor.installed_settings(cluster, None) == settings


async def test_without_the_right_to_see_the_installation_the_defaults_are_assumed() -> None:
    cluster: Any = Cluster(Settings(namespace="elsewhere"), readable=False)
    assert await doctor.installed_settings(cluster, None) == Settings()
    assert await doctor.installed_settings(cluster, "other") == Settings(namespace="other")
