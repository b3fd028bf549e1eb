"""Failures of real process groups (gloo, on CPUs), each with the cause that must be ranked first."""

from __future__ import annotations

import pytest

from tests.local.conftest import PATIENCE, Start, job, python, ranks, task

pytestmark = [pytest.mark.slow, pytest.mark.torch]

_INIT = """
import datetime, os, sys, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=30))
dist.all_reduce(torch.ones(1))
"""
_RAISES = (
    _INIT
    + "import atexit\nif rank == 1:\n    atexit.register(time.sleep, 3)\n    raise ValueError('loss is NaN')\ndist.all_reduce(torch.ones(1))"
)
_SHAPES = _INIT + "for _ in range(9):\n    dist.all_reduce(torch.ones(4000 if rank == 1 else 2))"
#: gloo lets rank 1 finish and exit with 0; rank 0 only sees that its connection is closed.
_SLIGHTLY_SMALLER = _INIT + "dist.all_reduce(torch.ones(3 if rank == 1 else 4))"
_LEAVES = (
    _INIT
    + "if rank == 1:\n    os._exit(0)\nfor _ in range(50):\n    dist.all_reduce(torch.ones(1))\n    time.sleep(0.1)"
)
_WORLD_SIZE = """
import datetime, os, torch.distributed as dist
dist.init_process_group('gloo', rank=int(os.environ['RANK']), world_size=3, timeout=datetime.timedelta(seconds=20))
"""
#: The worker does not wait for the master, and sets its own timeout.
_MEETS = """
import datetime, os, socket, time, torch.distributed as dist
rank, port = int(os.environ['RANK']), int(os.environ['MASTER_PORT'])
{}
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=60 if rank == 0 else 3))
"""
_NEVER_LISTENS = _MEETS.format("if rank == 0:\n    time.sleep(600)")
_OTHER_PORT = _MEETS.format(
    "if rank == 0:\n    with socket.create_server(('', 0)) as free:\n"
    "        os.environ['MASTER_PORT'] = str(free.getsockname()[1])"
)
_PORT_IN_USE = _MEETS.format("if rank == 0:\n    held = socket.create_server(('', port))")
#: A worker of the DataLoader takes more memory than the limit.
_LOADER_EATS = """
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return [bytearray(32 << 20) for _ in range(64)] and torch.ones(1)

for batch in torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context='fork'):
    pass
"""
_NO_NAME = """
import datetime, os, torch.distributed as dist
if os.environ['RANK'] == '1':
    os.environ['MASTER_ADDR'] = 'master.invalid'
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=5 if os.environ['RANK'] == '1' else 300))
"""
_CUDA = "import torch\ntorch.ones(1, device='cuda')"
_TORCHRUN = [
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node=2",
    "--no-python",
    "sh",
    "-c",
    "if [ $LOCAL_RANK = 1 ]; then python3 -c \"{}['label']\"; else sleep 30; fi",
]


_CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "raises-and-exits-slowly": (_RAISES, "Exception", ("rank 1",)),
    "mismatched-shapes": (_SHAPES, "CollectiveMismatch", ()),
    "slightly-smaller": (_SLIGHTLY_SMALLER, "CollectiveMismatch", ()),
    "exits-early": (_LEAVES, "RankExitedEarly", ("rank 1",)),
    "wrong-world-size": (_WORLD_SIZE, "WorldSizeMismatch", ()),
    "master-never-listens": (_NEVER_LISTENS, "MasterNotListening", ("rank 1",)),
    "master-on-another-port": (_OTHER_PORT, "MasterNotListening", ("rank 1",)),
    "port-in-use": (_PORT_IN_USE, "PortInUse", ("rank 0",)),
    "name-of-the-master": (_NO_NAME, "MasterNameNotResolved", ("rank 1",)),
}
#: The cases that `make test` runs; `make test-cluster` runs all.
_FEW = ("raises-and-exits-slowly", "mismatched-shapes")


@pytest.mark.parametrize(
    ("program", "cause", "first"),
    [
        pytest.param(*case, id=name, marks=() if name in _FEW else pytest.mark.long)
        for name, case in _CASES.items()
    ],
)
def test_the_cause_is_ranked_first(program: str, cause: str, first: tuple[str, ...], start: Start) -> None:
    handle = start(job(*ranks(python(program), workers=1)))
    assert handle.wait(PATIENCE * 2) == "Failed"
    finding = handle.why()[0]
    assert finding.cause == cause, finding
    if first:
        assert finding.ranks.first == first


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_loader_worker_that_the_memory_limit_ends_is_the_cause(start: Start) -> None:
    limited = python(_LOADER_EATS, resources={"limits": {"memory": "1Gi"}})
    handle = start(job(task("master", limited)))
    phase = handle.wait(PATIENCE * 2)
    for note in handle.notes():
        if "limits of memory" in note:
            pytest.skip(f"this machine cannot produce it: {note}")
    assert phase == "Failed"
    finding = handle.why()[0]
    assert (finding.cause, finding.ranks.first) == ("OutOfMemory", ("rank 0",)), finding
    assert any("DataLoader worker" in each.text for each in finding.evidence)


@pytest.mark.long
def test_a_program_that_needs_a_gpu_says_so_where_there_is_none(start: Start) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    handle = start(job(task("master", python(_CUDA))))
    assert handle.wait(PATIENCE * 2) == "Failed"
    assert handle.why()[0].cause == "CudaUnavailable", handle.why()


@pytest.mark.long
def test_the_exception_below_torchrun_is_the_cause(start: Start) -> None:
    import sys

    from tests.local.conftest import container

    handle = start(job(task("master", container([sys.executable, *_TORCHRUN]))))
    assert handle.wait(PATIENCE * 2) == "Failed"
    finding = handle.why()[0]
    assert finding.cause == "Exception" and "KeyError: 'label'" in finding.message, finding
    assert "(local rank 1, global rank 1)" in finding.message, finding
