"""Takes the pictures of the web UI in docs/images: real jobs of this machine in Debian's Chromium.

    python -m scripts.take_screenshots [FOLDER]     (some minutes, most of them for the job of 1,000 ranks)

Needs Chromium and the packages of requirements/pages.txt. Each view is shown in both themes and both languages where
FOLDER is given; without it, the pictures of the docs are replaced.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from scripts.shrink_png import shrink
from tests.ui.conftest import Server, serving

ROOT = Path(__file__).parent.parent
#: The pictures of the docs: view, theme, language.
PICTURES = (
    ("failed", "light", "en"),
    ("list", "light", "en"),
    ("thousand", "dark", "en"),
    ("submit", "light", "en"),
    ("failed", "dark", "zh"),
    ("list", "light", "zh"),
    ("thousand", "light", "zh"),
    ("submit", "dark", "zh"),
)
MOST_BYTES = 120_000
WIDTH = 1180
#: The views in the order in which their jobs are there, with the height of the window; a picture is as high as the page.
VIEWS = {"failed": 520, "submit": 640, "thousand": 520, "list": 300}
PATIENCE_MS = 240_000
#: Fits a line with one weight per rank; with too large a rate the loss of rank 5 grows until it is not a number.
PROGRAM = """\
import math, os, random, sys, time

rank, rate = int(os.environ["RANK"]), float(sys.argv[1])
steps, pause = int(sys.argv[2]), float(sys.argv[3])
random.seed(rank)

def gradient(weight):
    batch = [random.uniform(-1, 1) for _ in range(20_000)]
    return sum(2 * x * (weight * x - 3 * x) for x in batch) / len(batch)

def train(weight):
    for step in range(1, steps + 1):
        weight -= rate * (51 if rank == 5 and rate > 0.05 else 1) * gradient(weight)
        loss = (weight - 3) ** 2 / 3 + random.uniform(0.02, 0.03)
        if step % 2 == 0 or loss > 1e6:
            print(f"step {step}/{steps} loss {loss:.4f} rate {rate:g}", flush=True)
        if loss > 1e6:
            raise ValueError(f"the loss is {loss:.3g} at step {step}: the rate is too large")
        time.sleep(pause)

train(weight=-4.0)
"""
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  minAvailable: {least}
  plugins: {plugins}
  tasks:
  - name: master
    replicas: 1
    template: &ranks
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: none
          command: {command}
  - name: worker
    replicas: {workers}
    template: *ranks
"""
RANKS = '{pytorch: ["--master=master", "--worker=worker"]}'
#: Most pods run on, some end, and a few fail; without ranks the job goes on.
STATES = 'case $VC_TASK_INDEX in *[1-4]7) exit 0;; *99) exit 1;; esac; echo "part $VC_TASK_INDEX: 1000 files to read"; exec sleep 900'


def job(name: str, command: list[str], *, pods: int, least: int, plugins: str) -> str:
    return JOB.format(name=name, workers=pods - 1, least=least, plugins=plugins, command=json.dumps(command))


def training(server: Server, name: str, *, ranks: int, rate: float, steps: int, pause: float) -> str:
    program = server.home.with_name("train.py")
    command = ["python", "-u", str(program), str(rate), str(steps), str(pause)]
    return job(name, command, pods=ranks, least=ranks, plugins=RANKS)


def wait_for_state(server: Server, name: str, count: Any) -> None:
    """Until the list says so of the job."""
    end = time.monotonic() + PATIENCE_MS / 1000
    with server._open("/api/stream") as stream:
        for line in stream:
            if line.startswith(b"data: [") and any(
                each["name"] == name and count(each) for each in json.loads(line[6:])
            ):
                return
            if time.monotonic() > end:
                break
    raise RuntimeError(f"{name} did not get there")


def start_jobs(server: Server) -> None:
    """Until every job is in the state that the pictures show."""
    for text in (
        training(server, "tiny-lm-eval", ranks=2, rate=0.01, steps=20, pause=0),
        training(server, "tiny-lm-sweep", ranks=4, rate=0.01, steps=300, pause=1),
        training(server, "tiny-lm-large-rate", ranks=16, rate=0.06, steps=500, pause=0.2),
        training(server, "tiny-lm", ranks=4, rate=0.01, steps=3000, pause=0.5),
    ):
        server.call("/api/run", {"text": text})
    wait_for_state(server, "tiny-lm-sweep", lambda each: each["phase"] == "Running")
    server.call("/api/jobs/default/tiny-lm-sweep/actions/suspend", {})
    wait_for_state(server, "tiny-lm-eval", lambda each: each["phase"] == "Completed")
    wait_for_state(server, "tiny-lm-large-rate", lambda each: each["phase"] == "Failed" and each["done"])


def start_thousand(server: Server) -> None:
    text = job("tokenize", ["sh", "-c", STATES], pods=1000, least=900, plugins="{env: []}")
    server.call("/api/run", {"text": text})
    wait_for_state(
        server, "tokenize", lambda each: sum(each["pods"].values()) - each["pods"]["pending"] >= 900
    )


@contextmanager
def demo() -> Iterator[Server]:
    """A server in a folder of its own, which the tracebacks in the pictures show; no job of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    try:
        (folder / "train.py").write_text(PROGRAM)
        with serving(folder / "home") as server:
            try:
                yield server
            except BaseException:
                server.close()
                raise
    finally:
        shutil.rmtree(folder)


def show(page: Page, server: Server, view: str) -> None:
    page.goto(
        server.origin
        + {
            "list": "/#/",
            "submit": "/#/run",
            "failed": "/#/jobs/default/tiny-lm-large-rate",
            "thousand": "/#/jobs/default/tokenize",
        }[view]
    )
    if view == "list":
        page.locator("progress").first.wait_for()
    elif view == "submit":
        wrong = training(server, "tiny-lm", ranks=4, rate=0.01, steps=600, pause=0.5)
        wrong = wrong.replace("minAvailable: 4", "minAvailable: 5").replace(
            "--worker=worker", "--worker=wroker"
        )
        page.locator("textarea").fill(wrong)
        page.locator("textarea").evaluate("text => { text.scrollTop = 0; text.blur(); }")
        page.locator(".problems li").first.wait_for()
    elif view == "failed":
        page.locator(".panel.bad pre").last.wait_for()
        page.locator(".logs .line.err").first.wait_for()
    else:
        page.wait_for_function("() => document.querySelectorAll('.ranks.many .run').length > 500")
        page.locator(".logs .line").first.wait_for()


def take(page: Page, server: Server, view: str, file: Path) -> None:
    show(page, server, view)
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    page.screenshot(path=file, animations="disabled", full_page=True)
    shrink(file)
    size = file.stat().st_size
    print(f"{file}: {size} bytes")
    if size > MOST_BYTES:
        raise RuntimeError(f"{file} is larger than {MOST_BYTES} bytes")


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else None
    everything = tuple(
        (v, theme, language) for v in VIEWS for theme in ("light", "dark") for language in ("en", "zh")
    )
    with demo() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        start_jobs(server)
        wanted = everything if folder else PICTURES
        started = False
        for view, theme, language in sorted(wanted, key=lambda picture: list(VIEWS).index(picture[0])):
            if view == "thousand" and not started:
                start_thousand(server)
                started = True
            context = browser.new_context(
                color_scheme="dark" if theme == "dark" else "light",
                locale="zh-CN" if language == "zh" else "en-GB",
                viewport={"width": WIDTH, "height": VIEWS[view]},
            )
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto(server.url)
            page.get_by_role("heading", level=1).wait_for()
            suffix = "-zh" if language == "zh" else ""
            take(page, server, view, (folder or ROOT / "docs/images") / f"ui-{view}-{theme}{suffix}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
