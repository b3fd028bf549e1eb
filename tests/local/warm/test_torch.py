"""With torch itself: what was imported before the fork works after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.warm.conftest import PYTHON, Starter, environment
from tests.ports import port_of, reserve_port
from vcjob.local.warm.client import WarmChild, WarmLauncher

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WarmLauncher, list[str]]]:
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path_factory.mktemp("warm")))
    yield launcher, said
    launcher.close()
    assert said == []


@pytest.fixture
def torch_ranks(launcher: tuple[WarmLauncher, list[str]], tmp_path: Path) -> Starter:
    return Starter(launcher[0], tmp_path)


def test_torch_is_imported_beforehand_and_runs_in_one_thread(torch_ranks: Starter) -> None:
    (torch_ranks.folder / "p.py").write_text(
        "import os, sys\nprint('torch' in sys.modules, 'numpy' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    running = torch_ranks.start(PYTHON, "p.py")
    assert isinstance(running.child, WarmChild)
    assert running.wait().out == "True True 1\n"


def test_every_rank_draws_its_own_numbers(torch_ranks: Starter) -> None:
    (torch_ranks.folder / "p.py").write_text(
        "import random, numpy, torch\nprint(torch.rand(2).tolist())\nprint(numpy.random.rand(2))\nprint(random.random())"
    )
    outputs = [torch_ranks.run(PYTHON, "p.py").out.splitlines() for _ in range(3)]
    for lines in zip(*outputs):
        assert len(set(lines)) == 3
    (torch_ranks.folder / "seeded.py").write_text(
        "import torch\ntorch.manual_seed(1)\nprint(torch.rand(2).tolist())"
    )
    assert len({torch_ranks.run(PYTHON, "seeded.py").out for _ in range(2)}) == 1


def test_threads_of_torch_and_blas_work_after_the_fork(torch_ranks: Starter) -> None:
    """In a child of a process that had run such an operation itself, this hangs."""
    (torch_ranks.folder / "p.py").write_text(
        "import numpy, os, torch\n"
        "a, b = torch.ones(600, 600), numpy.ones((600, 600))\n"
        "print((a @ a).sum().item() == 600 ** 3, (b @ b).sum() == 600 ** 3, torch.get_num_threads())\n"
        "x = torch.ones(300, 300, requires_grad=True); (x @ x).sum().backward(); print(x.grad[0, 0].item())"
    )
    env = environment(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    for _ in range(2):
        outcome = torch_ranks.run(PYTHON, "p.py", env=env)
        assert outcome.out == "True True 2\n600.0\n", outcome.err


def test_the_share_of_threads_is_as_in_a_fresh_start(
    torch_ranks: Starter, plain: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (torch_ranks.folder / "p.py").write_text(
        "import ctypes, glob, numpy, os, threading, torch\n"
        "print(os.environ['OMP_NUM_THREADS'], b'OMP_NUM_THREADS=1' in open('/proc/self/environ', 'rb').read())\n"
        "print(torch.get_num_threads())\n"
        "other = threading.Thread(target=lambda: print(torch.get_num_threads())); other.start(); other.join()\n"
        "for path in glob.glob(os.path.dirname(numpy.__file__) + '.libs/*openblas64*'):\n"
        "    print(ctypes.CDLL(path).scipy_openblas_get_num_threads64_())\n"
    )
    forked = torch_ranks.start(PYTHON, "p.py", threads=1)
    assert isinstance(forked.child, WarmChild)
    outcome = forked.wait()
    assert outcome.out.startswith("1 True\n1\n1\n"), outcome.err
    assert outcome.out == plain.run(PYTHON, "p.py", threads=1).out


def test_workers_of_a_data_loader_work(torch_ranks: Starter) -> None:
    (torch_ranks.folder / "p.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn'):\n"
        "        loader = DataLoader(range(8), batch_size=4, num_workers=1, multiprocessing_context=how)\n"
        "        print(how, [batch.tolist() for batch in loader])\n"
    )
    outcome = torch_ranks.run(PYTHON, "p.py")
    assert outcome.out == "".join(f"{how} [[0, 1, 2, 3], [4, 5, 6, 7]]\n" for how in ("fork", "spawn")), (
        outcome.err
    )


def test_ranks_meet_and_add_up(torch_ranks: Starter) -> None:
    common = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    with reserve_port() as held:
        common["MASTER_PORT"] = str(port_of(held))
        runnings = [
            torch_ranks.start(
                PYTHON,
                "-m",
                "vcjob.local.programs.allreduce",
                "100",
                env=environment(RANK=str(rank), **common),
            )
            for rank in range(3)
        ]
        outcomes = [running.wait() for running in runnings]
    assert [outcome.code for outcome in outcomes] == [0, 0, 0], outcomes
    assert all("sum 6 in each of 100 numbers" in outcome.out for outcome in outcomes)
