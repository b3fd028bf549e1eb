"""The list of jobs, with jobs that a test sends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def job(name: str, phase: str, reason: str = "") -> dict[str, Any]:
    return {
        "namespace": "default", "name": name, "uid": name, "phase": phase, "reason": reason, "message": "",
        "created": 1e9, "started": 1e9, "finished": None, "done": phase == "Completed", "restarts": 0, "replicas": 1,
        "progress": {"text": "epoch 2, step 30/100 (30%), 4 steps/s, 2m left, loss 0.5", "percent": 30},
        "pods": {"pending": 0, "running": 1, "succeeded": 0, "failed": 0, "up": 1},
    }  # fmt: skip


def show(page: Page, *jobs: dict[str, Any], namespace: Any = None) -> None:
    events = ([("namespace", namespace)] if namespace else []) + [("jobs", jobs)]
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    page.route(
        "**/api/stream",
        lambda route: route.fulfill(
            content_type="text/event-stream", body=f"{body}event: end\ndata: {{}}\n\n"
        ),
    )
    page.reload()
    page.locator("tbody tr").first.wait_for()


def names(page: Page, pressed: str) -> list[str]:
    button = page.get_by_role("button", name=pressed, exact=True)
    button.click()
    page.wait_for_function("e => e.ariaPressed === 'true'", arg=button.element_handle())
    texts: list[str] = page.locator("tbody tr td a").all_inner_texts()
    return sorted(texts)


def test_jobs_that_wait_and_jobs_that_run_are_told_apart(page: Page) -> None:
    show(
        page,
        job("waits", "Pending"),
        job("runs", "Running"),
        job("starts", "Restarting"),
        job("ended", "Completed"),
    )
    assert names(page, "pending") == ["waits"]
    assert names(page, "running") == ["runs", "starts"]
    assert len(names(page, "All")) == 4


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}}], indirect=True)
def test_a_narrow_list_shows_the_reason_below_the_name(page: Page) -> None:
    show(page, {**job("waits", "Pending", "NotEnoughResources"), "progress": None}, job("runs", "Running"))
    page.get_by_role("cell", name="runs").get_by_text("step 30/100").wait_for()
    page.get_by_role("cell", name="waits").get_by_text("NotEnoughResources").wait_for()
    assert [head.strip() for head in page.locator("th:visible").all_inner_texts()] == [
        "Phase",
        "Name",
        "Ranks",
        "Age",
    ]
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("page", [{"locale": "zh-CN"}], indirect=True)
def test_phases_and_progress_are_in_the_language_of_the_page(page: Page) -> None:
    show(page, job("runs", "Running"))
    row = page.locator("tbody tr")
    assert row.locator(".chip").inner_text() == "运行中"
    assert row.locator(".chip").get_attribute("title") == "Running"
    assert row.locator(".progress").inner_text() == "轮次 2, 步数 30/100 (30%), 4 步/秒, 剩余 2m, 损失 0.5"


def test_a_list_of_one_namespace_says_which_and_why(page: Page) -> None:
    message = "you may not list Jobs in all namespaces; choose one with -n"
    show(page, job("runs", "Running"), namespace={"namespace": "team-a", "message": message})
    assert page.locator("#top .chip", has_text="team-a").get_attribute("title") == message
    page.get_by_text(message).wait_for()


def test_a_right_that_was_granted_removes_the_note_about_one_namespace(page: Page) -> None:
    """The stream that is opened next sends the jobs of all namespaces."""
    message = "you may not list Jobs in all namespaces; choose one with -n"
    only = {"namespace": "team-a", "message": message}
    jobs: list[tuple[str, Any]] = [("jobs", [job("one", "Running")])]
    answers = [[("namespace", only), *jobs], jobs]

    def answer(route: Route) -> None:
        body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in answers[0])
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("**/api/stream", answer)
    page.reload()
    page.get_by_text(message).wait_for()
    assert page.locator("#top .chip", has_text="team-a").count() == 1
    answers.pop(0)
    page.get_by_text(message).wait_for(state="hidden")
    assert page.locator("#top .chip", has_text="team-a").count() == 0


def test_an_address_with_a_job_opens_it(page: Page, server: Server) -> None:
    """In a new tab, and in a tab that shows something else."""
    server.run("named", "sleep 600")
    for name in ("named", "other"):
        page.goto(f"{server.url}&job=default%2F{name}")
        page.get_by_role("heading", name=name, level=1).wait_for()
        assert page.evaluate("location.hash") == f"#/jobs/default/{name}"
