"""How long a user waits for an answer: `--help` and `validate` compared with a bare interpreter."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
COMMAND = "import sys; from vcjob.cli.main import main; sys.exit(main())"
GOALS = {"--help": 6.0, "validate": 12.0}
ROUNDS = 41


def seconds(arguments: list[str], bytecode: str) -> float:
    """One run of the interpreter, with compiled modules as every installed package has them."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment,
    )
    return time.perf_counter() - begin


def main() -> int:
    commands = {
        "bare": ["-c", "pass"],
        "--help": ["-c", COMMAND, "--help"],
        "validate": ["-c", COMMAND, "validate", "tests/guides/guide.en.yaml"],
    }
    with TemporaryDirectory() as bytecode:
        for arguments in commands.values():
            seconds(arguments, bytecode)
        # In turn, so that a busy machine disturbs all alike; each round gives its own ratios.
        rounds = [{name: seconds(words, bytecode) for name, words in commands.items()} for _ in range(ROUNDS)]
    best = {name: min(times[name] for times in rounds) for name in commands}
    missed = False
    for name, goal in GOALS.items():
        ratio = statistics.median(times[name] / times["bare"] for times in rounds)
        print(
            f"vcjob {name}: {ratio:.1f} x `python -c pass` in the median round (goal: at most {goal:.0f};"
            f" at best {1000 * best[name]:.0f} ms compared with {1000 * best['bare']:.0f} ms)"
        )
        missed |= ratio > goal
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
