"""The page in a real Chromium over jobs of a real cluster: views, actions, and what a read-only account sees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cluster.client.conftest import container, job, task, testbed
from tests.cluster.controller.conftest import ControllerCluster, crds
from tests.kube.conftest import api
from tests.ui.conftest import Server, act, serving, suspend_resume_and_restart, wait_for_phase

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["api", "crds", "testbed"]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

SLEEP = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
TALK = f"echo prepared for training; for n in 1 2 3; do echo step $n/9 loss 0.$n; done; {SLEEP}"


@pytest.fixture(scope="module")
def server(testbed: ControllerCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--kubeconfig", str(testbed.cluster.kubeconfig), "-n", testbed.namespace)
    with serving(tmp_path_factory.mktemp("ui"), *options) as server:
        yield server


@pytest.fixture(scope="module")
def talking(testbed: ControllerCluster) -> None:
    testbed.create(job("talking", task("worker", container(TALK), replicas=2)))
    testbed.wait_phase("talking", "Running")


def open_job(page: Page, name: str, tab: str = "Logs") -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    page.get_by_role("tab", name=tab, exact=True).click()


def test_the_list_and_every_tab_of_a_job(page: Page, testbed: ControllerCluster, talking: None) -> None:
    page.get_by_text(testbed.namespace).first.wait_for()
    open_job(page, "talking")
    log = page.get_by_role("log")
    log.get_by_text("prepared for training").nth(1).wait_for()
    page.get_by_role("button", name=re.compile(r"^worker-1:")).click()
    page.locator(".chip", has_text="worker-1").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.logs .line').length === 4")
    page.get_by_role("tab", name="Ranks").click()
    page.get_by_text("kubectl top pod").wait_for()
    node = testbed.pods()[0]["spec"]["nodeName"]
    page.get_by_role("cell", name=node).first.wait_for()
    page.get_by_role("tab", name="Events").click()
    page.get_by_role("cell", name="Started").first.wait_for()
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("img", name=re.compile("worker-1")).wait_for()
    page.get_by_role("tab", name="Attempts").click()
    page.get_by_role("columnheader", name="0 (newest)").wait_for()
    page.get_by_role("tab", name="Manifest").click()
    page.locator("#panel pre", has_text="minAvailable: 2").wait_for()
    page.get_by_role("button", name="Differences").click()
    page.locator(".diff .added", has_text="volcano.sh/task-index").first.wait_for()


@pytest.mark.console_errors
def test_a_job_whose_source_the_cluster_did_not_keep_says_so(page: Page, talking: None) -> None:
    """Chromium logs the refusal as an error."""
    open_job(page, "talking", "Manifest")
    page.get_by_role("button", name="As written").click()
    page.get_by_text("the cluster keeps it only for `kubectl apply`").wait_for()


def test_the_log_of_a_single_pod_shows_the_progress_of_the_job(
    page: Page, testbed: ControllerCluster
) -> None:
    testbed.create(job("single", task("main", container(TALK))))
    testbed.wait_phase("single", "Running")
    open_job(page, "single")
    page.get_by_role("img", name="Loss: 0.1 → 0.3").wait_for()


@pytest.mark.console_errors
def test_a_job_is_checked_submitted_and_every_action_asks_and_acts(page: Page) -> None:
    """Chromium logs the 422 of the wrong Job as an error."""
    page.get_by_role("button", name="Run a Job").click()
    text = page.get_by_label("Job file").first
    submitted = job("acted", task("a", container(SLEEP)), minAvailable="x")
    text.fill(json.dumps(submitted, indent=1))
    page.get_by_role("button", name=re.compile(r"^\d+:\d+$")).first.click()
    assert "minAvailable" in text.evaluate("e => e.value.slice(e.selectionStart, e.selectionEnd)")
    submitted["spec"]["minAvailable"] = 1
    text.fill(json.dumps(submitted, indent=1))
    page.get_by_text("The Job is valid").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    wait_for_phase(page, "Running")
    suspend_resume_and_restart(page)
    act(page, "Stop")
    wait_for_phase(page, "Terminated")
    act(page, "Delete")
    page.get_by_role("heading", name="Jobs").wait_for()
    page.get_by_role("link", name="acted", exact=True).wait_for(state="detached")


def test_a_job_is_completed(page: Page, testbed: ControllerCluster) -> None:
    testbed.create(job("completed", task("a", container(SLEEP))))
    testbed.wait_phase("completed", "Running")
    open_job(page, "completed")
    act(page, "Complete")
    wait_for_phase(page, "Completed")


@pytest.fixture
def reader(testbed: ControllerCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a user who may read Jobs, pods and logs, but not events, and may change nothing."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{testbed.namespace}"
    verbs = ["get", "list", "watch"]
    rules = [
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": verbs},
    ]
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ui-reader"}],
    }
    testbed.api.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    testbed.api.create(f"{rbac}/rolebindings", binding)
    kubeconfig = str(testbed.cluster.identity("ui-reader"))
    server = Server(tmp_path_factory.mktemp("reader"), "--kubeconfig", kubeconfig, "-n", testbed.namespace)
    yield server
    server.kill()


def test_a_read_only_account_sees_the_job_and_why_it_may_not_act(
    reader: Server, browser: Browser, testbed: ControllerCluster, talking: None
) -> None:
    page = browser.new_page()
    page.goto(reader.url)
    open_job(page, "talking")
    page.get_by_role("log").get_by_text("prepared for training").first.wait_for()
    refused = f"you may not create commands.bus.volcano.sh in the namespace '{testbed.namespace}'"
    page.get_by_text(refused).wait_for()
    for action in ("Suspend", "Restart", "Complete", "Stop", "Delete"):
        assert page.get_by_role("button", name=action, exact=True).is_disabled()
    panel = page.locator(".panel", has_text="What you may not see")
    panel.get_by_text("you may not list events").wait_for()
    page.get_by_role("button", name="Run a Job").click()
    page.get_by_role("status").get_by_text("you may not create jobs.batch.volcano.sh").wait_for()
    assert page.get_by_role("button", name="Run", exact=True).is_disabled()
    page.close()
