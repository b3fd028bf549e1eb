"""Every rank adds its numbers to those of all others and checks the sum.

python -m vcjob.local.programs.allreduce [LENGTH]
"""

from __future__ import annotations

import sys
import time

from vcjob.local.programs.group import USAGE, joined, stop


def main(arguments: list[str]) -> None:
    if len(arguments) > 1 or not all(word.isdigit() and int(word) > 0 for word in arguments):
        stop("usage: python -m vcjob.local.programs.allreduce [LENGTH]", USAGE)
    length = int(arguments[0]) if arguments else 1 << 20
    with joined() as group:
        numbers = group.torch.full((length,), float(group.rank + 1), device=group.device)
        started = time.perf_counter()
        group.dist.all_reduce(numbers)
        low, high = float(numbers.min()), float(numbers.max())
        seconds = time.perf_counter() - started
        expected = group.world * (group.world + 1) / 2
        if low != expected or high != expected:
            group.wrong(f"the sums lie between {low:g} and {high:g}, and should all be {expected:g}")
        group.say(f"sum {expected:g} in each of {length} numbers, {seconds * 1000:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
