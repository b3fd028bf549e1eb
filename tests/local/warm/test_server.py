"""Servers that are kept warm between runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.local.warm.conftest import PYTHON, Running, Starter, environment
from vcjob.errors import BackendError, UserError
from vcjob.local.machine import files
from vcjob.local.warm import server
from vcjob.local.warm.client import WarmChild, WarmLauncher
from vcjob.local.warm.command import canonical
from vcjob.local.warm.spawn import Recipe

Start = Callable[..., server.ServerInfo]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "warm")


@pytest.fixture
def start(folder: str) -> Iterator[Start]:
    """Starts a server that has imported one small module."""

    def begin(idle: float = 60.0, imports: tuple[str, ...] = ("colorsys",), **env: str) -> server.ServerInfo:
        return server.start(folder, Recipe(canonical(PYTHON), (), environment(**env), imports), idle=idle)

    yield begin
    for info in server.servers(folder):
        server.stop(folder, info)
        wait_gone(info.pid)


def wait_gone(pid: int, seconds: float = 60) -> None:
    """A server is our child here, as it is of the command that started it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.005)
    raise AssertionError(f"{pid} is still there")


def run_from(folder: str, tmp_path: Path, text: str, **env: str) -> tuple[Running, list[str]]:
    """A run that may use a kept server but start no zygote of its own."""
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=folder, env=environment(**env), may_start=False)
    (tmp_path / "p.py").write_text(text)
    return Starter(launcher, tmp_path).start(PYTHON, "p.py", env=environment(RANK="0", **env)), said


LOADED = "import sys; print('colorsys' in sys.modules)"


def test_the_next_run_comes_from_the_server(start: Start, folder: str, tmp_path: Path) -> None:
    info = start()
    assert info.modules == ["colorsys"]
    for _ in range(2):
        running, said = run_from(folder, tmp_path, LOADED)
        assert isinstance(running.child, WarmChild)
        assert running.wait().out == "True\n"
        assert said == []


def test_starting_it_twice_gives_the_same_server(start: Start, folder: str) -> None:
    assert start().pid == start().pid
    assert len(server.servers(folder)) == 1


def test_a_module_that_cannot_be_imported_is_refused(start: Start, folder: str) -> None:
    with pytest.raises(UserError, match="cannot import nope_mod") as refused:
        start(imports=("colorsys", "nope_mod"))
    assert refused.value.hint and server.servers(folder) == []


def test_another_environment_has_another_server(start: Start, folder: str, tmp_path: Path) -> None:
    start()
    running, _ = run_from(folder, tmp_path, LOADED, ANYTHING="else")
    assert not isinstance(running.child, WarmChild)
    assert running.wait().out == "False\n"
    start(ANYTHING="else")
    assert len(server.servers(folder)) == 2
    running, _ = run_from(folder, tmp_path, LOADED, ANYTHING="else")
    assert running.wait().out == "True\n"


def test_another_terminal_is_no_other_environment(start: Start, folder: str, tmp_path: Path) -> None:
    start(TERM="xterm", SSH_TTY="/dev/pts/1", OLDPWD="/a")
    running, _ = run_from(folder, tmp_path, LOADED, TERM="screen", SSH_TTY="/dev/pts/9", SHLVL="4")
    assert running.wait().out == "True\n"


def test_variables_of_the_job_do_not_matter_unless_they_act_at_start(
    start: Start, folder: str, tmp_path: Path
) -> None:
    start()
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=folder, env=environment(), may_start=False)
    (tmp_path / "p.py").write_text("import os, sys; print('colorsys' in sys.modules, os.environ.get('LR'))")
    starter = Starter(launcher, tmp_path)
    assert starter.run(PYTHON, "p.py", env=environment(LR="0.1")).out == "True 0.1\n"
    assert starter.run(PYTHON, "p.py", env=environment(LR="0.2", OMP_NUM_THREADS="3")).out == "False 0.2\n"
    assert said == ["the kept-warm server is not used: its OMP_NUM_THREADS differs from the run's"]


def test_nothing_of_a_run_is_kept(start: Start, folder: str, tmp_path: Path) -> None:
    info = start()
    secret = "a-value-" + "that-is-nowhere-else"
    running, _ = run_from(folder, tmp_path, "import os; print(len(os.environ['RANK']))")
    running.wait()
    launcher = WarmLauncher(folder=folder, env=environment(), may_start=False)
    outcome = Starter(launcher, tmp_path).run(PYTHON, "p.py", env=environment(RANK=secret))
    assert outcome.out == f"{len(secret)}\n"
    assert secret.encode() not in memory_of(info.pid)


def memory_of(pid: int) -> bytes:
    """All that the process has in its heap and in other memory that it can write."""
    found = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw"):
                begin, end = (int(edge, 16) for edge in span.split("-"))
                memory.seek(begin)
                try:
                    found += memory.read(end - begin)
                except OSError:
                    pass
    return found


def test_only_the_owner_can_reach_it(start: Start, folder: str) -> None:
    info = start()
    path = os.path.join(folder, f"{info.key}.sock")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.join(folder, f"{info.key}.json")).st_mode) == 0o600


def test_another_user_is_turned_away_even_where_the_folder_lets_him_in(
    start: Start, folder: str, another_user: int
) -> None:
    info = start()
    path = os.path.join(folder, f"{info.key}.sock")
    for parent in [Path(path), *Path(path).parents]:
        if parent.owner() == "root" and "pytest" in str(parent):
            parent.chmod(0o777)
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(another_user)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                os._exit(0 if connection.recv(100) == b"" else 1)
        except ConnectionResetError:
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.chmod(folder, 0o700)
    assert len(server.servers(folder)) == 1


def test_a_folder_that_others_may_enter_is_not_trusted(start: Start, folder: str, tmp_path: Path) -> None:
    start()
    os.chmod(folder, 0o755)
    running, _ = run_from(folder, tmp_path, LOADED)
    assert running.wait().out == "False\n"
    with pytest.raises(BackendError, match="nobody else may enter"):
        server.servers(folder)
    os.chmod(folder, 0o700)


def test_it_ends_when_nobody_uses_it(start: Start, folder: str) -> None:
    info = start(idle=0.05)
    wait_gone(info.pid)
    assert server.servers(folder) == []
    assert [name for name in os.listdir(folder) if name.startswith(info.key)] == []


@pytest.mark.slow
def test_it_does_not_end_while_a_rank_runs(start: Start, folder: str, tmp_path: Path) -> None:
    info = start(idle=2.0)  # the rank must begin before that, also on a busy machine
    running, _ = run_from(folder, tmp_path, "import time; print('x', flush=True); time.sleep(3.0)")
    assert running.wait().code == 0
    assert info.alive
    wait_gone(info.pid)


def test_stopping_it_lets_a_rank_run_on(start: Start, folder: str, tmp_path: Path) -> None:
    info = start()
    os.mkfifo(tmp_path / "f")
    running, _ = run_from(folder, tmp_path, "print('x', flush=True); open('f').read(); print('y')")
    assert running.line() == "x"
    server.stop(folder, info)
    assert server.servers(folder) == []
    later, _ = run_from(folder, tmp_path, LOADED)
    assert later.wait().out == "False\n"
    (tmp_path / "f").write_text("go")
    assert running.wait() == (0, "x\ny\n", "")
    wait_gone(info.pid)


def test_a_server_that_was_killed_is_as_if_it_had_never_been(
    start: Start, folder: str, tmp_path: Path
) -> None:
    info = start()
    os.kill(info.pid, signal.SIGKILL)
    wait_gone(info.pid)
    running, said = run_from(folder, tmp_path, LOADED)
    assert running.wait().out == "False\n"
    assert server.servers(folder) == []
    assert start().pid != info.pid
    assert said == []


def test_a_stale_server_says_so_and_ends(start: Start, folder: str, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "thing.py").write_text("value = 1")
    info = start(imports=("thing",), PYTHONPATH=str(library))
    (library / "thing.py").write_text("value = 22")
    time.sleep(0.25)  # the files are checked five times a second
    running, said = run_from(folder, tmp_path, "import thing; print(thing.value)", PYTHONPATH=str(library))
    assert running.wait().out == "22\n"
    assert "thing.py has changed" in said[0]
    wait_gone(info.pid)
    assert start(imports=("thing",), PYTHONPATH=str(library)).pid != info.pid


def test_a_server_of_another_protocol_is_replaced(start: Start, folder: str) -> None:
    old = start()
    files.write_json(os.path.join(folder, f"{old.key}.json"), msgspec.structs.replace(old, protocol=0))
    new = start()
    assert new.pid != old.pid and [info.pid for info in server.servers(folder)] == [new.pid]
    wait_gone(old.pid)


def test_a_question_of_another_protocol_gets_no_answer_and_does_no_harm(start: Start, folder: str) -> None:
    info = start()
    path = os.path.join(folder, f"{info.key}.sock")
    question = {"env": server.server_env(environment()), "unknown": []}
    assert server.ask(path, {"ask": question}) is None
    assert server.ask(path, {"ask": None}) == {"fit": True}


def test_a_server_that_could_not_be_used_is_not_kept(start: Start, folder: str, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "thing.py").write_text(
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    with pytest.raises(BackendError, match="nothing can be kept warm here: what was imported runs 1 thread"):
        start(imports=("thing",), PYTHONPATH=str(library))
    assert server.servers(folder) == []


def test_a_home_of_any_depth_will_do(tmp_path: Path) -> None:
    folder = str(tmp_path / ("d" * 90) / ("e" * 90))
    info = server.start(folder, Recipe(canonical(PYTHON), (), environment(), ()), idle=60)
    running, _ = run_from(folder, tmp_path, "print('hello')")
    assert isinstance(running.child, WarmChild)
    assert running.wait().out == "hello\n"
    server.stop(folder, info)
    wait_gone(info.pid)


def test_the_verb_starts_shows_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from vcjob.cli.warm import command

    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))
    # Nothing heavy: an interpreter that has no torch would do as well.
    monkeypatch.setattr("vcjob.local.warm.spawn.DEFAULT_IMPORTS", ())
    runner = CliRunner()

    def call(*words: str) -> str:
        result = runner.invoke(command, words, catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    assert "no kept-warm server" in call("status")
    started = json.loads(call("start", "--import", "colorsys", "--idle", "60", "-o", "json"))["servers"][0]
    assert started["modules"] == ["colorsys"]
    shown = json.loads(call("status", "-o", "json"))["servers"]
    assert [entry["pid"] for entry in shown] == [started["pid"]]
    assert "with colorsys" in call("status")
    assert "stopped" in call("stop")
    wait_gone(started["pid"])
    assert json.loads(call("status", "-o", "json")) == {"servers": []}


@pytest.mark.parametrize("content", ["", "{}"])
def test_a_damaged_record_of_a_server_is_removed(start: Start, folder: str, content: str) -> None:
    """As a full disk or another version of vcjob leaves it. The server without a socket ends after its idle time."""
    old = start()
    Path(folder, f"{old.key}.json").write_text(content)
    assert server.servers(folder) == []
    assert not [name for name in os.listdir(folder) if name.startswith(old.key)]
    new = start()
    assert new.pid != old.pid and [info.pid for info in server.servers(folder)] == [new.pid]
    os.kill(old.pid, signal.SIGKILL)
    wait_gone(old.pid)
