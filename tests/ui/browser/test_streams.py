"""The connections of the page: hidden tabs hold none, dead ones are noticed, and long messages cost linear time."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import PATIENCE, Server

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

TALKING = "n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done"
STATIC = Path(__file__).parents[3] / "src/vcjob/ui/static"
NEWEST = "Number(document.querySelector('.logs .line:last-child')?.textContent.split(' ').at(-1) ?? 0)"
#: Headless Chromium shows every tab; this is what a browser reports when another tab is shown.
SHOW = """state => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("talking", TALKING)
    server.wait_for("talking", "Running")
    yield


def count_streams(page: Page) -> Callable[[], int]:
    """A function that says how many streams of the page are open."""
    open_now: Counter[str] = Counter()

    def is_stream(request: Request) -> bool:
        return "/stream" in request.url or "/logs?" in request.url

    def begun(request: Request) -> None:
        open_now[request.url] += is_stream(request)

    def ended(request: Request) -> None:
        open_now[request.url] -= is_stream(request)

    page.on("request", begun)
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    return open_now.total


def expect_streams(page: Page, count: Callable[[], int], wanted: int) -> None:
    end = time.monotonic() + PATIENCE
    while count() != wanted:
        assert time.monotonic() < end, f"{count()} streams are open, not {wanted}"
        page.evaluate("() => new Promise(requestAnimationFrame)")


def wait_for_newer_lines(page: Page) -> None:
    page.wait_for_function(f"before => {NEWEST} > before", arg=page.evaluate(NEWEST))


def test_hidden_tabs_hold_no_stream_and_continue_when_they_are_shown(page: Page, server: Server) -> None:
    """With two streams each, four tabs would use more than the six connections that a browser opens."""
    page.goto("about:blank")
    pages = [page.context.new_page() for _ in range(4)]
    counts = [count_streams(each) for each in pages]
    for place, each in enumerate(pages):
        each.goto(server.url)
        each.get_by_role("link", name="talking", exact=True).wait_for()
        each.goto(f"{server.origin}/#/jobs/default/talking")
        each.get_by_role("log").locator(".line").first.wait_for()
        expect_streams(each, counts[place], 2)
        if each is not pages[-1]:
            each.evaluate(SHOW, "hidden")
            expect_streams(each, counts[place], 0)
    pages[-1].get_by_role("tab", name="Manifest").click()
    pages[-1].locator("#panel pre").wait_for()
    assert [count() for count in counts[:-1]] == [0, 0, 0]
    pages[0].evaluate(SHOW, "visible")
    wait_for_newer_lines(pages[0])
    assert [count() for count in counts[:-1]] == [2, 0, 0]


def test_a_log_that_comes_back_has_every_line_once(page: Page, server: Server) -> None:
    """With what the server sends after its tab was hidden."""
    page.goto("about:blank")
    count = count_streams(page)
    page.goto(server.url)
    page.get_by_role("link", name="talking", exact=True).click()
    page.wait_for_function(f"() => {NEWEST} > 3")
    for _ in range(3):
        before = page.evaluate(NEWEST)
        page.evaluate(SHOW, "hidden")
        expect_streams(page, count, 0)
        page.evaluate(SHOW, "visible")
        page.wait_for_function(f"before => {NEWEST} > before + 3", arg=before)
    shown = page.evaluate(
        """() => {
          const count = Number(document.querySelector("#panel .row > .dim").textContent.split(" ")[0]);
          return [count, [...document.querySelectorAll(".logs .line")].map(line => Number(line.textContent.split(" ").at(-1)))];
        }"""
    )
    newest = shown[1][-1]
    assert shown[0] == newest
    assert shown[1] == list(range(shown[1][0], newest + 1))


def test_a_stream_that_is_replaced_at_once_is_closed(page: Page, server: Server) -> None:
    """The tab of the logs opens a stream, and the chosen attempt another one."""
    count = count_streams(page)
    page.get_by_role("link", name="talking", exact=True).click()
    page.get_by_role("tab", name="Attempts").click()
    page.get_by_role("button", name="Show its logs").click()
    page.get_by_role("log").locator(".line").first.wait_for()
    expect_streams(page, count, 1)  # two, and one less for the stream of the list, which began before


def test_an_address_that_changes_while_the_page_starts_is_shown_once(page: Page, server: Server) -> None:
    """A view that is built twice opens its streams twice, and asks for what it shows twice."""
    held: list[Route] = []
    asked: list[str] = []
    page.route("**/api/info", lambda route: held.append(route))
    page.on("request", lambda request: asked.append(request.url.partition("?")[0]))
    with page.expect_request("**/api/info"):
        page.reload()
    page.evaluate(
        """() => new Promise(changed => {
          addEventListener("hashchange", changed);
          location.hash = "#/jobs/default/talking";
        })"""
    )
    held.pop().continue_()
    page.get_by_role("log").locator(".line").first.wait_for()
    assert asked.count(f"{server.origin}/api/jobs/default/talking/logs") == 1


def shorten(page: Page, name: str, milliseconds: int) -> None:
    """Serve the script of the page's requests with one of its limits set to so many milliseconds."""
    before, after = (STATIC / "api.js").read_text().split(f"const {name} = ")
    text = f"{before}const {name} = {milliseconds};{after.partition(';')[2]}"
    page.route("**/static/api.js", lambda route: route.fulfill(content_type="text/javascript", body=text))


def test_a_connection_that_sleeps_is_noticed_and_replaced(page: Page, server: Server) -> None:
    shorten(page, "SILENCE", 3000)
    page.reload()
    page.goto(f"{server.origin}/#/jobs/default/talking")
    wait_for_newer_lines(page)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        page.get_by_role("status").get_by_text("connection was lost").wait_for()
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    wait_for_newer_lines(page)


def test_a_request_without_an_answer_ends_with_a_sentence(page: Page, server: Server) -> None:
    shorten(page, "ANSWER", 500)
    page.route("**/manifest/*", lambda route: None)
    page.reload()
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("tab", name="Manifest").click()
    page.locator("#panel").get_by_text("The server does not answer").wait_for()
    page.unroute_all(behavior="ignoreErrors")


def test_a_download_that_stops_ends_with_a_sentence(page: Page, server: Server) -> None:
    shorten(page, "SILENCE", 3000)
    page.reload()
    page.evaluate(
        """() => {
          const real = window.fetch;
          window.fetch = (path, options) => String(path).includes("/logs.txt") ? Promise.resolve(new Response(new ReadableStream())) : real(path, options);
        }"""
    )
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("button", name="Download").click()
    assert page.get_by_role("button", name="Download").is_disabled()
    page.get_by_role("status").get_by_text("The server does not answer").wait_for()
    assert page.get_by_role("button", name="Download").is_enabled()


@pytest.mark.console_errors
def test_a_server_with_too_many_streams_is_named(page: Page, server: Server) -> None:
    """Chromium logs the 503 as an error."""
    busy = {"error": {"message": "more than 64 streams are open; close other pages"}}
    page.route("**/logs?*", lambda route: route.fulfill(status=503, json=busy))
    page.goto(f"{server.origin}/#/jobs/default/talking")
    page.get_by_role("status").get_by_text("close other pages").wait_for()


def test_a_message_in_many_pieces_is_searched_once(page: Page) -> None:
    """Searched again with each piece, these four megabytes would be eighty gigabytes."""
    found = page.evaluate(
        """async () => {
          const messages = (await import("/static/api.js")).joined();
          const found = [];
          for (let count = 0; count < 40_000; count++) found.push(...messages("x".repeat(100)));
          for (const piece of ["\\n", "\\nsecond\\n\\nthi", "rd\\n", "\\n"]) found.push(...messages(piece));
          return found.map(message => message.length < 10 ? message : message.length);
        }"""
    )
    assert found == [4_000_000, "second", "third"]


#: A stream of 200 messages that arrive at once, each of which takes two milliseconds.
MANY = """(received, ended) => {
  const real = window.fetch;
  const text = "event: lines\\ndata: {}\\n\\n".repeat(200) + "event: end\\ndata: {}\\n\\n";
  const answer = () => Promise.resolve(new Response(text, { headers: { "Content-Type": "text/event-stream" } }));
  window.fetch = (path, options) => (path === "/many" ? answer() : real(path, options));
  return import("/static/api.js").then(({ stream }) => stream("/many", (event) => {
    const until = performance.now() + 2;
    while (performance.now() < until);
    (event === "end" ? ended : received)();
  }));
}"""


def test_messages_that_arrive_together_do_not_block_the_page(page: Page) -> None:
    turns = page.evaluate(
        f"""() => new Promise(resolve => {{
          let turns = 0;
          const turn = () => {{ turns += 1; setTimeout(turn); }};
          ({MANY})(() => {{}}, () => resolve(turns)).then(turn);
        }})"""
    )
    assert turns > 10


def test_a_stream_that_was_ended_gets_no_more_messages(page: Page) -> None:
    """Also of those that had arrived."""
    received = page.evaluate(
        f"""async () => {{
          let received = 0;
          let end = () => {{}};
          end = await ({MANY})(() => {{ received += 1; end(); }}, () => {{ received = NaN; }});
          for (let turn = 0; turn < 100; turn++) await new Promise(resolve => setTimeout(resolve));
          return received;
        }}"""
    )
    assert 1 <= received < 20
