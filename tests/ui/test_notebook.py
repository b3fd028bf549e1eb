"""`Handle.show()` in a real notebook kernel, and its output in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from tests.ui.conftest import JOB
from vcjob.errors import UserError
from vcjob.sdk.handle import Handle
from vcjob.sdk.running import run
from vcjob.ui.notebook import frame

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = '"echo \\"<script>parent.owned = 1</script><img src=x onerror=parent.owned=1>\\" >&2; exit 3"'


def test_outside_of_a_notebook_the_error_names_the_alternatives() -> None:
    with pytest.raises(UserError, match="notebook") as raised:
        Handle.show(Mock(Handle))
    assert "--export" in str(raised.value.hint)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_notebook_shows_the_job_and_follows_it_to_its_end(tmp_path: Path, browser: Browser) -> None:
    """The cell is executed by nbclient; its output is opened as a notebook page would show it."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat (requirements/pages.txt) is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient (requirements/pages.txt) is not installed")
    text = JOB.format(
        name="shown", ranks=2, script='"for n in 1 2 3; do echo step $n/3 loss 0.$n; done; sleep 1"'
    )
    cell = f"import vcjob\njob = vcjob.run({text!r}, on='local')\njob.show(follow=True, height=700)\nprint(job.phase)"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(book, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = book.cells[0].outputs
    (shown,) = (each for each in outputs if each.output_type == "display_data")
    assert "Completed" in "".join(each.get("text", "") for each in outputs)
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><title>notebook</title>{shown.data['text/html']}", encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    inside = page.frame_locator("iframe")
    inside.get_by_role("heading", name="shown Completed").wait_for()
    assert inside.get_by_role("img", name="Loss").count() == 1
    assert inside.locator("ul.ranks button.ok").count() == 2
    assert page.locator("iframe").evaluate("e => e.getBoundingClientRect().height") == 700
    page.screenshot(path=tmp_path / "notebook.png")
    page.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_hostile_output_cannot_reach_the_notebook(tmp_path: Path, browser: Browser) -> None:
    job = run(JOB.format(name="hostile", ranks=1, script=HOSTILE), on="local")
    job.wait(60)
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><title>notebook</title>{frame(job, 500)}", encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    inside = page.frame_locator("iframe")
    inside.get_by_text("<script>parent.owned").first.wait_for(state="attached")
    assert page.evaluate("window.owned") is None
    assert inside.locator("script, img:not([role])").count() == 0
    page.close()
