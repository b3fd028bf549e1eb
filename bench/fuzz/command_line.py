"""The command line that both fuzzers share: `--cases`, `--seed`, and the outcome in one line."""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable


def fuzz_main(name: str, description: str | None, run: Callable[[int, int], Counter[str]]) -> int:
    """Run `run(cases, seed)` and print what came out; 1 where it raised. The seed repeats a run."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--cases", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    chosen = options.parse_args()
    print(f"{name}: seed {chosen.seed}, {chosen.cases} cases", flush=True)
    start = time.monotonic()
    try:
        outcomes = run(chosen.cases, chosen.seed)
    except Exception:
        traceback.print_exc()
        return 1
    shown = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
    print(f"{name}: no failure in {time.monotonic() - start:.0f} s; {shown}")
    return 0
