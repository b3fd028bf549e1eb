"""The cause that is found in what real programs print: each runs here and is diagnosed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from vcjob.diagnosis.diagnose import diagnose

from .test_failure_rules import job, rank

#: What tqdm writes where the bar is not closed: no line break between the bar and the traceback.
BAR = """
import sys
for number in range(7):
    sys.stderr.write(f"\\r  {number}%|\\u258c         | {number}/100 [00:00<00:04, 19.94it/s]")
raise ValueError("loss is NaN")
"""
CLOSED_BAR = """
import sys
def bar(end=""):
    sys.stderr.write(f"\\r  6%|\\u258c         | 6/100 [00:00<00:04, 19.94it/s]{end}")
class Bar:
    def __del__(self):
        bar("\\n")
keep = Bar()
bar("\\n")
raise ValueError("loss is NaN")
"""
ERRORS_AT_EXIT = """
import atexit
class Loader:
    def __del__(self):
        assert False, "can only test a child process"
keep = Loader()
@atexit.register
def finish():
    raise BrokenPipeError(32, "Broken pipe")
raise ValueError("loss is NaN")
"""
ONLY_IGNORED = """
import sys
class Loader:
    def __del__(self):
        assert False, "can only test a child process"
keep = Loader()
sys.exit("no data left, giving up")
"""
TRACKER = """
import atexit, sys
@atexit.register
def finish():
    for line in ("", "View run smooth-sea-1 at: https://tracker/x", "Find logs at: ./wandb/run/logs"):
        sys.stderr.write(f"wandb: {line}\\n")
    for number in range(9):
        sys.stderr.write(f"wandb:  epoch {number}\\n")
raise ValueError("loss is NaN")
"""
RESOURCES = """
from multiprocessing import shared_memory
shared_memory.SharedMemory(create=True, size=64)
raise ValueError("loss is NaN")
"""
LOGGED = """
import logging, os, signal, sys
logging.basicConfig(level=logging.INFO)
try:
    raise OSError("s3: slow down")
except OSError:
    logging.exception("upload failed, will try again")
for number in range(60):
    logging.info("step %d", number)
"""
LOGGED_LAST = """
import logging, sys
try:
    raise ValueError("loss is NaN")
except ValueError:
    logging.exception("training failed")
sys.exit(3)
"""
THREAD = """
import os, signal, sys, threading
def prefetch():
    raise ConnectionResetError(104, "Connection reset by peer")
thread = threading.Thread(target=prefetch)
thread.start()
thread.join()
for number in range(20):
    print("step", number, file=sys.stderr)
"""
#: Threads and processes outlive the main thread: it waits for them, and prints its own traceback before.
THREAD_AT_EXIT = """
import threading, time
def prefetch():
    while threading.main_thread().is_alive():
        time.sleep(0.001)
    import socket
    socket.create_connection(("127.0.0.1", 1))
threading.Thread(target=prefetch).start()
raise ValueError("loss is NaN")
"""
PROCESSES_AT_EXIT = """
import multiprocessing, sys
context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
def load():
    raise queue.get()
processes = [context.Process(target=load) for _ in range(2)]
for process in processes:
    process.start()
def tell(*error):
    sys.__excepthook__(*error)
    for each in ConnectionResetError(104, "Connection reset by peer"), KeyboardInterrupt():
        queue.put(each)
        while all(process.is_alive() for process in processes):
            pass
        processes.remove(next(process for process in processes if not process.is_alive()))
sys.excepthook = tell
raise ValueError("loss is NaN")
"""
CRASH_AT_EXIT = """
import atexit, os, signal
atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
raise ValueError("loss is NaN")
"""
FAULT = """
import ctypes, faulthandler, json, threading
faulthandler.enable()
threading.Thread(target=threading.Event().wait, daemon=True).start()
def step(text):
    return json.loads(text, parse_int=lambda number: ctypes.string_at(0))
step("[1]")
"""
FATAL = """
import ctypes
ctypes.pythonapi.Py_FatalError(b"the state is broken")
"""
GROUP = """
def step():
    raise ValueError("loss is NaN")
errors = []
for _ in range(2):
    try:
        step()
    except Exception as error:
        errors.append(error)
raise ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("inner", errors), TypeError("x")])
"""
WARNED = """
import sys, warnings
def old():
    warnings.warn("TypedStorage is deprecated", UserWarning, stacklevel=2)
old()
print("fatal: the dataset /data/x is missing")
sys.exit(3)
"""
PRINTED = """
import sys, traceback, warnings
warnings.warn("TypedStorage is deprecated")
try:
    raise ValueError("loss is NaN")
except ValueError:
    traceback.print_exc(file=sys.stdout)
    sys.exit(1)
"""
RAISED_FROM = """
def load():
    raise KeyError("label")
try:
    load()
except KeyError as error:
    raise RuntimeError("cannot read the sample") from error
"""
MISSING_BELOW = """
try:
    open("/none/last.pt")
except OSError as error:
    raise RuntimeError("cannot resume") from error
"""
WHILE_HANDLED = """
try:
    raise ValueError("loss is NaN")
finally:
    None.close()
"""
POOL = """
import multiprocessing
def load(number):
    raise ValueError("loss is NaN")
with multiprocessing.get_context("fork").Pool(1) as pool:
    pool.map(load, [1])
"""
INTERRUPTED = """
import os, signal
def step():
    os.kill(os.getpid(), signal.SIGINT)
step()
"""
NOTED_LAST = """
import logging, sys
logging.basicConfig(level=logging.INFO)
logging.error("the dataset /data/x is missing")
for name in ("loader", "logger", "profiler", "tracker", "server"):
    logging.info("closed the %s", name)
sys.exit(3)
"""
#: How the debugger ends without input: from Python 3.14 on it ends the program, before it raised an exception.
QUITTING = "Quitting pdb will kill the process. Quit anyway? [y/n] "
DEBUGGER_ENDED = "bdb.BdbQuit" if sys.version_info < (3, 14) else QUITTING.rstrip()
KILLED = "os.kill(os.getpid(), signal.SIG{})"
NAN_AT = "rank 0 raised ValueError: loss is NaN (train.py:{} in <module>)"
CASES: dict[str, tuple[str, str, str]] = {
    "a bar before the traceback": (BAR, "Exception", NAN_AT.format(5)),
    "a bar after the traceback": (CLOSED_BAR, "Exception", NAN_AT.format(10)),
    "errors in exit handlers": (ERRORS_AT_EXIT, "Exception", NAN_AT.format(10)),
    "ignored errors below a message": (ONLY_IGNORED, "NonZeroExit", "rank 0 ended with exit code 1: no data left, giving up"),
    "the summary of a tracker": (TRACKER, "Exception", NAN_AT.format(9)),
    "a warning of the resource tracker": (RESOURCES, "Exception", NAN_AT.format(4)),
    "handled, then killed": (LOGGED + KILLED.format("KILL"), "Killed", "rank 0 was killed by SIGKILL, which vcjob did not send"),
    "handled, then a crash": (LOGGED + KILLED.format("SEGV"), "SegmentationFault", "rank 0 crashed in native code (SIGSEGV)"),
    "handled, then ended": (LOGGED + KILLED.format("TERM"), "Killed", "rank 0 was ended by SIGTERM, which vcjob did not send"),
    "handled, then an exit": (LOGGED + "sys.exit('no data')", "NonZeroExit", "rank 0 ended with exit code 1: no data"),
    "logged, then an exit": (LOGGED_LAST, "Exception", NAN_AT.format(4)),
    "a thread, then killed": (THREAD + KILLED.format("KILL"), "Killed", "rank 0 was killed by SIGKILL, which vcjob did not send"),
    "a thread, then an exception": (THREAD + "raise ValueError('loss is NaN')", "Exception", NAN_AT.format(10)),
    "an exception, then one of a thread": (THREAD_AT_EXIT, "Exception", NAN_AT.format(9)),
    "an exception, then those of processes": (PROCESSES_AT_EXIT, "Exception", NAN_AT.format(18)),
    "an exception, then a crash": (CRASH_AT_EXIT, "Exception", NAN_AT.format(4)),
    "a crash that Python explains": (
        FAULT,
        "SegmentationFault",
        "rank 0 crashed in native code (SIGSEGV) at train.py:6 in <lambda>",
    ),
    "an abort that Python explains": (
        FATAL,
        "Aborted",
        "rank 0 was aborted by native code (SIGABRT) at train.py:3 in <module>: the state is broken",
    ),
    "a group": (
        GROUP,
        "Exception",
        "rank 0 raised ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions); the first: ValueError: "
        "loss is NaN (train.py:3 in step)",
    ),
    "a script that cannot be compiled": ("import os\ndef f(", "Exception", "rank 0 raised SyntaxError: '(' was never closed (train.py:2)"),
    "a script with a wrong indent": (
        "def f():\nx = 1",
        "Exception",
        "rank 0 raised IndentationError: expected an indented block after function definition on line 1 (train.py:2)",
    ),
    "a reason on stdout": (WARNED, "NonZeroExit", "rank 0 ended with exit code 3: fatal: the dataset /data/x is missing"),
    "an exception raised from another": (
        RAISED_FROM,
        "Exception",
        "rank 0 raised RuntimeError: cannot read the sample (train.py:7 in <module>), caused by KeyError: 'label'",
    ),
    "an exception raised from one with a cause of its own": (
        MISSING_BELOW,
        "FileNotFound",
        "rank 0 needs a file that does not exist: FileNotFoundError: [Errno 2] No such file or directory: '/none/last.pt'",
    ),
    "an exception while another was handled": (
        WHILE_HANDLED,
        "Exception",
        "rank 0 raised AttributeError: 'NoneType' object has no attribute 'close' (train.py:5 in <module>), while it "
        "handled ValueError: loss is NaN",
    ),
    "an exception of a process of a pool": (POOL, "Exception", NAN_AT.format(4).replace("<module>", "load")),
    "an exception without a message": (
        "loss = -1\nassert loss > 0",
        "Exception",
        "rank 0 raised AssertionError at `assert loss > 0` (train.py:2 in <module>)",
    ),
    "an interrupt": (INTERRUPTED, "Killed", "rank 0 was ended by SIGINT, which vcjob did not send"),
    "notes below an error of the log": (
        NOTED_LAST,
        "NonZeroExit",
        "rank 0 ended with exit code 3: ERROR:root:the dataset /data/x is missing",
    ),
    "a traceback on stdout": (PRINTED, "Exception", NAN_AT.format(5)),
}  # fmt: skip


class Ran(NamedTuple):
    """How a program ended, and the last state of each line that it printed."""

    code: int
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]


def ran(program: str, folder: Path) -> Ran:
    (folder / "train.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, timeout=300, stdin=subprocess.DEVNULL
    )
    return Ran(done.returncode, *(shown(each.decode()) for each in (done.stdout, done.stderr)))


def shown(output: str) -> tuple[str, ...]:
    """As the readers of logs show it."""
    return tuple(line.rsplit("\r", 1)[-1] for line in output.removesuffix("\n").split("\n"))


@pytest.mark.parametrize("case", CASES)
def test_the_cause_in_the_output_of_a_real_program(case: str, tmp_path: Path) -> None:
    program, cause, message = CASES[case]
    end = ran(program, tmp_path)
    signal = {"signal": -end.code} if end.code < 0 else {}
    code = 128 - end.code if end.code < 0 else end.code
    stdout, stderr = (lines if any(lines) else () for lines in (end.stdout, end.stderr))
    finding = diagnose(job(rank(0, code=code, stdout=stdout, stderr=stderr, **signal)))[0]
    assert (finding.cause, finding.message.replace(f"{tmp_path}/", "")) == (cause, message), end


@pytest.mark.parametrize(
    ("program", "hint", "evidence"),
    [
        ("input('Your choice: ')", "no standard input", "EOFError: EOF when reading a line"),
        ("breakpoint()\nnumber = 1", "remove breakpoint()", DEBUGGER_ENDED),
        ("import os\nos.environ['DATA_SET']", "`vcjob run --env DATA_SET=VALUE`", "KeyError: 'DATA_SET'"),
        (
            "import subprocess\nsubprocess.run(['sh', '-c', 'echo no such bucket >&2; exit 2'], check=True)",
            "",
            "no such bucket",
        ),
        (INTERRUPTED, "who sent the signal", "at train.py:4 in step"),
        (RAISED_FROM, "", "at train.py:3 in load"),
        (NOTED_LAST, "", "ERROR:root:the dataset /data/x is missing"),
        (
            THREAD + "raise RuntimeError('no data for 2 s')",
            "",
            "before, in another thread or process: ConnectionResetError: [Errno 104] Connection reset by peer",
        ),
    ],
)
def test_what_helps_and_what_led_to_it(program: str, hint: str, evidence: str, tmp_path: Path) -> None:
    end = ran(program, tmp_path)
    signal = {"signal": -end.code} if end.code < 0 else {}
    stdout, stderr = (lines if any(lines) else () for lines in (end.stdout, end.stderr))
    finding = diagnose(job(rank(0, code=abs(end.code), stdout=stdout, stderr=stderr, **signal)))[0]
    assert hint in finding.hint
    assert evidence in [each.text.replace(f"{tmp_path}/", "") for each in finding.evidence]


def test_a_debugger_that_ends_the_program_is_to_be_removed() -> None:
    """What Python 3.14 prints, all of it on stdout."""
    printed = ("> /app/train.py(1)<module>()", "-> breakpoint()", "(Pdb) ", QUITTING)
    finding = diagnose(job(rank(0, stdout=printed)))[0]
    assert (finding.cause, "remove breakpoint()" in finding.hint) == ("NonZeroExit", True)
