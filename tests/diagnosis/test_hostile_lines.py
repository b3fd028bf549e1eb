"""The cost of patterns on hostile output: eight times the text must not take much more than eight times as long.

The controller reads lines that any tenant may write, on its event loop. `re` cannot count its steps, so the test
measures the CPU time of this thread, which other processes on the machine do not change.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from types import ModuleType

import pytest

import vcjob.diagnosis
from vcjob.diagnosis.observation import End, PodObservation
from vcjob.diagnosis.rules import exits, remedies, watchdog
from vcjob.diagnosis.suspect import Suspect
from vcjob.diagnosis.text.crash import crash_of
from vcjob.diagnosis.text.frames import LONGEST_TEXT
from vcjob.diagnosis.text.prefixes import lines_by_rank
from vcjob.diagnosis.text.records import unwrapped
from vcjob.diagnosis.text.torchrun import torchrun_root_cause
from vcjob.diagnosis.text.tracebacks import LONGEST_CHAIN, last_lines, last_traceback, tracebacks
from vcjob.report import progress

#: Characters of the small text and how much longer the large one is; a quadratic search takes 64 times as long.
SMALL, FACTOR, MOST = 2000, 8, 30
#: Seconds below which a ratio of two measurements says nothing.
MEASURABLE = 0.01
#: For each pattern, by its name in the module, a text that it matches.
SAMPLES = {
    "UNRESOLVED": "Temporary failure in name resolution",
    "_BACKEND": "ProcessGroupGloo",
    "_BAR": "train: 50%|#####| 5/10 [00:05<00:05, 1.0it/s, loss=0.5]",
    "_BARRIER": "Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms",
    "_BOX_HEAD": "╭──── Traceback (most recent call last) ────╮",
    "_CALLED_BY_IT": "/lib64/python3.11/torch/distributed/rendezvous.py",
    "_CELL_FRAME": "File /app/train.py:12, in Trainer.fit",
    "_CELL_HEAD": "ValueError    Traceback (most recent call last)",
    "_CHAINED": "During handling of the above exception",
    "_CHATTER": "[2026-11-16 12:00] [INFO] [launch.py:3] node:1:2 [0] NCCL INFO wandb: 1",
    "_CHILD_ENDED": "['train.py'] exits with return code = -9",
    "_CHILD_KILLED": "exit code   :   -9",
    "_CLIENTS": "waiting for clients. 1/2 clients joined",
    "_COLOUR": "\x1b[1;35m",
    "_COMMUNICATION": "/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py",
    "_CRASH_FRAME": '  File "/app/train.py", line 7 in step',
    "_DIGITS": "2026",
    "_DIED_OF": "died with <Signals.SIGKILL: 9>",
    "_EPOCH": "epoch: '3.5",
    "_ERROR_RECORD": '{"level": "error"} [error    ] ERROR',
    "_EXCEPTION": "torch.cuda.OutOfMemoryError: ",
    "_FAILED_CODE": "  exitcode  : 1 (pid: 815)",
    "_FAILED_RANK": "  rank      : 3 (local_rank: 1)",
    "_FRAME": '  File "train.py", line 3, in main',
    "_FATAL": "Fatal Python error: Aborted",
    "_GOT_SIGNAL": "Process 7 got signal: 15",
    "_GROUP": "[PG ID 0 PG GUID 0(default_pg) Rank 2]",
    "_HOST": "unable to resolve host address 'huggingface.co'",
    "_IGNORED": "Error in atexit._run_exitfuncs:",
    "_IN_THREAD": "Process SpawnProcess-1:",
    "_INNER": "/lib/python3.11/json/decoder.py",
    "_LAST": "Last enqueued NCCL work: 5",
    "_LAUNCHER": "/site-packages/accelerate/commands/launch.py",
    "_LIBRARY": "/usr/lib/python3.11/site-packages/bin/torchrun",
    "_LOADER": "python: symbol lookup error: ",
    "_LOOPBACK": "127.0.0.1",
    "_LOSS": "step 3 train loss = '0.5",
    "_MESH": "Gloo connectFullMesh failed",
    "_MINOR_RECORD": "a.py:3 INFO ",
    "_MODULE": "ModuleNotFoundError: No module named 'torch.nn'",
    "_NOT_ACCEPTED": "failed to connect to [127.0.0.1]:23456 (errno: 111 - Connection refused)",
    "_NOT_CONNECTED": "The client socket has timed out after 60ms while trying to connect to (m.job, 23456)",
    "_NOT_ITS_COMMAND": "error mounting the volume of a subPath",
    "_NOT_PERMITTED": "permission denied",
    "_NO_ANSWER": "job-master-0:23456 did not answer within 60 s: refused (by nc)",
    "_NO_CONFIG": 'ConfigMap "settings" does not exist',
    "_NO_FILE": "no such file",
    "_NO_INTERPRETER": "bad interpreter",
    "_NO_MEMORY": "Cannot allocate memory",
    "_NO_ROUTE": "No route to host",
    "_NUMBER": "0x7f12 is 1.5 of 3",
    "_OF_ITSELF": "creating shared memory segment",
    "_OS": "/usr/lib/python3.11/os.py",
    "_OTHER_END": "0->1",
    "_OTHER_LOSS": "validation loss",
    "_OWN": "  vcjob-progress: step=1",
    "_PAIR": "step=1.5e3 ",
    "_PEER": "connection closed by peer",
    "_PREFIX": "[rank1]: ",
    "_PROBE": "liveness probe",
    "_PROGRESS": "WARNING step: 3",
    "_RANK": "[rank1]: ",
    "_RAN_FOR": "ran for 600 milliseconds",
    "_REFUSED": "Connection refused",
    "_RUN_MODULE": "python3.11: No module named package.train",
    "_SCRIPT": "can't open file 'train.py'",
    "_RUNC": "exec /app/train: ",
    "_RUNTIME": "standard_init_linux.go:228: exec /app/train: exec format error",
    "_SHELL": "/app/run.sh: line 1: exec: ./train.py: /usr/bin/pyhton: bad interpreter: No such file or directory",
    "_TOOL": "/usr/bin/timeout: failed to run command ‘pyhton’: No such file or directory",
    "_WORD": "a",
    "_ZSH": "zsh:1: command not found: pyhton",
    "_STACK": "Current thread 0x00007f71209f7b80 (most recent call first):",
    "_STANDARD": "File \"/app/train.py\", line 7 in step",
    "_STEP": "global step: 3 ",
    "_STEP_OF": "global step:  3,000 of 10,000",
    "_STORE_WAIT": "wait timeout after 300ms, keys: Timed out after 30 seconds waiting for",
    "_STUCK": "ProcessGroupNCCL's watchdog got stuck",
    "_TIMEOUT": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=4",
    "_TORCH": "torch.distributed gloo",
    "_TORCH_LOG": "frame #3: ",
    "_TRAINING": "train epoch",
    "_WAITED": "Timed out waiting 6000ms",
    "_WORKER": "[default1]:",
    "_WORKER_EXITED": "DataLoader worker (pid(s) 12, 13) exited unexpectedly",
    "_WORKER_KILLED": "DataLoader worker (pid 12) is killed by signal",
    "_WHAT": "  what():  CUDA error: out of memory",
    "_WARNING": "/app/train.py:3: UserWarning: ",
    "_WATCHDOG": "Watchdog caught collective operation timeout",
}  # fmt: skip
#: The same for the tables of exceptions, row by row.
ROWS = {
    "REMEDIES": (
        "Cuda failure 2 'out of memory'",
        "invalid device ordinal",
        "CUDA driver version is insufficient",
        "torch.cuda.is_available() is False",
        "Duplicate GPU detected",
        "unable to write to file </torch_1_2>",
        "Disk quota exceeded [Errno 122]",
        "unexpected pos 704 vs 598",
        "Read-only file system",
        "Address already in use",
        "[Errno 98] address already in use",
        "Ping failed, invalid value returned from server",
        "Temporary failure in name resolution",
        "Detected mismatch between collectives",
        "collectives with a size mismatch in shape",
        "Resource temporarily unavailable",
        "a.Error: b.PermissionError: [Errno 13]",
        "No such file or directory: 'gcc'",
        "a.Error: b.FileNotFoundError: [Errno 2]",
    ),
    "HINTS": (
        "killed by signal: Killed",
        "terminated with signal SIGSEGV",
        "device-side assert",
        "illegal memory access",
        "uncorrectable ECC error",
        "Cannot re-initialize CUDA in forked subprocess",
        "CUBLAS_STATUS_NOT_INITIALIZED",
        "Mismatched NCCL version",
        "Call to ibv_create_qp failed",
        "no kernel image is available",
        "Your setup doesn't support bf16",
        "EOF when reading a line",
        "api_key not configured",
        "PytorchStreamReader failed",
        "Weights only load failed. x\nPlease file an issue with the following",
        "Weights only load failed",
        "gated repo 401 Client Error",
        "429 Client Error",
        "CERTIFICATE_VERIFY_FAILED",
        "Max retries exceeded",
        "terminate called without an active exception",
        "undefined symbol",
        "Unable to locate credentials",
        "version `GLIBC_2.34' not found",
        "wrong ELF class",
        "numpy.dtype size changed",
        "cannot open shared object file",
        "nvcc was not found",
        "Failed to find C compiler",
        "doesn't have NCCL built in",
        "Unable to find address for",
        "RendezvousTimeoutError",
        "Too many open files",
        "Expected to have finished reduction in the prior iteration",
        "DDP expects same model",
    ),
}
SAMPLES.update({f"{name}[{place}]": text for name, rows in ROWS.items() for place, text in enumerate(rows)})
ROOT_CAUSE = "Root Cause (first observed failure):\n  rank      : 3 (local_rank: 1)\n  exitcode  : 1\n"
GROUP = "  + Exception Group Traceback (most recent call last):\n  | E: x\n  +-+---- 1 ----\n    | ValueError: y\nE: z"
TIMED_OUT = f"{SAMPLES['_TIMEOUT']}, Timeout(ms)=600000) ran for 600100 milliseconds"


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(vcjob.diagnosis.__path__, "vcjob.diagnosis."):
        yield importlib.import_module(found.name)
    yield progress


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield name, value
            elif module is remedies and name in ROWS:
                yield from ((f"{name}[{place}]", row[0]) for place, row in enumerate(value))


def suspect(text: str) -> Suspect:
    return Suspect(PodObservation("w-0", "w", 0, stderr=tuple(text.split("\n"))), End(127))


SEARCHES: list[tuple[str, Callable[[str], object], str]] = [
    *((name, pattern.search, SAMPLES[name]) for name, pattern in patterns() if name in SAMPLES),
    ("torchrun_root_cause", lambda text: torchrun_root_cause(text.split("\n")), ROOT_CAUSE),
    ("tracebacks", lambda text: tracebacks(text.split("\n")), 'Traceback (most recent call last):\n File "a", line 1\nE: x'),
    ("last_traceback", lambda text: last_traceback(text.split("\n")), GROUP),
    ("last_lines", lambda text: last_lines(text.split("\n"), 4), "Exception ignored in: x\nE: y\nnode:1:2 [0] NCCL INFO 50%|"),
    ("lines_by_rank", lambda text: lines_by_rank(text.split("\n")), "[rank1]: a\n"),
    ("unwrapped", lambda text: unwrapped(text.split("\n")), '2026 ERROR Traceback (most recent call last):\n2026 ERROR   File "a", line 1\n{"a": "Traceback (most recent call last):\\nE: x"}'),
    ("crash_of", lambda text: crash_of(text.split("\n")), "Fatal Python error: x\nCurrent thread 0x7f (most recent call first):\n  File \"a\", line 1 in b\nwhat():  x"),
    ("start_error", lambda text: exits.start_error(suspect(text)), 'ConfigMap "settings" does not exist'),
    ("collective_timeout", lambda text: watchdog.collective_timeout(suspect(text)), TIMED_OUT),
]  # fmt: skip


def hostile(sample: str, length: int) -> Iterator[str]:
    """Texts on which a search may begin again and again: a beginning many times, then what follows it many times."""
    cuts = [match.end() for match in re.finditer(r"\w+|\s+|[^\w\s]+", sample)]
    for first in cuts:
        yield sample[:first] * (length // first)
        yield sample[:first] + sample[first - 1] * length
    for first, last in combinations(cuts[:-1], 2):
        yield sample[:first] * (length // 2 // first) + sample[first:last] * (length // 2 // (last - first))


def seconds(search: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    search(text)
    return time.thread_time() - began


def test_every_pattern_is_measured() -> None:
    """Patterns that are written where they are used would escape: each is a constant of its module."""
    assert {name for name, _ in patterns()} == set(SAMPLES)
    for module in modules():
        assert not re.search(
            r"\bre\.(?:search|match|fullmatch|findall|finditer|sub|split)\(", inspect.getsource(module)
        )


@pytest.mark.parametrize(
    "search, sample", [each[1:] for each in SEARCHES], ids=[each[0] for each in SEARCHES]
)
def test_hostile_text_takes_time_in_proportion_to_its_length(
    search: Callable[[str], object], sample: str
) -> None:
    assert search(sample)
    for small, large in zip(hostile(sample, SMALL), hostile(sample, SMALL * FACTOR), strict=True):
        if seconds(search, large) < MEASURABLE:
            continue
        took = min(seconds(search, large) for _ in range(3)), min(seconds(search, small) for _ in range(3))
        assert took[0] < MEASURABLE or took[0] < MOST * took[1], (small[:100], took)


@pytest.mark.parametrize("line", ["[rank{}]: 1", '  File "a", line {}', "rank : {} (local_rank: 1)"])
def test_numbers_of_thousands_of_digits_are_text(line: str) -> None:
    """Python refuses to convert them."""
    long = line.format("9" * 5000)
    lines = ["Traceback (most recent call last):", long, ROOT_CAUSE.splitlines()[0], long, "exitcode : 1"]
    assert tracebacks(lines) == [] and torchrun_root_cause(lines) is None
    assert set(lines_by_rank(lines)) == {None}


def test_the_part_of_a_message_that_rules_search_is_bounded() -> None:
    """Every search through it takes time, and the message of an exception may be the whole rest of the output."""
    (found,) = tracebacks(["Traceback (most recent call last):", "ValueError: bad", *["x" * 2000] * 97])
    assert found.text.startswith("ValueError: bad\nx") and len(found.text) == LONGEST_TEXT


@pytest.mark.parametrize(
    "rest", ["[" * 100_000 + "]" * 100_000, '"\udcff"', "5,"], ids=["deep", "no text", "cut"]
)
def test_a_record_that_cannot_be_read_is_text(rest: str) -> None:
    line = f'{{"a": "Traceback (most recent call last):\\nE: x", "b": {rest}}}'
    assert list(unwrapped([line])) == [line]


@pytest.mark.parametrize("exception", ["E{}: closed", "E: closed"])
def test_the_exceptions_of_a_chain_are_bounded(exception: str) -> None:
    """Rules search the text of each together with those that led to it, which is quadratic in their number."""
    link = "The above exception was the direct cause of the following exception:"
    head = ("Traceback (most recent call last):", '  File "a", line 1, in f')
    found = last_traceback([line for n in range(500) for line in (link, "", *head, exception.format(n), "")])
    assert found is not None
    assert len(found.chain) + len(found.frames) == LONGEST_CHAIN + 2
