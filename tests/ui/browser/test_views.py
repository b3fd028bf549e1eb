"""What the views keep, where the focus is, and what the page says at its top."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server, wait_for_phase

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("older", "sleep 600")
    server.run("newer", "echo one; echo two; sleep 600", ranks=2)
    server.wait_for("older", "Running")
    server.wait_for("newer", "Running")
    yield


def open_job(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()


def new_token(page: Page, server: Server) -> None:
    """Restart the server, and give the page its new address in another tab."""
    server.kill()
    server.start(server.port)
    other = page.context.new_page()
    other.goto(server.url)
    other.get_by_role("link", name="newer", exact=True).wait_for()
    other.close()


@pytest.mark.console_errors
def test_a_pasted_file_survives_escape_the_language_and_a_new_token(page: Page, server: Server) -> None:
    """Chromium logs the requests that fail while there is no server."""
    page.get_by_role("button", name="Run a Job").click()
    text = page.locator("textarea")
    text.fill("kind: Job # mine")
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Jobs").wait_for()
    page.get_by_role("button", name="Run a Job").click()
    assert text.input_value() == "kind: Job # mine"
    page.get_by_role("button", name="中文").click()
    page.get_by_role("heading", name="提交作业").wait_for()
    assert text.input_value() == "kind: Job # mine"
    assert page.get_by_role("button", name="English").evaluate("e => e === document.activeElement")
    new_token(page, server)
    assert text.input_value() == "kind: Job # mine"
    page.get_by_role("button", name="检查", exact=True).click()
    page.locator(".problems li").first.wait_for()


@pytest.mark.console_errors
def test_the_language_and_a_new_token_keep_the_tab_and_the_filter(page: Page, server: Server) -> None:
    """Chromium logs the requests that fail while there is no server."""
    page.get_by_label("Search jobs").fill("new")
    page.get_by_role("button", name="中文").click()
    page.get_by_role("button", name="English").click()
    assert page.get_by_label("Search jobs").input_value() == "new"
    open_job(page, "newer")
    page.get_by_role("button", name=re.compile("^rank 1 ")).click()
    page.get_by_label("Filter lines").fill("two")
    page.get_by_text(re.compile("^1 line$")).wait_for()
    page.get_by_role("tab", name="Events").click()
    page.get_by_role("button", name="中文").click()
    page.get_by_role("button", name="English").click()
    new_token(page, server)
    assert page.get_by_role("tab", name="Events").get_attribute("aria-selected") == "true"
    page.get_by_role("tab", name="Logs").click()
    assert page.get_by_label("Filter lines").input_value() == "two"
    page.get_by_text(re.compile("^1 line$")).wait_for()
    page.locator(".chip", has_text="rank 1").wait_for()


def test_enter_opens_the_job_that_was_chosen_when_others_appear(page: Page, server: Server) -> None:
    page.get_by_role("link", name="newer", exact=True).wait_for()
    page.locator("#main").focus()
    page.keyboard.press("j")
    page.locator("tr.chosen", has_text="newer").wait_for()
    server.run("newest", "sleep 600")
    page.get_by_role("link", name="newest", exact=True).wait_for()
    page.locator("tr.chosen", has_text="newer").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="newer", level=1).wait_for()


@pytest.mark.console_errors
def test_an_address_that_cannot_be_decoded_is_answered(page: Page, server: Server) -> None:
    """Chromium logs the 404s of the job that does not exist."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.origin}/#/jobs/%/x")
    page.get_by_role("status").wait_for()
    assert errors == []


def test_the_dialog_of_an_action_begins_at_cancel(page: Page) -> None:
    open_job(page, "older")
    page.get_by_role("button", name="Delete", exact=True).click()
    cancel = page.get_by_role("dialog").get_by_role("button", name="Cancel")
    assert cancel.evaluate("e => e === document.activeElement")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("heading", name="older", level=1).wait_for()


def test_the_arrow_keys_move_between_tabs(page: Page) -> None:
    open_job(page, "older")
    page.get_by_role("tab", name="Logs").focus()
    for key, name in (
        ("ArrowRight", "Ranks"),
        ("ArrowLeft", "Logs"),
        ("ArrowLeft", "Manifest"),
        ("Home", "Logs"),
    ):
        page.keyboard.press(key)
        tab = page.get_by_role("tab", name=name, exact=True)
        assert tab.get_attribute("aria-selected") == "true"
        assert tab.evaluate("e => e === document.activeElement")
        page.get_by_role("tabpanel", name=name, exact=True).wait_for()
    assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_one_rank_is_in_the_tab_order_after_a_restart(page: Page) -> None:
    open_job(page, "newer")
    squares = page.locator("ul.ranks button")
    squares.nth(1).click()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    assert page.locator("ul.ranks [tabindex='0']").count() == 1
    uids = "() => [...document.querySelectorAll('ul.ranks button')].map(e => e.dataset.uid).sort().join()"
    before = page.evaluate(uids)
    page.get_by_role("button", name="Restart", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    wait_for_phase(page, "Running")
    page.get_by_text("Restarts: 1").wait_for()
    page.wait_for_function(
        f"before => {{ const now = ({uids})(); return now.includes(',') && !now.split(',').some(uid => before.includes(uid)); }}",
        arg=before,
    )
    assert page.locator("ul.ranks [tabindex='0']").count() == 1


def test_a_timeline_without_pods_has_no_bars(page: Page) -> None:
    """A job that is restarted has none until the next ones are created."""
    shown = page.evaluate(
        """async () => {
          const { showTimeline } = await import("/static/times.js");
          const root = document.createElement("div");
          let pods = Array.from({ length: 300 }, (_, index) => ({ task: "w", index, rank: index, phase: "Running", createdAt: 1, startedAt: 2 }));
          const timeline = showTimeline(root, { pods: () => pods, all: () => pods, job: () => ({}) });
          const frames = async () => { for (let count = 0; count < 10; count++) await new Promise(requestAnimationFrame); };
          const state = () => [root.querySelectorAll(".track").length, root.querySelector("p").textContent, root.querySelectorAll("button:not([hidden])").length];
          await frames();
          const before = state();
          pods = [];
          timeline.draw();
          await frames();
          return [before[0], before[2], ...state()];
        }"""
    )
    assert shown == [200, 1, 0, "No pods yet", 0]


def test_a_stream_that_opens_does_not_remove_what_another_says(page: Page, server: Server) -> None:
    trouble = {"message": "the cluster does not answer", "hint": ""}
    body = f"event: trouble\ndata: {json.dumps(trouble)}\n\nevent: end\ndata: {{}}\n\n"
    logs: list[Route] = []
    page.route("**/newer/stream", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.route("**/logs?*", lambda route: logs.append(route))
    page.goto(f"{server.origin}/#/jobs/default/newer")
    said = page.get_by_role("status").get_by_text("the cluster does not answer")
    said.wait_for()
    logs[0].continue_()
    page.get_by_role("log").get_by_text("two").first.wait_for()
    assert said.is_visible()


def test_the_first_frame_is_dark_where_the_system_is(browser: Browser, server: Server) -> None:
    """Before the script has run."""
    context = browser.new_context(color_scheme="dark", java_script_enabled=False)
    page = context.new_page()
    page.goto(server.origin)
    colour = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    context.close()
    assert colour == "rgb(20, 23, 27)"
