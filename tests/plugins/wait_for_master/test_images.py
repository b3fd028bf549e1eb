"""The wait program, run in every simulated image."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from tests.plugins.wait_for_master.images import IMAGES, start
from vcjob.plugins.wait import WAIT_NO_PROBE_EXIT_CODE, WAIT_TIMEOUT_EXIT_CODE

ABLE = {name: method for name, (_, method) in IMAGES.items() if method}
UNABLE = [name for name, (_, method) in IMAGES.items() if method is None]


def run_all(
    paths: dict[str, Path], names: list[str], host: str, port: int, timeout: int
) -> dict[str, tuple[int, str]]:
    """Exit code and output by image; the seconds in the output are replaced by N."""
    running = {name: start(paths[name], host, port, timeout) for name in names}
    outcome = {}
    for name, process in running.items():
        output, _ = process.communicate(timeout=60)
        outcome[name] = (process.returncode, re.sub(r"after [0-9.]+ s", "after N s", output))
    return outcome


def all_answer(port: int) -> dict[str, tuple[int, str]]:
    return {
        name: (
            0,
            f"wait-for-master: waiting for 127.0.0.1:{port}, at most 30 s\n"
            f"wait-for-master: 127.0.0.1:{port} answers after N s (by {method})\n",
        )
        for name, method in ABLE.items()
    }


def test_a_master_that_is_there_ends_the_wait_at_once(paths: dict[str, Path], master: socket.socket) -> None:
    master.listen(64)
    port = master.getsockname()[1]
    assert run_all(paths, list(ABLE), "127.0.0.1", port, 30) == all_answer(port)


@pytest.mark.slow
def test_a_master_that_comes_after_three_seconds_is_seen(
    paths: dict[str, Path], master: socket.socket
) -> None:
    port = master.getsockname()[1]
    timer = threading.Timer(3, master.listen, [64])
    timer.start()
    try:
        assert run_all(paths, list(ABLE), "127.0.0.1", port, 30) == all_answer(port)
    finally:
        timer.cancel()


@pytest.mark.slow
def test_a_master_that_never_comes_ends_with_the_code_of_a_timeout_and_the_cause(
    paths: dict[str, Path], master: socket.socket
) -> None:
    port = master.getsockname()[1]
    found = run_all(paths, list(ABLE), "127.0.0.1", port, 3)
    # A probe that needs seconds on a busy machine counts as one without an answer; alone it is quick.
    for name in [name for name, (_, text) in found.items() if "no answer" in text]:
        found |= run_all(paths, [name], "127.0.0.1", port, 3)
    assert found == {
        name: (
            WAIT_TIMEOUT_EXIT_CODE,
            f"wait-for-master: waiting for 127.0.0.1:{port}, at most 3 s\n"
            f"wait-for-master: error: 127.0.0.1:{port} did not answer within 3 s: refused (by {method}); "
            "its pod exists, but nothing listens: check that the training program runs and uses MASTER_PORT\n",
        )
        for name, method in ABLE.items()
    }


def test_an_image_without_a_probe_fails_at_once_and_says_what_to_add(
    paths: dict[str, Path],
) -> None:
    assert run_all(paths, UNABLE, "127.0.0.1", 1, 300) == dict.fromkeys(
        UNABLE,
        (
            WAIT_NO_PROBE_EXIT_CODE,
            "wait-for-master: waiting for 127.0.0.1:1, at most 300 s\n"
            "wait-for-master: error: the image has no tool to probe 127.0.0.1:1: add nc (with -z), bash or python3, "
            "or choose another image with --wait-master-image\n",
        ),
    )
