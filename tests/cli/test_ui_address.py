"""What `vcjob ui` prints and opens: the URL, the tunnel over ssh, the browser where there is a display."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from vcjob.cli import ui
from vcjob.ui import server

URL = "http://127.0.0.1:4242/#token=secret"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, list[str]]]:
    """Runs the verb with an environment, up to the moment when the server listens: its output, and what was opened."""
    opened: list[str] = []

    async def serve(_: object, *, on_ready: Callable[[str], None], **__: object) -> None:
        on_ready(URL)

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    for name in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    def run(*options: str, **environment: str) -> tuple[str, list[str]]:
        result = CliRunner().invoke(ui.command, options, env=environment, catch_exceptions=False)
        return result.output, opened

    return run


def test_over_ssh_the_tunnel_is_printed_and_nothing_is_opened(
    start: Callable[..., tuple[str, list[str]]],
) -> None:
    output, opened = start(SSH_CONNECTION="10.0.0.9 5555 10.0.0.1 22", USER="ann", DISPLAY=":1")
    assert f"vcjob UI: {URL}\n" in output
    assert "ssh -N -L 4242:127.0.0.1:4242 ann@10.0.0.1\n" in output
    assert opened == []


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS always has a display")
def test_without_a_display_the_url_is_printed(start: Callable[..., tuple[str, list[str]]]) -> None:
    assert start() == (f"vcjob UI: {URL}\n", [])


def test_with_a_display_the_browser_opens_unless_it_is_not_wanted(
    start: Callable[..., tuple[str, list[str]]],
) -> None:
    assert start("--no-open", DISPLAY=":1") == (f"vcjob UI: {URL}\n", [])
    assert start(DISPLAY=":1") == (f"vcjob UI: {URL}\n", [URL])
