"""The page behind a proxy that restarts, ends sessions, or closes long streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LOGIN = "<!doctype html><form>Who are you?</form>"


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("talking", "while true; do echo tick; sleep 0.5; done")
    server.wait_for("talking", "Running")
    yield


def answer_first(page: Page, **answer: Any) -> list[str]:
    """Answer the first request for the log with this, and let the server answer the others; returns their addresses."""
    asked: list[str] = []

    def handle(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(**answer)
        else:
            route.continue_()

    page.route("**/logs?*", handle)
    return asked


def collect_banners(page: Page) -> None:
    page.evaluate(
        """() => {
          window.said = [];
          new MutationObserver(() => window.said.push(document.querySelector("#banner").textContent))
            .observe(document.querySelector("#banner"), { childList: true });
        }"""
    )


@pytest.mark.console_errors
@pytest.mark.parametrize("status", [408, 429, 500, 502, 504])
def test_a_stream_is_opened_again_after_a_passing_error(page: Page, server: Server, status: int) -> None:
    """Chromium logs the status as an error."""
    collect_banners(page)
    answer_first(page, status=status, content_type="text/html", body="<h1>Try again</h1>")
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("log").get_by_text("tick").first.wait_for()
    page.get_by_role("status").wait_for(state="hidden")
    assert f"The server answered with HTTP {status}" in page.evaluate("window.said")


@pytest.mark.console_errors
@pytest.mark.parametrize(
    "answer",
    [
        {"status": 200, "content_type": "text/html", "body": LOGIN},
        {"status": 200, "content_type": "application/json", "body": "{}"},
        {"status": 401, "content_type": "text/html", "body": LOGIN},
        {"status": 302, "headers": {"Location": "/login"}},
    ],
    ids=["page", "json", "401", "redirect"],
)
def test_a_session_that_has_ended_is_named_and_not_asked_again(
    page: Page, server: Server, answer: dict[str, Any]
) -> None:
    """Chromium logs the status 401 as an error."""
    asked = answer_first(page, **answer)
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("status").get_by_text("Your session has ended; reload the page").wait_for()
    # Longer than the pause before a stream is opened again.
    page.evaluate("() => new Promise(resolve => setTimeout(resolve, 1500))")
    assert len(asked) == 1


def test_a_request_for_which_a_login_page_comes_says_so(page: Page, server: Server) -> None:
    page.route("**/manifest/*", lambda route: route.fulfill(status=200, content_type="text/html", body=LOGIN))
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("tab", name="Manifest").click()
    page.locator("#panel").get_by_text("Your session has ended; reload the page").wait_for()


def test_a_stream_that_ends_after_its_time_is_opened_again_without_a_word(page: Page, server: Server) -> None:
    collect_banners(page)
    asked = answer_first(page, content_type="text/event-stream", body="event: again\ndata: {}\n\n")
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("log").get_by_text("tick").first.wait_for()
    assert len(asked) == 2
    assert [text for text in page.evaluate("window.said") if text] == []
