"""Joining the process group of a job, and leaving it so that no output of any rank is lost.

Used by the programs of this package. Errors end the program with a sentence on stderr and one of the exit codes below.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn

#: Exit codes of these programs: wrong results, wrong use, no PyTorch here.
WRONG, USAGE, NO_TORCH = 1, 2, 3

_TIMEOUT = timedelta(minutes=5)


class Group(NamedTuple):
    """The process group of the job, as one rank sees it.

    `joined` makes it for the built-in programs, which print through it so that every line names its rank.
    """

    rank: int
    world: int
    backend: str
    device: Any
    torch: Any
    dist: Any

    def say(self, text: str) -> None:
        """One whole line, written at once, so that lines of several ranks never mix."""
        os.write(1, f"rank {self.rank} of {self.world} ({self.backend}): {text}\n".encode())

    def wrong(self, text: str) -> NoReturn:
        stop(f"rank {self.rank} of {self.world}: {text}", WRONG)


@contextmanager
def joined() -> Iterator[Group]:
    """The group that the environment describes: nccl where this rank has a GPU, else gloo.

    The last barrier holds every rank until all have printed their results: a policy may complete the job, and stop
    the other ranks, as soon as the first one ends. From there a rank only has to exit, so it ignores SIGTERM: it
    ends with exit code 0 instead of being reported as terminated by a signal.
    """
    missing = [
        name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ
    ]
    if missing:
        stop(f"{', '.join(missing)} not set: run this in a Job with the pytorch plugin", USAGE)
    torch, dist = _load_torch()
    gpu = torch.cuda.is_available()
    backend = "nccl" if gpu else "gloo"
    if gpu:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    # With a given device nccl need not guess one at the last barrier and prints no warning.
    own = {"device_id": device} if gpu else {}
    dist.init_process_group(backend, timeout=_TIMEOUT, **own)
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), backend, device, torch, dist)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _load_torch() -> tuple[Any, Any]:
    try:
        import torch
        import torch.distributed as dist
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        stop(f"PyTorch is not installed for {sys.executable}: pip install torch", NO_TORCH)
    if not dist.is_available():
        stop(f"the PyTorch of {sys.executable} was built without torch.distributed", NO_TORCH)
    return torch, dist


def stop(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)
