"""A `vcjob ui` server in a process of its own, and one Chromium, both shared by the tests of a module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

#: A busy machine starts processes slowly.
PATIENCE = 60.0
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  minAvailable: {ranks}
  plugins: {{pytorch: ["--master=worker", "--worker=worker"]}}
  tasks:
  - name: worker
    replicas: {ranks}
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: none
          command: [sh, -c, {script}]
"""


class Server:
    """The server's process, and its JSON interface as the page uses it."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self._env = {**os.environ, "VCJOB_HOME": str(home)}
        self._options = options or ("--on", "local")
        self.start()

    def start(self, port: int = 0) -> None:
        command = [sys.executable, "-m", "vcjob", "ui", *self._options, "--no-open", "--port", str(port)]
        self.process = subprocess.Popen(command, env=self._env, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().rpartition(" ")[2].strip()
        self.origin, _, self._token = self.url.partition("/#token=")
        self.port = int(self.origin.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _open(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self.origin + path, data, headers)
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def call(self, path: str, body: object = None) -> Any:
        with self._open(path, body) as response:
            return json.load(response)

    def run(self, name: str, script: str, ranks: int = 1, **spec: str) -> None:
        text = JOB.format(name=name, ranks=ranks, script=json.dumps(script))
        fields = "".join(f"  {field}: {value}\n" for field, value in spec.items())
        self.call("/api/run", {"text": text + fields})

    def wait_for(self, name: str, phase: str, *, done: bool = False) -> None:
        """Until the job has the phase, and with `done` no process is left; the stream of the job says so."""
        with self._open(f"/api/jobs/default/{name}/stream") as stream:
            event = b""
            for line in stream:
                if line.startswith(b"event: "):
                    event = line.split()[1]
                elif event == b"job" and line.startswith(b"data: "):
                    job = json.loads(line[6:])
                    if job["phase"] == phase and (job["done"] or not done):
                        return
        pytest.fail(f"{name} never became {phase}")

    def close(self) -> None:
        for job in self.call("/api/jobs")["jobs"]:
            self.call(f"/api/jobs/{job['namespace']}/{job['name']}/actions/delete", {})
        self.process.terminate()
        self.process.wait(PATIENCE)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """A server that has ended after the block; its jobs are deleted where nothing failed."""
    server = Server(folder, *options)
    try:
        yield server
        server.close()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("ui")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright (requirements/pages.txt) is not installed"
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def act(page: Page, action: str) -> None:
    """Press the button of an action and confirm."""
    page.get_by_role("button", name=action, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=action).click()


def wait_for_phase(page: Page, phase: str) -> None:
    page.locator("h1 + .chip", has_text=phase).wait_for()


def suspend_resume_and_restart(page: Page) -> None:
    """Cancel one action of a running job, then take those that leave it running."""
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    act(page, "Suspend")
    wait_for_phase(page, "Aborted")
    act(page, "Resume")
    wait_for_phase(page, "Running")
    act(page, "Restart")
    page.get_by_text("Restarts: 1").wait_for()
    wait_for_phase(page, "Running")


def _is_error(said: ConsoleMessage) -> bool:
    """Chromium ends its requests when an interface of the machine appears or goes, as with every cluster that another
    test starts; the page asks again."""
    return said.type == "error" and "ERR_NETWORK_CHANGED" not in said.text


@pytest.fixture
def page(browser: Browser, server: Server, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The list of jobs in a fresh profile. A test fails if the console shows an error that it did not expect.

    Parametrised indirectly it takes options of the profile, such as the colour scheme, the locale and the size.
    """
    complaints: list[str] = []
    context = browser.new_context(**getattr(request, "param", {}))
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if _is_error(said) else None)
    page.goto(server.url)
    page.get_by_role("heading", level=1).wait_for()
    yield page
    context.close()
    expected = request.node.get_closest_marker("console_errors")
    assert complaints == [] or expected is not None
