"""The page against hostile output, a server that dies, and the limits on accessibility and size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server
from vcjob.ui.redirect import redirect_to

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MARKUP = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
#: Markup, a title and colours as escape sequences, and a line of 10 MB.
HOSTILE = f"""\
echo "{MARKUP}"
printf '\\033]0;owned\\007\\033[31mred\\033[0m text\\n'
head -c 10000000 /dev/zero | tr '\\0' x
echo
echo "{MARKUP}" >&2
printf '\\033[31mred end\\033[0m\\n' >&2
echo 'RuntimeError: {MARKUP.replace("'", "")}' >&2
exit 1
"""


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("hostile", HOSTILE)
    server.run("sleeping", "echo started; sleep 600", ranks=2)
    server.wait_for("sleeping", "Running")
    server.wait_for("hostile", "Failed")
    yield


def open_job(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("log").locator(".line").first.wait_for()


def test_the_file_that_the_browser_is_opened_with_leads_to_the_jobs(page: Page, server: Server) -> None:
    page.goto("about:blank")
    with redirect_to(server.url) as file:
        page.goto(file)
        page.get_by_role("link", name="sleeping", exact=True).wait_for()


@pytest.mark.console_errors
@pytest.mark.parametrize("part", ["app.js", "list.js", "style.css"])
def test_a_page_of_which_a_part_did_not_arrive_is_loaded_again(page: Page, server: Server, part: str) -> None:
    page.goto("about:blank")
    page.route(f"**/static/{part}", lambda route: route.abort("failed"), times=1)
    with page.expect_event("requestfinished", lambda request: request.url.endswith(part)):  # the second time
        page.goto(server.url, wait_until="commit")
    page.get_by_role("link", name="sleeping", exact=True).wait_for()
    page.wait_for_load_state("load")
    assert page.evaluate("sessionStorage.getItem('vcjob-reloads')") is None
    assert page.evaluate("document.styleSheets.length") == 1


@pytest.mark.console_errors
def test_a_page_of_which_a_part_never_arrives_says_what_to_check(page: Page, server: Server) -> None:
    page.goto("about:blank")
    page.route("**/static/list.js", lambda route: route.abort("failed"))
    page.goto(server.url, wait_until="commit")
    page.get_by_role("status").get_by_text("Check that vcjob ui is still running").wait_for()
    page.unroute("**/static/list.js")
    page.goto(server.url)
    page.reload()
    page.get_by_role("link", name="sleeping", exact=True).wait_for()


def test_logs_that_do_not_come_say_why(page: Page, server: Server) -> None:
    """A job that does not exist, and what a cluster says about logs that it does not send."""
    notes = page.get_by_role("list", name="Notes")
    page.goto(f"{server.origin}/#/jobs/default/nosuch")
    notes.get_by_text("no job 'nosuch' here").wait_for()
    note = 'event: note\ndata: {"message": "only 500 logs are followed"}\n\nevent: end\ndata: {}\n\n'
    page.route("**/logs?*", lambda route: route.fulfill(content_type="text/event-stream", body=note))
    page.goto(f"{server.origin}/#/jobs/default/sleeping")
    notes.get_by_text("only 500 logs are followed").wait_for()
    assert page.get_by_text("nosuch").count() == 0


def test_hostile_output_is_text_and_never_runs(page: Page) -> None:
    open_job(page, "hostile")
    lines = page.get_by_role("log")
    lines.get_by_text("RuntimeError: <script>").wait_for()
    page.locator(".panel.bad", has_text="<script>").wait_for()
    page.locator(".panel.bad pre", has_text="red end").last.wait_for()
    assert "\x1b" not in page.locator(".panel.bad").inner_text()
    lines.evaluate("e => { e.scrollTop = 0 }")
    lines.get_by_text("red text").wait_for()
    lines.get_by_text("bytes more)").first.wait_for()
    assert "\x1b" not in lines.inner_text()
    for tab in ("Ranks", "Events", "Timeline", "Attempts", "Stacks", "Manifest"):
        page.get_by_role("tab", name=tab, exact=True).click()
    page.locator("#panel pre", has_text="<script>").wait_for()
    assert page.evaluate("window.owned") is None
    assert page.locator("main script, main img").count() == 0


def test_a_hostile_job_file_is_reported_as_text(page: Page) -> None:
    page.get_by_role("button", name="Run a Job").click()
    page.get_by_label("Job file").first.fill(f"kind: Job\nmetadata: {{name: {json.dumps(MARKUP)}}}\n")
    page.locator(".problems li").first.wait_for()
    assert page.evaluate("window.owned") is None


@pytest.mark.console_errors
def test_the_policy_stops_inline_script(page: Page) -> None:
    """Even a script that reaches the document is not run. The browser reports each attempt on the console."""
    blocked = page.evaluate(
        """() => new Promise(resolve => {
          addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
          try { document.body.innerHTML += "<img src=x onerror='window.owned = 1'>"; } catch { /* trusted types */ }
          const script = document.createElement("script");
          try { script.textContent = "window.owned = 1"; document.body.append(script); } catch { /* trusted types */ }
        })"""
    )
    assert blocked in ("require-trusted-types-for", "script-src-elem")
    assert page.evaluate("window.owned") is None


@pytest.mark.console_errors
def test_pages_continue_after_the_server_was_killed_and_restarted(page: Page, server: Server) -> None:
    """The new server has a new token; a tab that is opened with it gives it to the tabs that were locked out."""
    open_job(page, "sleeping")
    server.kill()
    page.get_by_role("status").get_by_text("connection was lost").wait_for()
    server.start(server.port)
    page.get_by_role("status").get_by_text("token").wait_for()
    other = page.context.new_page()
    other.goto(server.url)
    other.get_by_role("heading", name="Jobs").wait_for()
    page.get_by_role("log").get_by_text("started").first.wait_for()
    assert page.get_by_role("status").count() == 0
    server.run("later", "echo back")
    other.get_by_role("link", name="later").wait_for()


@pytest.mark.console_errors
def test_the_new_address_in_the_same_tab_is_enough(page: Page, server: Server) -> None:
    page.get_by_role("link", name="hostile").wait_for()
    server.kill()
    server.start(server.port)
    page.get_by_role("status").get_by_text("token").wait_for()
    page.goto(server.url)
    page.get_by_role("status").wait_for(state="detached")
    assert "token" not in page.url
    page.get_by_role("link", name="sleeping").wait_for()


def violations(page: Page) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:150]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize(
    "page",
    [{"color_scheme": scheme, "reduced_motion": "reduce"} for scheme in ("light", "dark")],
    indirect=True,
)
def test_axe_finds_no_violation(page: Page) -> None:
    found = {}
    page.get_by_role("link", name="sleeping").wait_for()
    found["list"] = violations(page)
    for name in ("hostile", "sleeping"):
        open_job(page, name)
        for tab in ("Logs", "Ranks", "Events", "Timeline", "Attempts", "Stacks", "Manifest"):
            page.get_by_role("tab", name=tab, exact=True).click()
            page.locator("#panel > *").first.wait_for()
            found[f"{name} {tab}"] = violations(page)
        page.get_by_role("link", name="Back").click()
    page.get_by_role("button", name="Run a Job").click()
    found["submit"] = violations(page)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    found["help"] = violations(page)
    assert {view: wrong for view, wrong in found.items() if wrong} == {}


def test_every_button_has_a_name_before_the_first_frame(page: Page) -> None:
    open_job(page, "hostile")
    page.evaluate("window.requestAnimationFrame = () => 0")
    unnamed = "button:visible:not([aria-label])"
    for tab in ("Logs", "Ranks", "Events", "Timeline", "Attempts", "Stacks", "Manifest"):
        page.get_by_role("tab", name=tab, exact=True).click()
        page.locator("#panel > *").first.wait_for()
        names = page.locator(unnamed).all_inner_texts()
        assert names, tab
        assert all(name.strip() for name in names), (tab, names)
