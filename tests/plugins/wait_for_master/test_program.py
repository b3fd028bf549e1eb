"""Properties of the wait program that do not depend on the image."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.plugins.wait_for_master.images import Image, build, start
from vcjob.plugins import wait

SOURCE = Path(wait.__file__).with_name("wait_for_master.sh")


@pytest.fixture
def path(paths: dict[str, Path]) -> Path:
    return paths["dash, netcat-openbsd"]


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def test_rank_zero_does_not_wait_for_itself(path: Path) -> None:
    process = start(path, "127.0.0.1", 1, 300, env={"RANK": "0"})
    assert finished(process) == (0, "wait-for-master: this pod is the master: nothing to wait for\n")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"VCJOB_WAIT_HOST": ""}, "VCJOB_WAIT_HOST is empty"),
        ({"VCJOB_WAIT_PORT": ""}, "VCJOB_WAIT_PORT is not a port: ''"),
        ({"VCJOB_WAIT_PORT": "$(MASTER_PORT)"}, "VCJOB_WAIT_PORT is not a port: '$(MASTER_PORT)'"),
        ({"VCJOB_WAIT_TIMEOUT": "0"}, "VCJOB_WAIT_TIMEOUT is not a number of seconds: '0'"),
        ({"VCJOB_WAIT_TIMEOUT": "-1"}, "VCJOB_WAIT_TIMEOUT is not a number of seconds: '-1'"),
        ({"VCJOB_WAIT_TIMEOUT": ""}, "VCJOB_WAIT_TIMEOUT is not a number of seconds: ''"),
    ],
)
def test_settings_that_did_not_arrive_end_it_with_a_code_of_their_own(
    path: Path, settings: dict[str, str], complaint: str
) -> None:
    process = start(path, "127.0.0.1", 1, 5, env=settings)
    assert finished(process) == (wait.WAIT_SETTINGS_EXIT_CODE, f"wait-for-master: error: {complaint}\n")


def test_values_are_never_run_as_code(path: Path, tmp_path: Path) -> None:
    evil = f"127.0.0.1; echo >{tmp_path}/owned; `echo >{tmp_path}/owned`"
    code, _ = finished(start(path, evil, 1, 1))
    assert code == wait.WAIT_TIMEOUT_EXIT_CODE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, path: Path) -> None:
    del path  # asks for the tools
    folder = build(
        Image("dash", {"nc": "nc.openbsd", "timeout": "timeout", "sleep": "sleep"}), tmp_path / "image"
    )
    (folder / "date").write_text("#!/bin/sh\necho 9999999999\n")
    (folder / "date").chmod(0o755)
    began = time.monotonic()
    assert finished(start(folder, "127.0.0.1", 1, 2))[0] == wait.WAIT_TIMEOUT_EXIT_CODE
    assert time.monotonic() - began >= 1.9


@pytest.mark.slow
def test_a_sleep_that_knows_whole_seconds_only_will_do(tmp_path: Path, path: Path) -> None:
    del path
    folder = build(Image("dash", {"nc": "nc.openbsd", "timeout": "timeout"}), tmp_path / "image")
    (folder / "sleep").write_text('#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec /bin/sleep "$1"\n')
    (folder / "sleep").chmod(0o755)
    began = time.monotonic()
    assert finished(start(folder, "127.0.0.1", 1, 2))[0] == wait.WAIT_TIMEOUT_EXIT_CODE
    assert time.monotonic() - began >= 1.9


def test_an_image_without_sleep_is_refused_before_it_spins(tmp_path: Path, path: Path) -> None:
    del path
    folder = build(Image("dash", {"nc": "nc.openbsd", "timeout": "timeout"}), tmp_path / "image")
    assert finished(start(folder, "127.0.0.1", 1, 300)) == (
        wait.WAIT_NO_PROBE_EXIT_CODE,
        "wait-for-master: waiting for 127.0.0.1:1, at most 300 s\n"
        "wait-for-master: error: the image has no sleep: add coreutils or busybox, "
        "or choose another image with --wait-master-image\n",
    )


@pytest.mark.slow
def test_a_line_after_ten_seconds_and_after_thirty_says_why(tmp_path: Path, path: Path) -> None:
    """Time is faked by an uptime and a timeout that run ten times as fast, so that the test need not wait."""
    del path
    folder = build(Image("dash", {"nc": "nc.openbsd", "sleep": "sleep"}), tmp_path / "image")
    (folder / "timeout").write_text(
        "#!/bin/sh\nwhole=${1%.*} part=${1#*.}\nshift\n"
        'exec /usr/bin/timeout "$((whole / 10)).$((whole % 10))$part" "$@"\n'
    )
    (folder / "timeout").chmod(0o755)
    uptime = "read -r up _ </proc/uptime"
    assert uptime in wait.program()
    faster = wait.program().replace(
        uptime, f"{uptime} && up=$((${{up%.*}} * 10 + 1${{up#*.}} / 10 - 10)).0${{up#*.?}}"
    )
    process = subprocess.run(
        [str(folder / "sh"), "-c", faster],
        env={
            "PATH": str(folder),
            "VCJOB_WAIT_HOST": "127.0.0.1",
            "VCJOB_WAIT_PORT": "1",
            "VCJOB_WAIT_TIMEOUT": "35",
        },
        capture_output=True,
        text=True,
        timeout=30,
    )
    lines = re.findall(
        r"wait-for-master: still waiting after (\d+) s: refused \(by nc -z\)\n", process.stdout
    )
    assert [int(line) // 10 for line in lines] == [1, 3]
    assert process.stdout.count("\n") == 3
    assert process.returncode == wait.WAIT_TIMEOUT_EXIT_CODE


LOOKOUTS = {
    "dash, no nc, with bash": "BASH_VERSINFO",
    "bash, no nc, no timeout": "BASH_VERSINFO",
    "busybox ash, netcat-openbsd": "until",
    "dash, no nc, python3": "while True",
}


@pytest.mark.parametrize("name", LOOKOUTS)
def test_one_process_looks_out_until_the_master_is_there(
    name: str, paths: dict[str, Path], master: socket.socket
) -> None:
    process = start(paths[name], "127.0.0.1", master.getsockname()[1], 120)
    deadline = time.monotonic() + 60
    while not lookouts(process.pid, LOOKOUTS[name]):
        assert process.poll() is None
        assert time.monotonic() < deadline, "nobody looks out"
        time.sleep(0.01)
    master.listen(8)
    code, output = finished(process)
    assert code == 0, output


def lookouts(root: int, own_words: str) -> list[str]:
    """The command lines of all descendants that contain the given text."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        try:
            waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has just ended
        if pid != root and own_words in words and "wait-for-master:" not in words:
            found.append(words)
    return found


def test_a_pod_that_is_deleted_ends_the_program(path: Path, master: socket.socket) -> None:
    process = start(path, "127.0.0.1", master.getsockname()[1], 300)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143


def kubelet_expansion(text: str, env: dict[str, str]) -> str:
    """How a kubelet expands a command: `$(NAME)` is replaced where NAME is a variable, `$$` becomes `$`."""
    return re.sub(
        r"\$(\$|\(([^)]*)\))",
        lambda found: "$" if found[1] == "$" else env.get(found[2], found[0]),
        text,
    )


def test_a_kubelet_does_not_change_the_program() -> None:
    env = {"VCJOB_WAIT_HOST": "h", "VCJOB_WAIT_PORT": "1", "MASTER_ADDR": "a", "RANK": "1", "PATH": "/bin"}
    assert kubelet_expansion(wait.program(), env) == wait.program()


def test_the_program_in_the_pod_is_the_file_without_comments_and_indentation() -> None:
    kept = [line.strip() for line in SOURCE.read_text().splitlines()]
    assert wait.program().splitlines() == [line for line in kept if line and not line.startswith("#")]
    assert wait.program().endswith("\n")


def test_the_exit_codes_in_the_file_are_the_ones_in_the_code() -> None:
    assert sorted(set(re.findall(r"fail (\d+)", SOURCE.read_text()))) == ["91", "92", "93"]
    assert (wait.WAIT_TIMEOUT_EXIT_CODE, wait.WAIT_NO_PROBE_EXIT_CODE, wait.WAIT_SETTINGS_EXIT_CODE) == (
        91,
        92,
        93,
    )
    assert frozenset({91, 92, 93}) == wait.WAIT_EXIT_CODES
