"""Whatever dies, no process of a rank is left, and how it ended is reported correctly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.warm.conftest import PYTHON, Running, Starter, environment
from vcjob.local.machine import process
from vcjob.local.warm.client import WarmLauncher

#: A rank with a child in its group, one in a session of its own, and one that was forked twice.
FAMILY = """
import os, sys, time
def sleeper(apart, twice):
    if os.fork() == 0:
        if apart: os.setsid()
        if twice and os.fork(): os._exit(0)
        pids.append(os.getpid()); os.write(w, b'%d\\n' % os.getpid())
        time.sleep(600); os._exit(0)
pids, (r, w) = [], os.pipe()
for apart, twice in ((0, 0), (1, 0), (1, 1)): sleeper(apart, twice)
found = b''
while found.count(b'\\n') < 3: found += os.read(r, 100)
print(os.getpid(), os.getppid(), *found.decode().split(), flush=True)
if len(sys.argv) > 1: sys.exit(int(sys.argv[1]))
time.sleep(600)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Starter]:
    launcher = WarmLauncher(folder=str(tmp_path / "warm"), imports=())
    (tmp_path / "family.py").write_text(FAMILY)
    yield Starter(launcher, tmp_path)
    launcher.close()


def gone(pids: list[int], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while any(process.is_same(pid, None) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def family(running: Running) -> list[int]:
    """The pids of the rank, its rank parent and its descendants."""
    return [int(pid) for pid in running.line().split()]


def zygote_of(starter: Starter) -> int:
    (handle,) = starter.launcher._zygotes.values()  # type: ignore[attr-defined]
    return int(handle.pid)


def test_a_rank_that_ends_leaves_nothing_behind(own: Starter) -> None:
    running = own.start(PYTHON, "family.py", "4")
    assert running.wait().code == 4
    pids = [int(pid) for pid in running.out.read_text().split()]
    # Reported only when all processes have ended but the rank parent that reports it.
    assert gone(pids[2:], 0)
    assert gone(pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_rank_that_is_killed_is_reported_with_its_signal(own: Starter, number: int) -> None:
    running = own.start(PYTHON, "family.py")
    pids = family(running)
    os.kill(pids[0], number)
    assert running.wait().code == -number
    assert gone(pids)


def test_a_client_that_hangs_up_ends_the_rank(own: Starter) -> None:
    running = own.start(PYTHON, "family.py")
    pids = family(running)
    running.child.close()
    assert gone(pids)


def test_a_client_that_is_killed_ends_the_rank(own: Starter) -> None:
    own.run(PYTHON, "family.py", "0")
    reading, writing = os.pipe()
    client = os.fork()
    if client == 0:
        os.write(writing, own.start(PYTHON, "family.py").line().encode())
        signal.pause()
    pids = [int(pid) for pid in os.read(reading, 200).split()]
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    assert gone(pids)


def test_everything_ends_with_a_killed_rank_parent(own: Starter) -> None:
    running = own.start(PYTHON, "family.py")
    pids = family(running)
    os.kill(pids[1], signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    assert gone(pids)


def test_a_killed_zygote_takes_everything_with_it(own: Starter) -> None:
    running = own.start(PYTHON, "family.py")
    pids = family(running)
    os.kill(zygote_of(own), signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    assert gone(pids)


def test_after_the_death_of_the_zygote_the_plain_way_is_taken(own: Starter) -> None:
    own.run(PYTHON, "family.py", "0")
    zygote = zygote_of(own)
    os.kill(zygote, signal.SIGKILL)
    os.waitpid(zygote, 0)
    (own.folder / "five.py").write_text("raise SystemExit(5)")
    assert own.run(PYTHON, "five.py").code == 5


def test_the_zygote_ends_with_the_launcher(own: Starter) -> None:
    own.run(PYTHON, "family.py", "0")
    zygote = zygote_of(own)
    own.launcher.close()  # type: ignore[attr-defined]
    assert os.waitpid(zygote, 0)[1] == 0


def test_no_line_written_before_a_kill_is_lost(own: Starter) -> None:
    (own.folder / "lines.py").write_text(
        "import os, signal\nfor n in range(1000): print(n)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    outcome = own.run(PYTHON, "lines.py")
    assert outcome.code == -signal.SIGKILL
    assert outcome.out.split() == [str(number) for number in range(1000)]


def test_a_process_that_was_forked_from_the_owner_can_start_ranks(own: Starter) -> None:
    """A pod's shim is such a process."""
    own.launcher.prepare([PYTHON, "family.py"], environment(), "/")  # type: ignore[attr-defined]
    codes = []
    for code in (3, 4):
        pid = os.fork()
        if pid == 0:
            os._exit(own.run(PYTHON, "family.py", str(code)).code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    assert codes == [3, 4]


@pytest.mark.parametrize("victim", [0, 1, 2, 3, 4])
def test_whichever_of_a_family_is_killed_all_are_gone(own: Starter, victim: int) -> None:
    runnings = [own.start(PYTHON, "family.py") for _ in range(3)]
    everyone = [family(running) for running in runnings]
    for pids in everyone:
        os.kill(pids[victim], signal.SIGKILL)
    if victim < 2:
        assert [running.wait().code for running in runnings] == [-signal.SIGKILL] * 3
    else:
        for running in runnings:
            running.child.close()
    assert gone([pid for pids in everyone for pid in pids])


def test_a_client_that_gave_up_during_the_imports_gets_no_rank(own: Starter, tmp_path: Path) -> None:
    """It may have started the rank in another way by then: never two of them."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "slow.py").write_text("open('../go').read()")  # imports are done in warm/empty
    (tmp_path / "warm").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "warm" / "go")
    launcher = WarmLauncher(folder=str(tmp_path / "warm"), imports=("slow",))
    (tmp_path / "p.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')")
    env = environment(PYTHONPATH=str(tmp_path / "library"))
    launcher.prepare([PYTHON, "p.py"], env, str(tmp_path))
    pid = os.fork()
    if pid == 0:
        Starter(launcher, tmp_path).start(PYTHON, "p.py", env=env)
        os._exit(0)
    time.sleep(0.2)  # it waits for an answer by now, or will be killed before it asks: both must do
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    (tmp_path / "warm" / "go").write_text("")
    assert Starter(launcher, tmp_path).run(PYTHON, "p.py", env=env).code == 0
    assert (tmp_path / "ran").read_text() == "x"
    launcher.close()
