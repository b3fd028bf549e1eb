"""The log on the page with lines that a test sends: filters, bounds, and the position of a reader."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import Server
from vcjob.ui.producers.log_stream import Place

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

#: `send` passes an event to the newest log that is open, and `connection` can be closed. `lines` sends lines, and
#: `numbered` such that the page can tell apart from those that it has.
STUB = """(() => {
  const real = window.fetch;
  window.asked = [];
  window.fetch = (path, options) => {
    if (!String(path).includes("/logs?")) return real(path, options);
    asked.push(String(path));
    const body = new ReadableStream({ start: controller => { window.connection = controller; } });
    return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } }));
  };
  const bytes = new TextEncoder();
  window.send = (event, data, id) => connection.enqueue(bytes.encode(`${id ? `id: ${id}\\n` : ""}event: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`));
  const sent = (first, count, line, id) => {
    for (let done = 0; done < count; done += 1000)
      send("lines", Array.from({ length: Math.min(1000, count - done) }, (_, at) => line(first + done + at)), id);
  };
  window.lines = (first, count, more = "") => sent(first, count, (number) => [0, "worker-0", "main", "stdout", `line ${number} ${more}`]);
  window.numbered = (first, count, id) => sent(first, count, (number) => [0, "worker-0", "main", "stdout", `line ${number} `, "1", number], id);
})()"""


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    server.run("quiet", "sleep 600")
    server.wait_for("quiet", "Running")
    yield


@pytest.fixture
def log(page: Page, server: Server) -> Page:
    page.add_init_script(STUB)
    page.reload()
    page.get_by_role(
        "heading", name="Jobs"
    ).wait_for()  # a page that is still starting would open its view twice
    page.goto(f"{server.origin}/#/jobs/default/quiet")
    page.wait_for_function("() => window.connection")
    return page


def expect_count(page: Page, text: str) -> None:
    page.locator("#panel .row .dim", has_text=re.compile(text)).wait_for()


def first_visible(page: Page) -> int:
    number: Any = page.evaluate(
        """() => {
          const top = document.querySelector(".logs").getBoundingClientRect().top;
          const seen = [...document.querySelectorAll(".logs .line")].find(line => line.getBoundingClientRect().bottom > top + 2);
          return Number(/line ([0-9]+)/.exec(seen.textContent)[1]);
        }"""
    )
    return int(number)


def test_an_expression_that_never_ends_leaves_the_page_alive(log: Page) -> None:
    log.evaluate("lines(0, 10, 'x'.repeat(60) + '!')")
    expect_count(log, "^10 lines")
    log.get_by_role("button", name="Regex").click()
    log.get_by_label("Filter lines").fill("(x+x+)+y")
    expect_count(log, "takes too long")
    log.get_by_label("Filter lines").fill("line [3-5] x+!$")
    expect_count(log, "^3 lines")
    log.get_by_label("Filter lines").fill("(")
    expect_count(log, "not valid")
    log.get_by_role("button", name="Regex").click()
    expect_count(log, "^0 lines")
    log.get_by_label("Filter lines").fill("LINE 7")
    expect_count(log, "^1 line$")


def test_long_lines_are_bounded_by_their_length(log: Page) -> None:
    log.evaluate("for (let first = 0; first < 2000; first += 500) lines(first, 500, 'x'.repeat(16_000))")
    expect_count(log, r"^8\d\d lines \(11\d\d older lines were dropped\)")


def test_many_lines_are_filtered_in_slices(log: Page) -> None:
    """What is asked of the page meanwhile does not wait for the last line."""
    log.evaluate("lines(0, 45_000)")
    expect_count(log, "^45000 lines")
    slices = log.evaluate(
        """() => new Promise(resolve => {
          let turns = 0;
          const search = document.querySelector("#panel input");
          const turn = () => {
            if (document.querySelector("#panel .row .dim").textContent.startsWith("4500 ")) resolve(turns);
            else { turns += 1; setTimeout(turn); }
          };
          search.value = "0 ";
          search.dispatchEvent(new Event("input"));
          turn();
        })"""
    )
    assert slices > 10


def test_no_line_is_cut_in_half(log: Page) -> None:
    log.evaluate("lines(0, 100)")
    expect_count(log, "^100 lines")
    assert log.get_by_role("log").evaluate("e => e.clientHeight % 18") == 0


def test_a_reader_keeps_the_line_when_older_ones_are_dropped(log: Page) -> None:
    log.evaluate("lines(0, 50_000)")
    expect_count(log, "^50000 lines")
    log.locator(".line", has_text="line 49999 ").wait_for()
    log.get_by_role("log").evaluate("e => { e.scrollTop = 18 * 20_000 }")
    log.locator(".line", has_text="line 20000 ").wait_for()
    log.evaluate("lines(50_000, 10)")
    expect_count(log, "older lines were dropped")
    assert abs(first_visible(log) - 20_000) <= 1
    assert log.get_by_role("button", name="Follow").get_attribute("aria-pressed") == "false"


def test_a_reader_keeps_the_line_when_the_connection_comes_back(log: Page) -> None:
    log.evaluate("lines(0, 5000)")
    log.locator(".line", has_text="line 4999 ").wait_for()
    log.get_by_role("log").evaluate("e => { e.scrollTop = 18 * 3000 }")
    log.locator(".line", has_text="line 3000 ").wait_for()
    log.evaluate("window.before = connection; connection.close()")
    log.wait_for_function("() => connection !== before")
    log.evaluate("lines(1000, 5000)")
    expect_count(log, "^5000 lines")
    log.locator(".line", has_text="line 3000 ").wait_for()
    assert abs(first_visible(log) - 3000) <= 1


def reconnect(log: Page) -> str:
    """Close the connection, wait for the next one, and return what the page asked for."""
    log.evaluate("window.before = connection; connection.close()")
    log.wait_for_function("() => connection !== before")
    asked: str = log.evaluate("asked.at(-1)")
    return asked


def test_a_log_continues_where_it_was_when_the_connection_comes_back(log: Page) -> None:
    """No line is dropped, none is shown twice, and a filter keeps what it has found."""
    log.evaluate("numbered(0, 30_000, 'first'); numbered(30_000, 10, 'sec ond')")
    expect_count(log, "^30010 lines")
    log.get_by_role("log").evaluate("e => { e.scrollTop = 18 * 3000 }")
    log.locator(".line", has_text=re.compile("line 3000 ")).wait_for()
    asked = reconnect(log)
    assert "since=sec%20ond" in asked and "tail=" not in asked
    log.evaluate("numbered(29_990, 40, 'third')")
    expect_count(log, "^30030 lines$")
    assert abs(first_visible(log) - 3000) <= 1
    log.get_by_label("Filter lines").fill("line 3002")
    expect_count(log, "^11 lines")
    assert "since=third" in reconnect(log)
    log.evaluate("numbered(30_029, 2, 'fourth')")
    expect_count(log, "^11 lines")
    log.get_by_label("Filter lines").fill("")
    expect_count(log, "^30031 lines$")


def test_a_connection_that_is_lost_before_it_had_a_place_begins_anew(log: Page) -> None:
    log.evaluate("lines(0, 10)")
    expect_count(log, "^10 lines")
    assert "tail=" in reconnect(log)
    log.evaluate("lines(0, 12)")
    expect_count(log, "^12 lines$")


def test_a_reader_whose_line_does_not_come_again_can_scroll(log: Page) -> None:
    log.evaluate("lines(0, 5000)")
    expect_count(log, "^5000 lines")
    log.get_by_role("log").evaluate("e => { e.scrollTop = 18 * 3000 }")
    log.locator(".line", has_text="line 3000 ").wait_for()
    reconnect(log)
    log.evaluate("lines(6000, 5000)")
    expect_count(log, "^5000 lines")
    log.wait_for_function(
        """() => {
          document.querySelector(".logs").scrollTop = document.querySelector(".logs").scrollTop === 18 * 1000 ? 18 * 1001 : 18 * 1000;
          return [...document.querySelectorAll(".logs .line")].some(line => line.textContent.includes("line 7010 "));
        }"""
    )


def test_the_first_error_stays_in_view_when_the_line_that_was_read_comes_again(log: Page) -> None:
    log.evaluate("lines(0, 5000)")
    expect_count(log, "^5000 lines")
    log.get_by_role("log").evaluate("e => { e.scrollTop = 18 * 3000 }")
    log.locator(".line", has_text="line 3000 ").wait_for()
    reconnect(log)
    log.evaluate("lines(6000, 100, 'ValueError')")
    expect_count(log, "^100 lines")
    log.get_by_role("button", name="First error").click()
    log.evaluate("lines(2990, 100)")
    expect_count(log, "^200 lines")
    assert first_visible(log) == 6000


def test_lines_of_one_moment_that_come_again_are_counted(log: Page) -> None:
    """Each log on its own: another stream, another instance of the container, or another pod is another log."""
    kept = log.evaluate(
        """async () => {
          const known = (await import("/static/received.js")).received();
          const line = (text, at, instance = "1", pod = "worker-0") => [0, pod, "main", "out", text, instance, at];
          const first = [line("a", 1), line("b", 2), line("b", 2), line("other", 9, "1", "worker-1"), line("x", null)];
          const kept = first.filter(known.isNew).length;
          known.resume();
          const again = [line("a", 1), line("b", 2), line("b", 2), line("b", 2), line("c", 3), line("d", 1, "2"), line("e", 9, "1", "worker-1"), line("x", null)];
          return [kept, again.filter(known.isNew).map(each => each[4])];
        }"""
    )
    assert kept == [5, ["b", "c", "d", "x"]]


def test_lines_that_are_out_of_order_are_shown_once(log: Page) -> None:
    """Also after any disconnect: the page decides as the server does."""
    draw = random.Random(0)
    cases = [[draw.choice([None, 1, 2, 3, 4]) for _ in range(30)] for _ in range(500)]
    shown = log.evaluate(
        """async (cases) => {
          const { received } = await import("/static/received.js");
          return cases.map(case_ => {
            const known = received();
            return case_.map(at => at === null ? known.resume() ?? null : known.isNew([0, "w-0", "main", "", "x", "i", at]));
          });
        }""",
        cases,
    )
    for case, found in zip(cases, shown, strict=True):
        place, expected = Place(), []
        place.reopen("u")
        for at in case:
            if at is None:
                place.reopen("u")
            expected.append(None if at is None else place.takes([0, "w-0", "main", "", "x", "i", at]))
        assert found == expected


def test_a_download_shows_how_much_has_come(log: Page, tmp_path: Path) -> None:
    log.evaluate(
        """() => {
          const real = window.fetch;
          window.fetch = (path, options) => {
            if (!String(path).includes("/logs.txt")) return real(path, options);
            return Promise.resolve(new Response(new ReadableStream({ start: controller => { window.file = controller; } })));
          };
        }"""
    )
    button = log.get_by_role("button", name="Download")
    button.click()
    log.evaluate("for (let count = 0; count < 250; count++) file.enqueue(new Uint8Array(10_000).fill(65))")
    log.get_by_role("button", name="Download · 2.5 MB").wait_for()
    assert button.is_disabled()
    with log.expect_download() as download:
        log.evaluate("file.close()")
    download.value.save_as(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "A" * 2_500_000
    assert button.inner_text() == "Download" and button.is_enabled()


def test_trouble_of_the_log_is_said_and_removed(log: Page) -> None:
    log.evaluate("send('trouble', { message: 'the cluster does not answer', hint: 'wait' })")
    log.get_by_role("status").get_by_text("the cluster does not answer — wait").wait_for()
    log.evaluate("send('trouble', null)")
    log.get_by_role("status").wait_for(state="hidden")
