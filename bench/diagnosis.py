"""The same ten failures under torchrun, TorchX (local) and vcjob: what each says within one minute.

    python -m bench.diagnosis [LAUNCHER ...]     torchrun, torchx, vcjob; default: all; none: only write the tables

Each failure is a small program of two ranks that really fails. A launcher gets a minute; then it is ended. Its answer is
what it printed itself at the end (torchrun's table, TorchX's summary, vcjob's summary or `vcjob why`), not what the
ranks printed before. TorchX is installed from PyPI into a temporary folder. Results are kept per launcher in
docs/performance/diagnosis.json; the table in docs/diagnosis.md, between two marks, is written from them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "performance" / "diagnosis.json"
PAGES = {ROOT / "docs" / "diagnosis.md": "en", ROOT / "docs" / "zh" / "diagnosis.md": "zh"}
TORCHX = "torchx==0.7.0"
LAUNCHERS = ("torchrun", "torchx", "vcjob")
MINUTE = 60.0
#: How long a launcher may take to end its ranks once it is asked to.
_GRACE = 10.0
_BEGIN, _END = "<!-- comparison -->", "<!-- /comparison -->"
_INIT = """
import datetime, os, sys, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
dist.init_process_group('gloo', timeout=datetime.timedelta(minutes=30))
dist.all_reduce(torch.ones(1))
"""


class Case(NamedTuple):
    """A failure: its program, the rank that fails first (None: every rank) and a pattern that only its cause has."""

    name: str
    program: str
    rank: int | None
    cause: str


CASES = [
    Case(
        "an exception on rank 1, which then takes 3 s to exit",
        _INIT
        + "import atexit\nif rank == 1:\n    atexit.register(time.sleep, 3)\n    raise ValueError('loss is NaN')\n"
        "dist.all_reduce(torch.ones(1))\n",
        1,
        "loss is NaN",
    ),
    Case("a missing module on every rank", "import no_such_module\n", None, "no_such_module"),
    Case(
        "a missing file on rank 1",
        "import os, time\nif os.environ['RANK'] == '1': open('/data/train.bin')\ntime.sleep(90)\n",
        1,
        "/data/train.bin",
    ),
    Case(
        "SIGKILL of rank 1 from outside",
        "import os, signal, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(90)\n",
        1,
        r"SIGKILL|exitcode\s*: -9",
    ),
    Case(
        "a segmentation fault of rank 1",
        "import ctypes, os, time\nif os.environ['RANK'] == '1': ctypes.string_at(0)\ntime.sleep(90)\n",
        1,
        r"SIGSEGV|exitcode\s*: -11",
    ),
    Case(
        "exit code 3 of rank 1, with a line that says why",
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(print('no dataset', flush=True) or 3)\ntime.sleep(90)\n",
        1,
        "no dataset",
    ),
    Case(
        "rank 1 exits with 0 while rank 0 works",
        _INIT + "if rank == 1: os._exit(0)\nfor _ in range(50): dist.all_reduce(torch.ones(1)); time.sleep(0.1)\n",
        1,
        "exit code 0",
    ),
    Case(
        "different shapes in one collective",
        _INIT + "for _ in range(9): dist.all_reduce(torch.ones(4000 if rank == 1 else 2))\n",
        None,
        "CollectiveMismatch|does not match|mismatch",
    ),
    Case(
        "a program that expects 3 ranks where 2 run",
        "import datetime, os, torch.distributed as dist\n"
        "dist.init_process_group('gloo', rank=int(os.environ['RANK']), world_size=3, "
        "timeout=datetime.timedelta(seconds=10))\n",
        None,
        "joined|world_size",
    ),
    Case(
        "rank 1 sleeps, and rank 0 waits for it",
        _INIT + "if rank == 1: time.sleep(3600)\ndist.all_reduce(torch.ones(1))\n",
        1,
        "never reached|wait",
    ),
]  # fmt: skip


#: The names of the cases, and what a launcher named, in the Chinese page.
CHINESE = {
    "an exception on rank 1, which then takes 3 s to exit": "rank 1 抛出异常，3 秒后才退出",
    "a missing module on every rank": "所有 rank 都缺少一个模块",
    "a missing file on rank 1": "rank 1 缺少一个文件",
    "SIGKILL of rank 1 from outside": "rank 1 被外部的 SIGKILL 杀死",
    "a segmentation fault of rank 1": "rank 1 发生段错误",
    "exit code 3 of rank 1, with a line that says why": "rank 1 打印原因后以退出码 3 结束",
    "rank 1 exits with 0 while rank 0 works": "rank 0 仍在工作时，rank 1 以 0 退出",
    "different shapes in one collective": "同一次集合通信中形状不同",
    "a program that expects 3 ranks where 2 run": "程序要求 3 个 rank，实际只有 2 个",
    "rank 1 sleeps, and rank 0 waits for it": "rank 1 睡眠，rank 0 一直等待它",
    "rank and cause": "rank 和原因",
    "rank": "rank",
    "cause": "原因",
    "neither": "均未指出",
}


class Answer(NamedTuple):
    """What a launcher said: whether it names the rank and the cause, after how long, and its own text."""

    rank: bool
    cause: bool
    seconds: float
    words: str


def run(launcher: str, folder: Path, tools: Path) -> str:
    """The whole output of one failing job, ended after a minute; for vcjob followed by `vcjob why`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VCJOB_HOME": str(folder / "home"), "NO_COLOR": "1"}
    python = sys.executable
    if launcher == "torchx":
        environment["PYTHONPATH"] = str(tools)
        environment["PATH"] = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        command = [
            python,
            "-m",
            "torchx.cli.main",
            "run",
            "--scheduler=local_cwd",
            "--wait",
            "--log",
            "dist.ddp",
        ]
        command += ["-j", "1x2", "--script", "train.py"]
    elif launcher == "torchrun":
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    else:
        command = [python, "-m", "vcjob", "run", "--name", "train", "--workers", "1", "train.py"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    said = ""
    try:
        said, _ = process.communicate(timeout=MINUTE - (8 if launcher == "vcjob" else 0))
    except subprocess.TimeoutExpired:
        if launcher == "vcjob":
            said = _why(python, folder, environment)
        os.killpg(process.pid, signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        else:
            said = said or rest.partition("KeyboardInterrupt")[0].partition("SignalException")[0]
    else:
        if launcher == "vcjob":
            said = _why(python, folder, environment)
    return said


def _why(python: str, folder: Path, environment: dict[str, str]) -> str:
    command = [python, "-m", "vcjob", "why", "train"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def own_words(launcher: str, said: str) -> str:
    """What the launcher itself says at the end."""
    if launcher == "torchrun":
        return said[said.rfind("Root Cause (first observed failure)") :] if "Root Cause" in said else ""
    if launcher == "torchx":
        table = said[said.rfind("Root Cause (first observed failure)") :] if "Root Cause" in said else ""
        return table + "\n".join(
            line for line in said.splitlines() if re.search(r"AppStatus|msg:|state:", line)
        )
    return said


def judged(case: Case, launcher: str, said: str, seconds: float) -> Answer:
    words = own_words(launcher, said)
    named = {
        int(rank) for rank in re.findall(r"\brank\s*:? ?(\d+)", words.partition("ended because of it")[0])
    }
    rank = (
        bool(named)
        if case.rank is None
        else case.rank in named and (launcher != "torchrun" or len(named) == 1)
    )
    shown = [
        line.strip() for line in words.splitlines() if line.strip() and not set(line.strip()) <= set("=-")
    ]
    return Answer(rank, re.search(case.cause, words) is not None, round(seconds, 1), "\n".join(shown[:8]))


def main() -> int:
    launchers = [name for name in sys.argv[1:] if name != "none"] if sys.argv[1:] else list(LAUNCHERS)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with TemporaryDirectory(prefix="vcjob-diagnosis-") as temporary:
        tools = Path(temporary, "tools")
        if "torchx" in launchers:
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "-q", "--target", tools, TORCHX], check=True
            )
        for launcher in launchers:
            for number, case in enumerate(CASES):
                folder = Path(temporary, f"{launcher}-{number}")
                folder.mkdir()
                (folder / "train.py").write_text(case.program)
                began = time.monotonic()
                said = run(launcher, folder, tools).replace(f"{folder}/", "").replace(f"{ROOT}/", "")
                answer = judged(case, launcher, said, time.monotonic() - began)
                results.setdefault(launcher, {})[case.name] = answer._asdict()
                print(launcher, case.name, answer, flush=True)
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    for page, language in PAGES.items():
        write_table(page, CHINESE if language == "zh" else {}, results)
    return 0


def write_table(
    page: Path, translated: dict[str, str], results: dict[str, dict[str, dict[str, object]]]
) -> None:
    """Replace the table between the two marks of a page."""
    names = [name for name in LAUNCHERS if len(results.get(name, {})) == len(CASES)]
    rows = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for case in CASES:
        cells = [_cell(results[name][case.name], translated) for name in names]
        rows.append(f"| {translated.get(case.name, case.name)} | {' | '.join(cells)} |")
    head, _, rest = page.read_text().partition(f"{_BEGIN}\n")
    _, _, tail = rest.partition(_END)
    page.write_text(f"{head}{_BEGIN}\n" + "\n".join(rows) + f"\n{_END}{tail}")


def _cell(answer: dict[str, object], translated: dict[str, str]) -> str:
    named = " and ".join(word for word in ("rank", "cause") if answer[word]) or "neither"
    comma = "，" if translated else ", "
    return f"{translated.get(named, named)}{comma}{answer['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
