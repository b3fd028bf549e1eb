"""A curve of what a process holds while it works, and whether it returns to its early level.

Both the measured processes and the programs that drive them use it. It reads `/proc` and the garbage collector and
knows nothing of jobs.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

#: How far the end may be above the early level: a share, and a number that counts for small values. Logs are
#: checked every second, and may grow by a GiB in between.
SHARE = 0.10
SLACK = {"resident MiB": 4.0, "descriptors": 4, "tasks": 4, "timers": 8, "log MiB on disk": 1024.0}
_BARS = "▁▂▃▄▅▆▇█"

Sample = dict[str, float]


def of_process(pid: int | str) -> Sample:
    """Memory and open files of a process, from outside."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {
        "resident MiB": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


def of_this_process() -> Sample:
    """The same from inside, with asyncio's unfinished tasks and timers and the number of Python objects."""
    gc.collect()
    tasks = timers = 0
    objects = gc.get_objects()
    for each in objects:
        kind = type(each)
        if kind is asyncio.Task:
            tasks += not each.done()
        elif kind.__name__ == "TimerHandle":  # asyncio's and uvloop's
            timers += 1
    counted = len(objects)
    del objects
    return {**of_process("self"), "tasks": tasks, "timers": timers, "objects": counted}


class Curve:
    """Samples by the amount of work that was done before each; the first one is the level to return to."""

    def __init__(self, title: str, unit: str) -> None:
        self.title = title
        self._unit = unit
        self._done: list[float] = []
        self._samples: list[Sample] = []

    def add(self, done: float, sample: Sample) -> None:
        self._done.append(done)
        self._samples.append(sample)
        values = ", ".join(f"{name} {value:g}" for name, value in sample.items())
        print(f"  {self.title}: {done:g} {self._unit}: {values}", flush=True)

    def excess(self) -> list[str]:
        """What is higher at the end than the early level allows."""
        first, last = self._samples[0], self._samples[-1]
        return [
            f"{self.title}: {name} rose from {first[name]:g} to {last[name]:g}"
            for name in first
            if name in SLACK and last[name] > first[name] * (1 + SHARE) + SLACK[name]
        ]

    def show(self) -> None:
        first, last = self._samples[0], self._samples[-1]
        print(f"{self.title}, {self._done[0]:g} to {self._done[-1]:g} {self._unit}")
        for name in first:
            values = [sample[name] for sample in self._samples]
            print(f"  {name:14} {_drawn(values)}  {first[name]:g} → {last[name]:g}, highest {max(values):g}")


def _drawn(values: list[float]) -> str:
    top = max(values) or 1
    return "".join(_BARS[round((len(_BARS) - 1) * value / top)] for value in values)
