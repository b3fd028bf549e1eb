"""The grid, the timeline and the events of jobs of many ranks; a test sends what the page shows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

#: The state of each rank by its last digit.
PHASES = ("Pending", "Succeeded", "Failed", *["Running"] * 7)
#: Of what says which state a square has, to the page (WCAG 1.4.11).
CONTRAST = 3.0


def pod(rank: int, phase: str = "Running", attempt: int = 0) -> dict[str, Any]:
    return {
        "uid": f"{rank}-{attempt}", "name": f"job-worker-{rank}", "task": "worker", "index": rank, "rank": rank,
        "attempt": attempt, "phase": phase, "createdAt": 1e9 + 100 * attempt, "startedAt": 1e9 + 100 * attempt + 1,
    }  # fmt: skip


def job(ranks: int) -> dict[str, Any]:
    return {
        "namespace": "default", "name": "many", "uid": "1", "phase": "Running", "reason": "", "message": "",
        "created": 1e9, "started": 1e9, "finished": None, "done": False, "restarts": 0, "replicas": ranks,
        "pods": {"pending": 0, "running": ranks, "succeeded": 0, "failed": 0, "up": ranks},
    }  # fmt: skip


def show(page: Page, server: Server, **parts: Any) -> None:
    """Open the page of a job with these parts."""
    events = {**parts, "pods": {"changed": parts["pods"], "gone": [], "all": True}}
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events.items())
    page.route(
        "**/many/stream",
        lambda route: route.fulfill(
            content_type="text/event-stream", body=f"{body}event: end\ndata: {{}}\n\n"
        ),
    )
    page.route(
        "**/many/logs?*",
        lambda route: route.fulfill(content_type="text/event-stream", body="event: end\ndata: {}\n\n"),
    )
    page.goto(f"{server.origin}/#/jobs/default/many")
    newest = len({each["rank"] for each in parts["pods"]})
    page.wait_for_function("count => document.querySelectorAll('.ranks button').length === count", arg=newest)


def show_thousand(page: Page, server: Server) -> None:
    failure = {"culprit": None, "victims": ["rank 12 (worker-12)"]}
    pods = [pod(rank, PHASES[rank % 10]) for rank in range(1000)]
    show(page, server, job=job(1000), pods=pods, failure=failure)
    page.locator(".ranks.many .after").wait_for()


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True, ids=["light", "dark"]
)
def test_the_states_of_a_thousand_ranks_can_be_seen_and_told_apart(page: Page, server: Server) -> None:
    """Each stands out from the page, and differs from the others by more than its colour."""
    show_thousand(page, server)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    looks: dict[str, tuple[str, str]] = {}
    for state in ("wait", "run", "ok", "bad:not(.after)", "after"):
        square = page.locator(f".ranks.many .{state}").first
        border, filling, pattern = square.evaluate(
            "e => { const s = getComputedStyle(e); return [s.borderTopColor, s.backgroundColor, s.backgroundImage]; }"
        )
        assert contrast(border, background) >= CONTRAST, state
        solid = contrast(filling, border) < 1.5
        shape = re.sub(r"rgba?\([^)]*\)", "", pattern)
        looks[state] = ("solid" if solid else "hollow", shape)
    assert len(set(looks.values())) == 4, looks
    assert looks["ok"] == looks["after"], "the only two of one form; their colours are green and red"


def test_the_legend_counts_the_ranks_and_shows_those_of_one_state(page: Page, server: Server) -> None:
    """So few are large enough for their numbers."""
    show_thousand(page, server)
    visible = page.locator(".ranks li:visible")
    page.get_by_role("button", name="Running 700").wait_for()
    failed = page.get_by_role("button", name="Failed 100")
    failed.click()
    page.locator(".ranks:not(.many)").wait_for()
    assert visible.count() == 100
    assert visible.first.inner_text() == "2"
    assert page.locator(".ranks [tabindex='0']").all_inner_texts() == ["2"]
    failed.click()
    page.locator(".ranks.many").wait_for()
    assert visible.count() == 1000
    assert page.locator(".ranks [tabindex='0']").count() == 1


def test_the_arrow_keys_follow_the_rows_of_the_grid(page: Page, server: Server) -> None:
    show_thousand(page, server)
    place = """() => { const box = document.activeElement.getBoundingClientRect(); return [box.left, box.top]; }"""
    page.locator(".ranks button").first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    left, top = page.evaluate(place)
    page.keyboard.press("ArrowDown")
    down = page.evaluate(place)
    assert down[0] == left and down[1] > top
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(place) == [left, top]


def test_the_timeline_shows_the_newest_attempt_of_each_rank(page: Page, server: Server) -> None:
    """And the others on request, each with its attempt."""
    pods = [pod(rank, "Failed", 0) for rank in range(150)] + [pod(rank, "Running", 1) for rank in range(150)]
    show(page, server, job=job(150), pods=pods)
    page.get_by_role("tab", name="Timeline").click()
    labels = page.locator(".times > span")
    page.wait_for_function("() => document.querySelectorAll('.times > span').length === 150")
    assert labels.all_inner_texts() == [f"rank {rank} (worker-{rank}), Attempt 1" for rank in range(150)]
    page.get_by_role("button", name="All attempts").click()
    page.wait_for_function("() => document.querySelectorAll('.times > span').length === 200")
    assert [text[-9:] for text in labels.all_inner_texts()[:4]] == ["Attempt 0", "Attempt 1"] * 2
    page.get_by_role("button", name="Show all (300)").click()
    page.wait_for_function("() => document.querySelectorAll('.times > span').length === 300")
    page.get_by_role("img", name=re.compile("^rank 149 .*Attempt 1: waited 1s, ran .*Running$")).wait_for()


def test_the_bars_of_a_timeline_grow_in_place(page: Page, server: Server) -> None:
    show(page, server, job=job(2), pods=[pod(0), pod(1)])
    page.get_by_role("tab", name="Timeline").click()
    page.locator(".track").first.wait_for()
    before = page.evaluate(
        "window.bar = document.querySelector('.track'), document.querySelector('#panel p').textContent"
    )
    page.wait_for_function(
        "before => document.querySelector('#panel p').textContent !== before", arg=before
    )  # it is drawn again every five seconds at least
    assert page.evaluate("window.bar.isConnected")


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}}], indirect=True)
def test_the_messages_of_events_fit_on_a_phone(page: Page, server: Server) -> None:
    event = {
        "type": "Warning",
        "reason": "Failed",
        "message": "rank 5 failed " * 20,
        "object": "",
        "time": 1e9,
        "count": 1,
    }
    show(page, server, job=job(1), pods=[pod(0)], events=[event])
    page.get_by_role("tab", name="Events").click()
    box = page.locator(".events td").last.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_events_name_their_object_their_day_and_how_often_they_happened(page: Page, server: Server) -> None:
    events = [
        {"type": "Normal", "reason": "Started", "message": "Started container main", "object": "pod/worker-7",
         "time": "2024-02-29T12:00:00Z", "first": "2024-02-29T11:00:00Z", "count": 3},
        {"type": "Warning", "reason": "Failed", "message": "the job failed", "object": "", "time": None, "count": 1},
    ]  # fmt: skip
    show(page, server, job=job(1), pods=[pod(0)], events=events)
    page.get_by_role("tab", name="Events").click()
    first, second = page.locator("tbody tr").all()
    assert second.locator("td").all_inner_texts()[2:] == [
        "pod/worker-7",
        "Started ×3",
        "Started container main",
    ]
    assert re.fullmatch(r"2024-(02-29|03-01) \d\d:\d\d:\d\d", second.locator("td").first.inner_text())
    assert re.match(r"First: 2024-", second.locator(".chip", has_text="×3").get_attribute("title") or "")
    assert first.locator("td").all_inner_texts() == ["", "Warning", "Job", "Failed", "the job failed"]


def test_ranks_that_ended_because_of_another_are_named_in_ranges(page: Page, server: Server) -> None:
    pods = [pod(rank, "Failed") for rank in range(20)]
    victims = [f"rank {rank} (worker-{rank})" for rank in range(20) if rank not in (3, 5)]
    failure = {
        "culprit": {"pod": "job-worker-3", "task": "worker", "index": 3, "rank": 3},
        "victims": [*victims, "sidecar-0"],
    }
    show(page, server, job={**job(20), "phase": "Failed"}, pods=pods, failure=failure)
    page.get_by_text("Ended because of it: ranks 0–2, 4, 6–19, sidecar-0").wait_for()


def test_ranks_of_one_state_need_no_legend(page: Page, server: Server) -> None:
    show(page, server, job=job(2), pods=[pod(0), pod(1)])
    assert page.locator(".legend button:visible").count() == 0
