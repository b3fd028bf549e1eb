"""The page in a real Chromium over jobs of a real cluster: views, actions, failures, and what other accounts see."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.client.conftest import container, job, task, testbed
from tests.cluster.client.verbs.test_hangs import hanging
from tests.cluster.controller.conftest import ControllerCluster, crds
from tests.command_line import verb
from tests.kube.conftest import api
from tests.testbed.fixtures import need
from tests.testbed.images.catalog import PY_SPY
from tests.testbed.parts.node import Node
from tests.testbed.proxy import ApiProxy, Fault
from tests.ui.conftest import PATIENCE, Server, act, serving, suspend_resume_and_restart, wait_for_phase
from vcjob.sdk.finding import find
from vcjob.ui.notebook import frame

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


FAILING = """\
echo prepared
[ $VC_TASK_INDEX = 1 ] || exit 0
printf 'Traceback (most recent call last):\\n  File "train.py", line 9, in <module>\\n' >&2
echo 'ValueError: the loss is NaN' >&2
exit 3
"""


@pytest.fixture(scope="module")
def failing(testbed: ControllerCluster) -> None:
    testbed.create(job("failing", task("worker", container(FAILING), replicas=2), plugins={"env": []}))
    testbed.wait_phase("failing", "Failed")


def test_a_failed_job_shows_its_cause_its_first_error_and_its_whole_log(
    page: Page, failing: None, tmp_path: Path
) -> None:
    open_job(page, "failing")
    page.locator(".panel.bad", has_text="ValueError: the loss is NaN").wait_for()
    page.get_by_role("button", name=re.compile("worker-1.*failed first")).wait_for()
    page.get_by_role("log").get_by_text("Traceback").wait_for()
    page.get_by_role("button", name="First error").click()
    page.get_by_role("log").locator(".line.err.hit", has_text="Traceback").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "log")
    text = (tmp_path / "log").read_text()
    assert text.count("prepared") == 2 and "ValueError: the loss is NaN" in text


def test_one_file_and_a_notebook_hold_the_page_of_a_failed_job(
    testbed: ControllerCluster, browser: Browser, failing: None, tmp_path: Path
) -> None:
    where = ("--on", "cluster", "-n", testbed.namespace, "--kubeconfig", str(testbed.cluster.kubeconfig))
    exported, shown = tmp_path / "job.html", tmp_path / "notebook.html"
    done = verb("ui", "failing", "--export", str(exported), *where)
    assert done.returncode == 0, done
    handle = find("failing", namespace=testbed.namespace, kubeconfig=str(testbed.cluster.kubeconfig))
    shown.write_text(f"<!doctype html><title>notebook</title>{frame(handle, 500)}", encoding="utf-8")
    page = browser.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    for file, inside in ((exported, page), (shown, page.frame_locator("iframe"))):
        page.goto(file.as_uri())
        inside.get_by_role("heading", name="failing Failed").wait_for()
        inside.locator(".panel.bad", has_text="ValueError: the loss is NaN").wait_for()
        inside.get_by_role("cell", name="pod/failing-worker-1", exact=True).first.wait_for()
        inside.locator("details pre", has_text="prepared").last.wait_for(state="attached")
    page.close()


def test_a_job_that_was_restarted_shows_its_attempts(page: Page, testbed: ControllerCluster) -> None:
    again = {"policies": [{"event": "PodFailed", "action": "RestartJob"}], "maxRetry": 2}
    testbed.create(job("again", task("worker", container("echo attempt; exit 4")), **again))
    testbed.wait_phase("again", "Failed")
    open_job(page, "again", "Attempts")
    page.get_by_text("Restarts: 1").wait_for()
    page.get_by_role("columnheader", name="1 (newest)").wait_for()
    page.get_by_role("cell", name=re.compile("^4 ")).first.wait_for()
    page.get_by_role("button", name="Show its logs").first.click()
    page.get_by_role("log").get_by_text("attempt").wait_for()


def test_the_objects_of_a_job_are_shown(page: Page, testbed: ControllerCluster, talking: None) -> None:
    open_job(page, "talking", "Manifest")
    page.get_by_role("button", name="Objects").click()
    objects = page.locator("#panel pre")
    objects.filter(has_text="kind: Pod").wait_for()
    objects.filter(has_text="name: talking-worker-0").wait_for()


PYTHON = """
import time

def waits_here():
    while True:
        time.sleep(0.05)

waits_here()
"""


def test_stacks_are_read_from_the_pods(page: Page, testbed: ControllerCluster, node: Node) -> None:
    node.load_image("py-spy")
    rank = {**container("", image=PY_SPY), "command": ["python3", "-c", PYTHON]}
    testbed.create(job("stacked", task("worker", rank, replicas=2), plugins={"pytorch": ["--master=worker"]}))
    testbed.wait_phase("stacked", "Running")
    open_job(page, "stacked", "Stacks")
    page.get_by_role("button", name="Read the stacks").click()
    group = page.locator("details.stack").first
    group.locator("summary").click()
    group.get_by_text("waits_here").last.wait_for()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_job_that_hangs_says_which_rank_is_behind(
    testbed: ControllerCluster,
    node: Node,
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("torch is not installed" if importlib.util.find_spec("torch") is None else None)
    node.load_image("guide")
    monkeypatch.setenv("VCJOB_HANG_AFTER", "4")
    testbed.create(hanging("hangs", "--flight-recorder=true"))
    testbed.wait_phase("hangs", "Running", patience=180)
    with watching(browser, tmp_path_factory.mktemp("hanging"), testbed.cluster.kubeconfig, testbed) as page:
        open_job(page, "hangs")
        panel = page.locator(".panel.wait")
        panel.get_by_text("What stands out").wait_for(timeout=180_000)
        panel.get_by_text("rank 2 never reached all_reduce #4").wait_for(timeout=180_000)
        assert page.locator("h1 + .chip").inner_text() == "Running"
        page.goto("about:blank")
    testbed.api.delete(f"{testbed.jobs}/hangs")


@contextmanager
def watching(
    browser: Browser, home: Path, kubeconfig: Path, testbed: ControllerCluster | None
) -> Iterator[Page]:
    """A page of a server of its own; without `testbed` it is started without a namespace."""
    namespace = ("-n", testbed.namespace) if testbed else ()
    server = Server(home, "--on", "cluster", "--kubeconfig", str(kubeconfig), *namespace)
    page = browser.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(server.url)
    try:
        yield page
    finally:
        page.close()
        server.kill()


TICKING = f"n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done & {SLEEP}"
NEWEST = "Number(document.querySelector('.logs .line:last-child')?.textContent.split(' ').at(-1) ?? 0)"
#: The numbers of the lines that are drawn follow each other: none is lost and none is repeated.
WITHOUT_GAPS = """() => [...document.querySelectorAll('.logs .line')]
  .map((line) => Number(line.textContent.split(' ').at(-1)))
  .every((number, place, all) => place === 0 || number === all[place - 1] + 1)"""


def test_an_api_server_that_goes_and_comes_back_is_said_and_costs_no_line(
    testbed: ControllerCluster, browser: Browser, tmp_path: Path
) -> None:
    testbed.create(job("ticking", task("worker", container(TICKING))))
    testbed.wait_phase("ticking", "Running")
    with (
        ApiProxy(testbed.cluster, "ui-behind-proxy", "system:masters") as proxy,
        watching(browser, tmp_path, proxy.kubeconfig, testbed) as page,
    ):
        open_job(page, "ticking")
        page.wait_for_function(f"() => {NEWEST} >= 3")
        banner = page.locator("#banner")
        gone = proxy.add(Fault(drop=True))
        proxy.cut_watches()
        banner.get_by_text(
            re.compile("does not respond|cannot be reached|disconnected|closed|could not")
        ).wait_for()
        before = page.evaluate(NEWEST)
        proxy.remove(gone)
        banner.wait_for(state="hidden")
        page.wait_for_function(f"() => {NEWEST} >= {before} + 5")
        assert page.evaluate(WITHOUT_GAPS)


RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def reader(testbed: ControllerCluster) -> Path:
    """A user who may read the Jobs, pods and logs of one namespace, but not its events, and may change nothing."""
    rbac = f"/apis/{RBAC}/v1/namespaces/{testbed.namespace}"
    verbs = ["get", "list", "watch"]
    rules = [
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": verbs},
    ]
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ui-reader"}],
    }
    testbed.api.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    testbed.api.create(f"{rbac}/rolebindings", binding)
    kubeconfig: Path = testbed.cluster.identity("ui-reader")
    document = json.loads(kubeconfig.read_text())
    document["contexts"][0]["context"]["namespace"] = testbed.namespace
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig


def test_a_user_with_rights_in_one_namespace_sees_its_jobs_without_naming_it(
    reader: Path, browser: Browser, talking: None, testbed: ControllerCluster, tmp_path: Path
) -> None:
    with watching(browser, tmp_path, reader, None) as page:
        page.get_by_role("link", name="talking", exact=True).wait_for()
        page.locator("#top").get_by_text(testbed.namespace).wait_for()
        assert page.locator("#banner").is_hidden()
        open_job(page, "talking")
        page.get_by_role("log").get_by_text("prepared for training").first.wait_for()


def test_a_read_only_account_sees_the_job_and_why_it_may_not_act(
    reader: Path, browser: Browser, testbed: ControllerCluster, talking: None, tmp_path: Path
) -> None:
    with watching(browser, tmp_path, reader, testbed) as page:
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
