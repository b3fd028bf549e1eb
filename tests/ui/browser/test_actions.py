"""The page in a real Chromium, over a real server and real local jobs: every view and every action."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import JOB, Server, act, suspend_resume_and_restart, wait_for_phase

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

FAILING = """\
if [ $RANK = 1 ]; then
  echo 'Traceback (most recent call last):' >&2
  echo '  File "train.py", line 7, in step' >&2
  echo 'ValueError: the loss is NaN' >&2
  exit 3
fi
sleep 600
"""
TALKING = "n=0; while true; do n=$((n+1)); echo tick $n of $RANK; sleep 0.2; done"


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    """A job of two ranks that prints without end, one whose rank 1 fails, and one that is done."""
    server.run("talking", TALKING, ranks=2)
    server.run("failing", FAILING, ranks=2)
    server.run("finished", "echo bye")
    server.wait_for("talking", "Running")
    server.wait_for("failing", "Failed")
    server.wait_for("finished", "Completed")
    yield


def names(page: Page) -> list[str]:
    texts: list[str] = page.locator("tbody tr td a").all_inner_texts()
    return texts


def expect_names(page: Page, *wanted: str) -> None:
    page.wait_for_function(
        "wanted => JSON.stringify([...document.querySelectorAll('tbody tr td a')].map(a => a.textContent)) === wanted",
        arg=str(list(wanted)).replace("'", '"').replace(", ", ","),
    )


def open_job(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()


def log(page: Page) -> Locator:
    return page.get_by_role("log")


def test_the_list_is_searched_filtered_and_sorted(page: Page) -> None:
    page.get_by_text("talking").wait_for()
    assert sorted(names(page)) == ["failing", "finished", "talking"]
    page.get_by_role("button", name="Name").click()
    expect_names(page, "failing", "finished", "talking")
    page.get_by_role("button", name="Name").click()
    expect_names(page, "talking", "finished", "failing")
    page.get_by_role("button", name="failed").click()
    expect_names(page, "failing")
    page.get_by_role("button", name="All").click()
    page.get_by_label("Search jobs").fill("compl fin")
    expect_names(page, "finished")
    page.get_by_label("Search jobs").fill("nosuch")
    page.get_by_text("No job matches").wait_for()


def test_a_failed_job_shows_its_cause_first(page: Page) -> None:
    open_job(page, "failing")
    panel = page.locator(".panel.bad")
    panel.get_by_text("Last lines: rank 1 (worker-1)").wait_for()
    assert "ValueError: the loss is NaN" in panel.inner_text()
    assert "train.py" in panel.inner_text()
    first = page.get_by_role("button", name=re.compile("rank 1 .*failed first"))
    after = page.get_by_role("button", name=re.compile("rank 0 .*ended because of it"))
    assert first.evaluate("e => getComputedStyle(e).backgroundColor") != after.evaluate(
        "e => getComputedStyle(e).backgroundColor"
    )


def test_the_progress_that_rank_0_prints_is_shown(page: Page, server: Server) -> None:
    server.run("progressing", "for n in 1 2 3 4 5; do echo step $n/10 loss 0.$n; done; sleep 600")
    open_job(page, "progressing")
    page.locator(".facts", has_text="step 5/10").wait_for()


def test_logs_arrive_live_and_are_filtered(page: Page) -> None:
    open_job(page, "talking")
    log(page).get_by_text("of 1").first.wait_for()
    log(page).get_by_text("of 0").first.wait_for()
    newest = log(page).locator(".line").last
    before = newest.inner_text()
    page.wait_for_function(
        "before => document.querySelector('.logs .line:last-child').textContent !== before", arg=before
    )
    page.get_by_label("Filter lines").fill("tick 3 of 0")
    page.get_by_text(re.compile(r"^1 line$")).wait_for()
    page.get_by_role("button", name="Regex").click()
    page.get_by_label("Filter lines").fill("tick [12] of [01]$")
    page.get_by_text(re.compile(r"^4 lines")).wait_for()


def test_a_rank_that_is_chosen_shows_its_own_lines(page: Page) -> None:
    open_job(page, "talking")
    page.get_by_role("button", name=re.compile(r"^rank 1 ")).click()
    page.locator(".chip", has_text="rank 1").wait_for()
    log(page).get_by_text("of 1").first.wait_for()
    log(page).get_by_text("of 0").first.wait_for(
        state="detached"
    )  # the lines of all ranks give way to its own
    page.get_by_role("button", name=re.compile(r"^rank 1 ")).press("ArrowLeft")
    page.keyboard.press("Enter")
    log(page).get_by_text("of 0").first.wait_for()


def test_the_first_error_is_found_and_the_log_is_downloaded(page: Page, tmp_path: Path) -> None:
    open_job(page, "failing")
    log(page).get_by_text("Traceback").wait_for()
    page.get_by_role("button", name="First error").click()
    log(page).locator(".line.err.hit", has_text="Traceback").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "log")
    assert "ValueError: the loss is NaN" in (tmp_path / "log").read_text()


@pytest.mark.console_errors
def test_a_log_that_cannot_be_downloaded_says_why(page: Page, server: Server) -> None:
    server.run("unreadable", "echo a line")
    server.wait_for("unreadable", "Completed", done=True)
    open_job(page, "unreadable")
    log(page).get_by_text("a line").wait_for()
    (file,) = (server.home / "jobs" / "default" / "unreadable").rglob("main.0.out")
    file.unlink()
    file.mkdir()
    page.get_by_role("button", name="Download").click()
    page.get_by_role("status").get_by_text("Is a directory").wait_for()


def test_a_file_that_is_too_large_is_refused_with_the_limit(page: Page) -> None:
    page.get_by_role("button", name="Run a Job").click()
    file = page.locator("input[type=file]")
    file.set_input_files({"name": "job.yaml", "mimeType": "text/yaml", "buffer": bytes(3 * 1024**2 + 1)})
    page.get_by_role("status").get_by_text("larger than 3 MiB").wait_for()
    file.set_input_files({"name": "job.yaml", "mimeType": "text/yaml", "buffer": b"kind: Job"})
    page.locator(".problems li").first.wait_for()
    assert page.get_by_role("status").count() == 0


def test_events_and_the_timeline(page: Page) -> None:
    open_job(page, "failing")
    page.get_by_role("tab", name="Events").click()
    page.get_by_role("cell", name=re.compile("rank 1")).first.wait_for()
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("img", name=re.compile("rank 1")).wait_for()


def test_every_action_asks_first_and_then_acts(page: Page, server: Server) -> None:
    for name, action, phase in (("acted", "Stop", "Terminated"), ("completed", "Complete", "Completed")):
        server.run(name, "sleep 600")
        open_job(page, name)
        wait_for_phase(page, "Running")
        if action == "Stop":
            suspend_resume_and_restart(page)
        act(page, action)
        wait_for_phase(page, phase)
        act(page, "Delete")
        page.get_by_role("heading", name="Jobs").wait_for()
        page.get_by_role("link", name=name, exact=True).wait_for(state="detached")


@pytest.mark.console_errors
def test_a_job_is_checked_at_its_lines_and_run(page: Page) -> None:
    """Chromium logs the 422 of the wrong Job as an error."""
    page.get_by_role("button", name="Run a Job").click()
    text = page.get_by_label("Job file").first
    text.fill(
        JOB.format(name="submitted", ranks=1, script='"echo hi"').replace(
            "minAvailable: 1", "minAvailable: x"
        )
    )
    page.get_by_role("button", name="5:3").click()
    assert text.evaluate("e => e.value.slice(e.selectionStart, e.selectionEnd)") == "  minAvailable: x"
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("status").get_by_text("minAvailable").or_(page.locator(".problems li")).first.wait_for()
    text.fill(JOB.format(name="submitted", ranks=1, script='"echo hi"'))
    page.get_by_text("The Job is valid").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("heading", name="submitted").wait_for()
    log(page).get_by_text("hi").wait_for()


def test_the_keyboard_is_enough(page: Page) -> None:
    page.get_by_role("button", name="Name").click()
    expect = page.locator("tr.chosen")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.locator("#main").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    name = page.locator("tbody tr a").first.inner_text()
    expect.get_by_text(name, exact=True).wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name, level=1).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("tick")
    assert page.get_by_label("Filter lines").input_value() == "tick"
    page.keyboard.press("Escape")
    assert page.get_by_label("Filter lines").input_value() == ""
    assert page.get_by_role("heading", name=name, level=1).is_visible()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Jobs").wait_for()


def test_an_update_keeps_the_focus(page: Page) -> None:
    """Buttons are not replaced under the user's finger while the job prints and its age grows."""
    open_job(page, "talking")
    stop = page.get_by_role("button", name="Stop", exact=True)
    stop.focus()
    facts = page.locator(".facts").inner_text()
    page.wait_for_function("before => document.querySelector('.facts').innerText !== before", arg=facts)
    assert stop.evaluate("e => e === document.activeElement")


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}}], indirect=True)
def test_a_phone_shows_everything_without_sideways_scrolling(page: Page) -> None:
    for name in ("failing", "talking"):
        open_job(page, name)
        log(page).locator(".line").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.keyboard.press("Escape")
        page.get_by_role("heading", name="Jobs").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("page", [{"locale": "zh-CN", "color_scheme": "dark"}], indirect=True)
def test_language_and_theme_follow_the_browser_and_are_remembered(page: Page) -> None:
    page.get_by_role("heading", name="作业").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_role("button", name="English").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    page.get_by_role("button", name="Light theme").click()
    page.reload()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "light"
    assert page.locator("html").get_attribute("lang") == "en"
