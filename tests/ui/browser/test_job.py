"""The parts of a job's page in a real Chromium: charts, ranks, attempts, stacks, manifests, containers, warnings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

#: Prints its steps, then waits in a function with a name that the stacks show.
TRAINING = f"""\
exec {sys.executable} -u -c '
import os, time
def waits_here():
    while True:
        time.sleep(0.05)
for step in range(1, 31 + int(os.environ["RANK"])):
    print(f"step {{step}}/100 loss {{1 / step:.4f}}")
    time.sleep(0.02)
waits_here()
'
"""
SEVERAL = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: several}
spec:
  plugins: {env: []}
  tasks:
  - name: server
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        initContainers:
        - {name: prepare, image: none, command: [sh, -c, "echo prepared $VC_TASK_INDEX"]}
        containers:
        - {name: main, image: none, command: [sh, -c, "echo served; sleep 600"]}
        - {name: helper, image: none, command: [sh, -c, "echo helped; sleep 600"]}
"""
#: Rank 0 listens on the master's port, rank 1 connects to it, and rank 2 never does.
NEVER_JOINS = f"""\
exec {sys.executable} -c '
import os, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    listening = socket.create_server(address)
while os.environ["RANK"] == "1":
    try:
        connected = socket.create_connection(address)
        break
    except OSError:
        time.sleep(0.05)
time.sleep(600)
'
"""


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("hanging", NEVER_JOINS, ranks=3)
    server.run("training", TRAINING, ranks=2)
    server.call("/api/run", {"text": SEVERAL})
    server.run(
        "again", "echo attempt; exit 4", policies="[{event: PodFailed, action: RestartJob}]", maxRetry="2"
    )
    server.wait_for("training", "Running")
    server.wait_for("several", "Running")
    server.wait_for("again", "Failed")
    yield


def open_job(page: Page, name: str, tab: str = "Logs") -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    page.get_by_role("tab", name=tab, exact=True).click()


def test_progress_is_in_the_list_and_drawn_on_the_page(page: Page) -> None:
    row = page.get_by_role("row", name=re.compile("training"))
    row.locator("td.progress", has_text=re.compile(r"step \d+/100")).wait_for()
    open_job(page, "training")
    page.get_by_role("img", name=re.compile(r"^Step: 1 → 30$")).wait_for()
    page.get_by_role("img", name=re.compile(r"^Loss: .* → 0.0333$")).wait_for()


def test_the_table_of_ranks_shows_step_and_use_and_can_be_sorted(page: Page) -> None:
    open_job(page, "training", "Ranks")
    page.get_by_role("cell", name="30/100").wait_for()
    page.get_by_role("cell", name="31/100").wait_for()
    page.get_by_role("cell", name=re.compile(r"^\d+%$")).first.wait_for()
    page.get_by_role("cell", name=re.compile(r"^\d+Mi$")).first.wait_for()
    first = page.locator("tbody tr td").first
    assert first.inner_text() == "0"
    page.get_by_role("button", name=re.compile("^Step")).click()
    page.get_by_role("button", name=re.compile("^Step")).click()
    page.wait_for_function("() => document.querySelector('tbody tr td').textContent === '1'")
    page.get_by_role("button", name="worker-1", exact=True).click()
    page.locator(".chip", has_text="rank 1 (worker-1)").wait_for()
    page.get_by_text(
        re.compile(r"rank 1 \(worker-1\) · Running .*Step: 31/100 · CPU: \d+% · Memory")
    ).wait_for()


@pytest.mark.parametrize("page", [{"locale": "zh-CN"}], indirect=True)
def test_a_cause_has_its_chinese_meaning_on_the_chinese_page_only(page: Page) -> None:
    open_job(page, "again", "日志")
    panel = page.locator("section.panel.bad")
    panel.get_by_text("NonZeroExit rank 以非 0 退出码结束").wait_for()
    page.get_by_role("button", name="English").click()
    page.get_by_role("heading", name="Why it failed").wait_for()
    assert "退出码" not in panel.inner_text()


def test_stacks_are_read_on_demand(page: Page) -> None:
    open_job(page, "training", "Stacks")
    page.get_by_role("button", name="Read the stacks").click()
    group = page.locator("details.stack", has_text="ranks 0-1")
    group.locator("summary").click()
    group.get_by_text("waits_here").last.wait_for()


def test_a_read_only_server_reads_no_stacks_and_says_why(page: Page, server: Server) -> None:
    reader = Server(server.home, "--on", "local", "--read-only")
    try:
        page.goto(reader.url)
        open_job(page, "training", "Stacks")
        assert page.get_by_role("button", name="Read the stacks").is_disabled()
        page.get_by_text("Not on a read-only server").wait_for()
        page.goto("about:blank")  # so that no stream of the page breaks
    finally:
        reader.kill()


def test_the_manifest_is_shown_as_written_with_defaults_and_as_differences(page: Page) -> None:
    open_job(page, "training", "Manifest")
    text = page.locator("#panel pre")
    text.filter(has_text="schedulerName: volcano").wait_for()
    page.get_by_role("button", name="As written").click()
    text.filter(has_text="metadata: {name: training}").wait_for()
    assert "schedulerName" not in text.inner_text()
    page.get_by_role("button", name="Objects").click()
    text.filter(has_text="kind: PodGroup").wait_for()
    text.filter(has_text="The other 1 pods").wait_for()
    page.get_by_role("button", name="Differences").click()
    page.locator(".diff .added", has_text="schedulerName: volcano").first.wait_for()
    page.locator(".diff .added", has_text="MASTER_ADDR").first.wait_for()
    page.get_by_role("heading", name="worker: template → pod").wait_for()


def test_attempts_stand_side_by_side_and_lead_to_their_logs(page: Page) -> None:
    open_job(page, "again", "Attempts")
    page.get_by_role("columnheader", name="1 (newest)").wait_for()
    page.get_by_role("columnheader", name="0", exact=True).wait_for()
    assert page.get_by_role("cell", name=re.compile("^4 ")).count() == 2
    assert page.locator("ul.ranks button").count() == 1
    page.get_by_role("button", name="Show its logs").last.click()
    page.get_by_role("log").get_by_text("attempt").wait_for()
    assert page.get_by_label("Attempt").input_value() == "0"


def test_pods_without_ranks_and_their_containers_can_be_chosen(page: Page) -> None:
    open_job(page, "several")
    log = page.get_by_role("log")
    log.get_by_text("prepared 1").wait_for()
    page.get_by_role("button", name=re.compile("^server-0:")).click()
    page.locator(".chip", has_text="server-0").wait_for()
    log.get_by_text("prepared 1").wait_for(state="detached")
    log.get_by_text("prepared 0").wait_for()
    page.get_by_label("Container").select_option("helper")
    log.get_by_text("helped").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.logs .line').length === 1")


@pytest.mark.long
def test_a_job_that_hangs_says_so_while_it_runs(page: Page) -> None:
    open_job(page, "hanging")
    panel = page.locator(".panel.wait")
    panel.get_by_text("What stands out").wait_for()
    panel.get_by_text("rank 2 has not connected").wait_for()
    assert page.locator("h1 + .chip").inner_text() == "Running"


def test_earlier_runs_can_be_opened(page: Page, server: Server) -> None:
    server.run("repeated", "echo first run")
    server.wait_for("repeated", "Completed", done=True)
    server.run("repeated", "echo second run")
    server.wait_for("repeated", "Completed")
    open_job(page, "repeated", "Attempts")
    page.locator("#panel ul a").click()
    page.get_by_role("log").get_by_text("first run").wait_for()


def test_a_job_that_is_started_again_shows_the_log_of_its_new_run(page: Page, server: Server) -> None:
    server.run("rerun", "echo run one")
    server.wait_for("rerun", "Completed", done=True)
    open_job(page, "rerun")
    log = page.get_by_role("log")
    log.get_by_text("run one").wait_for()
    server.run("rerun", "echo run two")
    log.get_by_text("run two").wait_for()
    assert log.get_by_text("run one").count() == 0
