"""What `uninstall` deletes with the namespace of an installation, and what makes it keep the namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web

from tests.kube.conftest import config_for
from tests.kube.fake_api import FakeApi, refuse, served
from vcjob.cluster.install import remove
from vcjob.cluster.install.remove import uninstall
from vcjob.cluster.install.settings import LEASE, OURS
from vcjob.errors import BackendError
from vcjob.kube.api import discovery
from vcjob.kube.api.client import Client
from vcjob.kube.http.transport import Transport

HOME = "vcjob-system"
SERVED = {
    "v1": [
        served("configmaps", "ConfigMap"),
        served("serviceaccounts", "ServiceAccount"),
        served("events", "Event"),
        served("pods/exec", "PodExecOptions", ()),
    ],
    "apps/v1": [served("statefulsets", "StatefulSet")],
    "coordination.k8s.io/v1": [served("leases", "Lease")],
    "metrics.k8s.io/v1beta1": [served("pods", "PodMetrics", ("list",))],
    "example.io/v2": [served("widgets", "Widget")],
    "example.io/v1": [served("widgets", "Widget")],
    "batch.volcano.sh/v1alpha1": [served("jobs", "Job")],
}


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A server with an installation, and what Kubernetes puts into every namespace."""
    async with FakeApi() as made:
        made.served = SERVED
        await made.put("namespaces", HOME, "", metadata={"labels": OURS})
        await made.put("configmaps", "kube-root-ca.crt", HOME)
        await made.put("serviceaccounts", "default", HOME)
        await made.put("leases", "somebody-elses", HOME)
        await made.put("services", "vcjob-webhook", HOME, metadata={"labels": OURS})
        yield made


async def removed(api: FakeApi, *, delete_jobs: bool = False) -> tuple[list[str], list[str]]:
    """The changes and the notes of `uninstall`."""
    config = config_for(api)
    async with Client(config, transport=Transport(config, retry_seconds=0.0)) as client:
        report = await uninstall(client, HOME, delete_jobs=delete_jobs)
    return [str(change) for change in report.changes], report.notes


@pytest.mark.asyncio
async def test_a_namespace_with_nothing_of_anybody_else_is_deleted(api: FakeApi) -> None:
    changes, notes = await removed(api)
    assert changes == ["Service vcjob-webhook: removed", f"Namespace {HOME}: removed"]
    assert notes == []
    assert api.count("GET", "widgets") == 1  # in one of its versions
    assert api.count("GET", "/apis/metrics.k8s.io/") == 1  # nothing there can be deleted


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("jobs", "Job"),
        ("statefulsets", "StatefulSet"),
        ("serviceaccounts", "ServiceAccount"),
        ("widgets", "Widget"),
    ],
)
async def test_a_namespace_with_any_object_of_somebody_else_stays(
    api: FakeApi, plural: str, kind: str
) -> None:
    await api.put(plural, "mine", HOME)
    changes, notes = await removed(api)
    assert changes[-1] == f"Namespace {HOME}: kept"
    assert notes == [f"the namespace {HOME} stays because it contains somebody else's {kind} mine"]
    assert (plural, HOME, "mine") in api.objects


@pytest.mark.asyncio
async def test_a_namespace_whose_objects_may_not_be_listed_stays(api: FakeApi) -> None:
    api.on_next("GET", "statefulsets", refuse(403, "Forbidden", "you may not list statefulsets"))
    changes, notes = await removed(api)
    assert changes[-1] == f"Namespace {HOME}: kept"
    assert "its statefulsets cannot be listed" in notes[0]
    assert "you may not list statefulsets" in notes[0]


@pytest.mark.asyncio
async def test_a_namespace_stays_while_an_api_group_does_not_answer(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_RETRY_SECONDS", 0.0)
    api.on_next("GET", "/apis/example.io/v1", refuse(503, "ServiceUnavailable", "no endpoints"), times=100)
    changes, notes = await removed(api)
    assert changes[-1] == f"Namespace {HOME}: kept"
    assert "cannot be listed" in notes[0]
    assert "/apis/example.io/v1" in notes[0]


@pytest.mark.asyncio
async def test_a_kind_whose_definition_was_just_deleted_has_no_objects(api: FakeApi) -> None:
    api.on_next("GET", "/apis/example.io/v2/", refuse(404, "NotFound", "the server could not find it"))
    api.on_next("GET", "/apis/example.io/v1", refuse(404, "NotFound", "the server could not find it"))
    changes, _ = await removed(api)
    assert changes[-1] == f"Namespace {HOME}: removed"


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove, "_WAIT_SECONDS", 0.0)


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_patience")
async def test_the_lease_stays_while_pods_of_the_controller_have_not_ended(api: FakeApi) -> None:
    await api.put("pods", "controller-1", HOME, metadata={"labels": OURS})
    await api.put("leases", LEASE, HOME)
    with pytest.raises(BackendError, match="have not ended after 0 s: controller-1") as raised:
        await removed(api)
    assert "run `vcjob uninstall` again" in (raised.value.hint or "")
    assert ("leases", HOME, LEASE) in api.objects
    await api.drop("pods", "controller-1", HOME)
    changes, _ = await removed(api)
    assert ("leases", HOME, LEASE) not in api.objects
    assert changes == [f"Namespace {HOME}: removed"], "the second call completes the first"


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_patience")
async def test_a_namespace_that_a_finalizer_holds_is_not_reported_as_removed(api: FakeApi) -> None:
    async def hold(request: web.Request) -> web.StreamResponse | None:
        return web.json_response({}) if request.path == f"/api/v1/namespaces/{HOME}" else None

    api.on_next("DELETE", HOME, hold, times=10)
    with pytest.raises(BackendError, match=f"the Namespace {HOME} is still terminating") as raised:
        await removed(api)
    assert f"`kubectl get namespaces {HOME} -o yaml`" in (raised.value.hint or "")


@pytest.mark.asyncio
@pytest.mark.parametrize(("count", "line"), [(0, None), (1, "1 Job: removed"), (3, "3 Jobs: removed")])
async def test_the_deleted_jobs_are_counted(api: FakeApi, count: int, line: str | None) -> None:
    for number in range(count):
        await api.put("jobs", f"job-{number}", "team")
    changes, _ = await removed(api, delete_jobs=True)
    assert [change for change in changes if "Job" in change] == ([line] if line else [])
    assert "jobs" not in {plural for plural, _, _ in api.objects}
