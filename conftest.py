"""Fixtures for every test."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

# The daily loop draws a few new examples, `new` many; a failing one is kept and tried first next time. CI (`many`, and
# `fixed` on other Pythons) draws the same ones in every run: no change is refused for an example that it did not break.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a busy machine draws slowly; that is no failure
_COMMON = settings(deadline=None, suppress_health_check=_SLOW)
settings.register_profile("few", _COMMON, max_examples=10)
settings.register_profile("fixed", _COMMON, max_examples=10, derandomize=True)
settings.register_profile("many", _COMMON, max_examples=150, derandomize=True)
settings.register_profile("new", _COMMON, max_examples=500)
settings.load_profile(os.environ.get("VCJOB_EXAMPLES", "few"))

# A shell without job control starts what runs in the background with SIGINT ignored, and every program of a test would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are objects that live to the end: the garbage collector need not visit them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: The process that runs the tests; a worker of xdist loads this file itself.
_PID = os.getpid()
FORKED_CHILD_FAILED = 70


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """End a child that a test has forked and that left the test: it would run all other tests a second time."""
    if os.getpid() != _PID:
        os.write(2, f"{item.nodeid}: a forked child failed: {call.excinfo}\n".encode())
        os._exit(FORKED_CHILD_FAILED)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Names of folders that do not exist yet. (A folder of pytest's own for every test would cost a second.)"""
    folder = tmp_path_factory.mktemp("homes")
    return (str(folder / str(number)) for number in count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or changes the jobs, the kubeconfig or the colours of the person who runs it."""
    monkeypatch.setenv("VCJOB_HOME", next(homes))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
