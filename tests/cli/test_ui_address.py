"""What `vcjob ui` prints and opens: the URL, the tunnel over ssh, the browser where there is a display."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Vcjob
from vcjob.cli import ui
from vcjob.errors import NoSuchJob
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig
from vcjob.ui import redirect, server

URL = "http://127.0.0.1:4242/#token=secret"
#: It writes its arguments as every user of the machine can see them, and keeps running as some browsers do.
BROWSER = """\
#!{python}
import os, pathlib, sys, time, urllib.parse, urllib.request
here = pathlib.Path(__file__).parent
file = urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path)
for name, text in (("page", pathlib.Path(file).read_text()), ("mode", str(os.stat(file).st_mode)), ("argv", "\\n".join(sys.argv))):
    here.joinpath(name + ".part").write_text(text)
    here.joinpath(name + ".part").rename(here / name)
while not (here / "closed").exists():
    time.sleep(0.05)
"""


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
        for thread in threading.enumerate():
            if thread.name == ui.BROWSER_THREAD:
                thread.join(60)
        return result.output, opened

    return run


def test_over_ssh_the_tunnel_is_printed_and_nothing_is_opened(
    start: Callable[..., tuple[str, list[str]]],
) -> None:
    output, opened = start(SSH_CONNECTION="10.0.0.9 5555 10.0.0.1 22", USER="ann", DISPLAY=":1")
    assert f"vcjob UI: {URL}\n" in output
    assert "ssh -N -L 4242:127.0.0.1:4242 ann@10.0.0.1\n" in output
    assert opened == []


def test_the_tunnel_goes_to_the_port_of_the_ssh_server(start: Callable[..., tuple[str, list[str]]]) -> None:
    output, _ = start(SSH_CONNECTION="10.0.0.9 5555 10.0.0.1 2222", USER="ann")
    assert "ssh -N -L 4242:127.0.0.1:4242 -p 2222 ann@10.0.0.1\n" in output


def test_the_page_of_a_job_is_opened_where_one_is_named(
    start: Callable[..., tuple[str, list[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))
    first, newest = "11111111-aaaa-4aaa-8aaa-111111111111", "22222222-aaaa-4aaa-8aaa-222222222222"
    for uid in (first, newest):
        doc = {
            "metadata": {"name": "train", "namespace": "team", "uid": uid},
            "spec": {"minAvailable": 1, "tasks": []},
        }
        os.close(Store().create(doc, RunConfig(), "")[1])
    assert start("train", "-n", "team") == (f"vcjob UI: {URL}&job=team/train\n", [])
    assert start(first) == (f"vcjob UI: {URL}&job=team/{first}\n", []), "not the newest run"
    with pytest.raises(NoSuchJob):
        start("another")


def test_the_server_of_many_users_opens_no_job(vcjob: Vcjob) -> None:
    assert vcjob("ui", "train", "--behind-proxy").code == 2


@pytest.mark.parametrize("snaps", [True, False])
def test_a_browser_in_a_snap_gets_a_file_that_it_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, snaps: bool
) -> None:
    """It has its own /tmp, and it sees no hidden files of the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(redirect, "SNAPS", tmp_path if snaps else tmp_path / "none")
    with redirect.redirect_to(URL) as file:
        folders = [folder.name for folder in tmp_path.iterdir()]
        assert len(folders) == snaps and not any(name.startswith(".") for name in folders)
        assert f"url={URL}" in Path(file.removeprefix("file://")).read_text()
    assert list(tmp_path.iterdir()) == []


def test_without_a_home_that_can_be_written_the_file_is_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    monkeypatch.setattr(redirect, "SNAPS", tmp_path)
    with redirect.redirect_to(URL) as file:
        assert f"url={URL}" in Path(file.removeprefix("file://")).read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_file_with_the_token_is_deleted_when_a_signal_ends_the_server(
    tmp_path: Path, number: signal.Signals
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o700)
    files, home = tmp_path / "files", tmp_path / "home"
    files.mkdir()
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"}
    environment |= {"DISPLAY": ":1", "BROWSER": str(browser), "TMPDIR": str(files), "HOME": str(home)}
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); from vcjob.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "ui", "--on", "local"]
    with subprocess.Popen(command, env={**environment, "VCJOB_HOME": str(home)}) as process:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "argv").exists():
                assert time.monotonic() < end, "no browser was started"
                time.sleep(0.02)
            opened = Path((tmp_path / "argv").read_text().splitlines()[1].removeprefix("file://"))
            assert opened.exists()
            process.send_signal(number)
            assert process.wait(60) == 128 + number
            assert not opened.parent.exists()
        finally:
            (tmp_path / "closed").touch()
            process.kill()


SIGNAL_IN_A_DESTRUCTOR = """
import asyncio, os, signal
from vcjob.cli.ui import _until_a_signal
class Ending:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
async def serving():
    Ending()
    await asyncio.Event().wait()
raise SystemExit(asyncio.run(_until_a_signal(serving())))
"""


def test_a_signal_that_arrives_in_a_destructor_ends_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNAL_IN_A_DESTRUCTOR], timeout=60, check=False)
    assert done.returncode == signal.SIGTERM


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS always has a display")
def test_without_a_display_the_url_is_printed(start: Callable[..., tuple[str, list[str]]]) -> None:
    assert start() == (f"vcjob UI: {URL}\n", [])


def test_with_a_display_the_browser_opens_unless_it_is_not_wanted(
    start: Callable[..., tuple[str, list[str]]],
) -> None:
    assert start("--no-open", DISPLAY=":1") == (f"vcjob UI: {URL}\n", [])
    output, opened = start(DISPLAY=":1")
    assert output == f"vcjob UI: {URL}\n"
    assert [url.partition(":")[0] for url in opened] == ["file"]


def test_the_token_is_in_a_private_file_and_not_among_the_arguments_of_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o700)

    async def serve(_: object, *, on_ready: Callable[[str], None], **__: object) -> None:
        on_ready(URL)
        async with asyncio.timeout(60):
            while not (tmp_path / "argv").exists():
                await asyncio.sleep(0.02)

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    environment = {"DISPLAY": ":1", "BROWSER": str(browser)}
    monkeypatch.setattr("webbrowser._tryorder", None)  # read $BROWSER again
    CliRunner().invoke(ui.command, [], env=environment, catch_exceptions=False)
    try:
        argument = (tmp_path / "argv").read_text().splitlines()[1]
        assert "secret" not in argument and argument.startswith("file:///")
        assert f"url={URL}" in (tmp_path / "page").read_text()
        assert stat.S_IMODE(int((tmp_path / "mode").read_text())) == 0o600
        assert not Path(argument.removeprefix("file://")).parent.exists(), "it is deleted at the end"
    finally:
        (tmp_path / "closed").touch()


def test_a_cluster_that_is_not_configured_is_reported_before_a_url_is_printed(
    vcjob: Vcjob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(server, "serve", lambda *_, **__: pytest.fail("the page is served"))
    for words in (["ui", "--no-open"], ["list"]):
        result = vcjob(*words, "--on", "cluster")
        assert (result.code, result.out) == (3, "")
        assert "there is no kubeconfig" in result.err
