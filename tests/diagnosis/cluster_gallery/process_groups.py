"""The gallery of a cluster, third part: real process groups (gloo, on CPUs) that fail or wait without end."""

from __future__ import annotations

from tests.cluster.host_torch import VOLUMES, torch_container
from tests.diagnosis.gallery.hang_programs import ALL_REDUCE, INIT, LOOPS, SIZES

from .failures import Failure, Object, job, task

#: Seconds after which a hang is reported.
PATIENCE = "5"
#: All ranks of the gallery import torch at the same time, on the few processors of this machine.
STARTED = 240.0

_GATHERS = f"{INIT}if rank == 1:\n    dist.all_gather([torch.ones(4) for _ in range(2)], torch.ones(4))\n{ALL_REDUCE}"
_WORLD_SIZE = """
import datetime, os, torch.distributed as dist
dist.init_process_group('gloo', rank=int(os.environ['RANK']), world_size=3, timeout=datetime.timedelta(seconds=20))
"""


def torch_ranks(program: str, *arguments: str, workers: int = 1) -> Object:
    rank = torch_container(program, VCJOB_HANG_AFTER=PATIENCE)
    master, worker = task("master", rank), task("worker", rank, replicas=workers)
    for each in (master, worker):
        each["template"]["spec"]["volumes"] = VOLUMES
    return job(master, worker, plugins={"pytorch": list(arguments)})


GROUPS = [
    Failure("wrong-world-size", torch_ranks(_WORLD_SIZE), "WorldSizeMismatch", (), "expect"),
]
_RECORDER = "--flight-recorder=true"
#: They run without end; no one writes an event unless somebody follows.
HANGS = [
    Failure(
        "mismatched-collective",
        torch_ranks(_GATHERS, _RECORDER),
        "CollectiveMismatch",
        message="rank 0 called all_reduce and rank 1 called all_gather (#4)",
    ),
    Failure(
        "mismatched-shapes",
        torch_ranks(SIZES, _RECORDER, workers=2),
        "CollectiveMismatch",
        ("rank 1",),
        "rank 1 called all_reduce with 5 Float where the others used 4 Float (#4)",
    ),
    Failure(
        "endless-loop",
        torch_ranks(LOOPS, _RECORDER),
        "RankBehind",
        ("rank 1",),
        "rank 1 never reached all_reduce #4",
    ),
]  # fmt: skip
