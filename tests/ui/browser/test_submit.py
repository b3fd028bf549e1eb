"""The page that runs a Job: files that are dropped, answers that overtake each other, and input methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import JOB

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def open_form(page: Page) -> Locator:
    page.get_by_role("button", name="Run a Job").click()
    text = page.locator("textarea")
    text.wait_for()
    return text


def test_a_file_that_is_dropped_anywhere_is_taken(page: Page) -> None:
    """The browser would leave the page for it."""
    text = open_form(page)
    stays = page.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File(["kind: Job # dropped"], "job.yaml"));
          const drop = name => !document.querySelector("h1").dispatchEvent(new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true }));
          return [drop("dragover"), document.querySelector("textarea").classList.contains("drop"), drop("drop")];
        }"""
    )
    assert stays == [True, True, True]
    page.locator(".problems li").first.wait_for()
    assert text.input_value() == "kind: Job # dropped"


def test_text_that_is_dragged_is_left_to_the_browser(page: Page) -> None:
    open_form(page)
    prevented = page.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.setData("text/plain", "some words");
          return !document.querySelector("textarea").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }"""
    )
    assert not prevented


def test_the_answer_to_an_older_check_is_not_shown(page: Page) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/validate", hold_the_first)
    text = open_form(page)
    with page.expect_request("**/api/validate"):
        text.fill("kind: Nonsense")
    text.fill(JOB.format(name="valid", ranks=1, script='"true"'))
    page.locator(".problems li.valid", has_text="The Job is valid").wait_for()
    with page.expect_response("**/api/validate"):
        held[0].continue_()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.locator(".problems li").all_inner_texts() == ["The Job is valid"]


def test_escape_in_an_input_method_does_not_leave_the_page(page: Page) -> None:
    press = """composing => document.querySelector("textarea").dispatchEvent(
      new KeyboardEvent("keydown", { key: "Escape", isComposing: composing, bubbles: true, cancelable: true }))"""
    open_form(page)
    assert page.evaluate(press, True) is True  # the page has not used the key
    assert page.get_by_role("heading", name="Run a Job").is_visible()
    page.evaluate(press, False)
    page.get_by_role("heading", name="Jobs").wait_for()
