"""The agent in a rank's process: it starts with torch.distributed, and everything else is as without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.local.conftest import Start, job, python, ranks, task, texts
from vcjob import rank_agent
from vcjob.local.logs.rank_reports import read_reports
from vcjob.rank_agent import agent as agent_module
from vcjob.rank_agent.agent import Agent

AGENT = os.path.dirname(rank_agent.__file__)
#: Stands still in `stuck` until the agent has reported that: a first report may show an import.
STUCK = (
    "import torch.distributed.distributed_c10d, os, time, glob\n"
    "def reported(): return any('stuck' in open(name).read() for name in glob.glob('rank-state.*.json'))\n"
    "def stuck():\n    while not reported(): time.sleep(0.01)\n    os._exit(0)\nstuck()"
)
#: A torch.distributed with one group of two ranks, whose recorder has one collective that waits, and as in every program
#: with groups of other ranks, an entry (-100) for these.
_NATIVE = """
import json
def _dump_fr_trace_json(collectives=True):
    entry = dict(collective_seq_id=7, profiling_name='gloo:all_reduce', process_group=['0', 'default_pg'],
                 input_sizes=[[2, 3]], input_dtypes=['Float'], time_created_ns=5_000_000_000, retired=False)
    return json.dumps({'entries': [entry] if collectives else []}).encode()
"""
_C10D = """
import types
_world = types.SimpleNamespace(
    pg_map={1: ('gloo', None)}, pg_names={1: '0'}, pg_group_ranks={1: {0: 0, 1: 1}, -100: {0: 0, 2: 1}}
)
is_initialized = lambda: True
get_rank = lambda: 1
get_global_rank = lambda group, rank: 10 * rank
_get_default_group = lambda: 'default'
class Work:
    pass
def recv(arrived, src=None, group=None, tag=0, group_src=None):
    work = Work()
    arrived.acquire()
"""


def run(program: str, folder: Path, path: str = AGENT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, "VCJOB_RANK_STATE": str(folder), "VCJOB_HANG_AFTER": "0.5", **env},
        cwd=folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip


@pytest.fixture
def torch_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    for name, text in {
        "torch/__init__.py": "",
        "torch/_C/__init__.py": "",
        "torch/_C/_distributed_c10d.py": _NATIVE,
        "torch/distributed/__init__.py": "import torch._C._distributed_c10d",
        "torch/distributed/distributed_c10d.py": _C10D,
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_the_collectives_and_the_stack_are_reported_while_the_rank_stands_still(
    tmp_path: Path, torch_folder: Path
) -> None:
    run(STUCK, tmp_path, f"{AGENT}:{torch_folder}")
    (report,) = read_reports(str(tmp_path))
    (call,) = report.state.collectives
    assert (report.state.rank, report.state.groups) == (1, {"0": (0, 1)})
    assert (call.sequence, call.name, call.sizes, call.issued_at, call.done) == (
        7,
        "all_reduce",
        "6 Float",
        5.0,
        False,
    )
    assert "stuck" in [frame.function for frame in report.state.stack]


def test_a_torch_without_the_private_names_gets_its_stack_reported(
    tmp_path: Path, torch_folder: Path
) -> None:
    c10d = torch_folder / "torch" / "distributed" / "distributed_c10d.py"
    c10d.write_text("is_initialized = lambda: True\nget_rank = lambda: 1\n")
    run(STUCK, tmp_path, f"{AGENT}:{torch_folder}")
    (report,) = read_reports(str(tmp_path))
    assert (report.state.rank, report.state.groups, report.state.collectives) == (1, {}, ())
    assert "stuck" in [frame.function for frame in report.state.stack]


def test_each_call_of_recv_is_reported_with_its_time_and_the_rank_for_which_it_waits(
    tmp_path: Path, torch_folder: Path
) -> None:
    """The recorder does not show it for gloo, and the functions of the next call are the same."""
    program = """
import torch.distributed.distributed_c10d as dist, glob, json, os, threading, time
calls, arrived = {}, threading.Lock()
arrived.acquire()
def watch():
    while True:
        time.sleep(0.01)
        for name in glob.glob('rank-state.*.json'):
            report = json.load(open(name))
            if report['call_since'] and report['call_since'] not in calls:
                calls[report['call_since']] = report['peer'], report['stack'][0][0]
                arrived.release()
threading.Thread(target=watch, daemon=True).start()
for arguments in (dict(src=3), dict(src=3), dict(group_src=2), dict()):
    dist.recv(arrived, **arguments)
print(sorted(calls) == list(calls), list(calls.values()), flush=True)
os._exit(0)
"""
    calls = [(3, "recv"), (3, "recv"), (20, "recv"), (None, "recv")]
    assert run(program, tmp_path, f"{AGENT}:{torch_folder}").stdout == f"True {calls}\n"


def test_the_end_of_the_imports_and_the_first_collective_are_reported(
    tmp_path: Path, torch_folder: Path
) -> None:
    (torch_folder / "slow.py").write_text(
        "import torch.distributed.distributed_c10d, time\ntime.sleep(0.5)\nended = time.time()\n"
    )
    program = (
        "import os, slow, time, glob\nwhile not glob.glob('rank-state.*.json'): time.sleep(0.01)\n"
        "time.sleep(0.3)\nprint(slow.ended, flush=True)\nos._exit(0)"
    )
    ended = float(run(program, tmp_path, f"{AGENT}:{torch_folder}", VCJOB_HANG_AFTER="20").stdout)
    (report,) = read_reports(str(tmp_path))
    assert report.first_call_at == 5.0
    assert report.imported_at is None or report.imported_at >= ended


def test_a_program_without_a_collective_reports_the_end_of_its_imports(
    tmp_path: Path, torch_folder: Path
) -> None:
    (torch_folder / "slow.py").write_text(
        "import torch.distributed.distributed_c10d, time\ntime.sleep(0.5)\nended = time.time()\n"
    )
    native = torch_folder / "torch" / "_C" / "_distributed_c10d.py"
    native.write_text("def _dump_fr_trace_json(collectives=True):\n    return b'{}'\n")
    program = (
        "import os, slow, time, glob, json\n"
        "while not [n for n in glob.glob('rank-state.*.json') if json.load(open(n))['imported_at']]:"
        " time.sleep(0.01)\n"
        "print(slow.ended, flush=True)\nos._exit(0)"
    )
    ended = float(run(program, tmp_path, f"{AGENT}:{torch_folder}").stdout)
    (report,) = read_reports(str(tmp_path))
    assert report.first_call_at is None
    assert report.imported_at is not None and ended <= report.imported_at < ended + 50


def test_the_last_state_is_left_for_the_diagnosis_of_a_failure(tmp_path: Path, torch_folder: Path) -> None:
    run("import torch.distributed.distributed_c10d", tmp_path, f"{AGENT}:{torch_folder}")
    (report,) = read_reports(str(tmp_path))
    assert report.state.ended and report.state.collectives


@pytest.mark.slow
def test_the_agent_reports_since_when_its_process_does_nothing(tmp_path: Path, torch_folder: Path) -> None:
    """On a cluster nobody else watches the process. What the agent itself reads must not count as work."""
    program = (
        "import torch.distributed.distributed_c10d, glob, json, os, time\n"
        "def report():\n"
        "    return [json.load(open(name)) for name in glob.glob('rank-state.*.json')]\n"
        "end = time.time() + 50\n"
        "while time.time() < end and not any(each['idle_since'] for each in report()): time.sleep(0.3)\n"
        "os._exit(0)"
    )
    run(program, tmp_path, f"{AGENT}:{torch_folder}", VCJOB_HANG_AFTER="10")
    (report,) = read_reports(str(tmp_path))
    assert report.idle_since is not None and report.quiet_since is not None
    assert report.idle_since <= report.at


def test_a_module_of_the_program_that_is_named_agent_stays(tmp_path: Path, torch_folder: Path) -> None:
    for name in ("agent", "activity"):
        (torch_folder / f"{name}.py").write_text("OWN = True")
    program = (
        "import agent, activity, sys\nimport torch.distributed.distributed_c10d\n"
        "print(sys.modules['agent'].OWN, sys.modules['activity'].OWN)"
    )
    assert run(program, tmp_path, f"{AGENT}:{torch_folder}").stdout == "True True\n"
    assert len(read_reports(str(tmp_path))) == 1


def test_the_end_of_the_process_waits_for_a_report_and_none_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is in native code while the interpreter ends aborts the process."""
    inside, may_return, calls = threading.Event(), threading.Event(), []

    def dump(_whole: bool) -> bytes:
        calls.append(_whole)
        inside.set()
        may_return.wait(60)
        return b"{}"

    agent = Agent(str(tmp_path), None, every=0.001)
    monkeypatch.setattr(agent, "recorders", lambda: [dump])
    reporting, ending = threading.Thread(target=agent.run), threading.Thread(target=agent.finish)
    monkeypatch.setattr(agent_module, "_LAST_REPORT", 60.0)
    reporting.start()
    assert inside.wait(60)
    ending.start()
    assert not (tmp_path / f"rank-state.{os.getpid()}.json").exists() and len(calls) == 1
    may_return.set()
    ending.join(60)
    assert json.loads((tmp_path / f"rank-state.{os.getpid()}.json").read_text())["ended"] is True
    made = len(calls)
    agent.busy.release()  # as if the end had not waited for the thread
    reporting.join(60)
    assert not reporting.is_alive() and len(calls) <= made + 1


def test_a_clock_that_is_set_back_does_not_delay_the_next_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(str(tmp_path), None, every=2.0)
    agent.imported_at = 0.0
    clock, slept = {"wall": 1000.5, "monotonic": 50.0}, []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock["monotonic"] += seconds
        clock["wall"] += seconds - 3600

    times = SimpleNamespace(time=lambda: clock["wall"], monotonic=lambda: clock["monotonic"], sleep=sleep)
    monkeypatch.setattr(agent_module, "time", times)
    agent.wait()
    assert slept == [1.5]


def test_an_agent_that_cannot_go_on_leaves_no_report_of_an_earlier_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would take it for what the rank does now, and blame it for being behind."""
    agent = Agent(str(tmp_path), None, every=0.001)
    agent.tick()
    agent.write(agent.stack(), moving=False)
    assert len(list(tmp_path.iterdir())) == 1

    def fails() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(agent, "tick", fails)
    agent.run()
    assert list(tmp_path.iterdir()) == []


def test_the_agents_thread_is_not_one_that_a_program_waits_for(tmp_path: Path, torch_folder: Path) -> None:
    program = "import torch.distributed.distributed_c10d, threading\nprint(len(threading.enumerate()))"
    assert run(program, tmp_path, f"{AGENT}:{torch_folder}").stdout == "1\n"


def test_a_program_without_torch_is_as_without_the_agent(tmp_path: Path) -> None:
    program = "import sys, json\nprint(json.dumps([sys.path, sorted(sys.modules), sys.argv]))"
    with_agent, without = (json.loads(run(program, tmp_path, path).stdout) for path in (AGENT, ""))
    assert [name for name in with_agent[1] if name not in without[1]] in ([], ["sitecustomize"])
    assert (with_agent[0], with_agent[2]) == (without[0], without[2])
    assert list(tmp_path.iterdir()) == []


def test_another_sitecustomize_is_loaded_too(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import builtins\nbuiltins.CUSTOMIZED = __file__")
    assert str(folder) in run("print(CUSTOMIZED)", tmp_path, f"{AGENT}:{folder}").stdout


def test_a_damaged_report_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank-state.1.json").write_text("{")
    (tmp_path / "rank-state.2.json").write_text('{"pid": 2, "rank": null, "at": 1}')
    (tmp_path / "rank-state.3.json").write_bytes(b"\xff\xfe")
    assert read_reports(str(tmp_path)) == []
    assert read_reports(str(tmp_path / "missing")) == []


@pytest.mark.parametrize("arguments", [[], ["--flight-recorder=true"]], ids=["", "with-the-argument"])
@pytest.mark.parametrize("setting", ["", "off"])
def test_the_users_own_settings_stay_and_the_agent_can_be_left_out(
    setting: str, arguments: list[str], finish: Start
) -> None:
    """The argument of the plugin is for clusters and changes nothing here."""
    program = "import os\nprint(os.environ.get('PYTHONPATH', ''), 'VCJOB_RANK_STATE' in os.environ)"
    rank = python(program, env=[{"name": "PYTHONPATH", "value": "/mine"}])
    document = job(*ranks(rank, workers=1), plugins={"pytorch": arguments})
    handle = finish(document, env={**os.environ, "VCJOB_HANG_DETECTION": setting})
    expected = "/mine False" if setting else f"{AGENT}:/mine True"
    assert set(texts(handle)) == {expected}


def test_a_pod_without_a_rank_has_no_agent(finish: Start) -> None:
    handle = finish(job(task("a", "echo ${VCJOB_RANK_STATE:-none}")))
    assert texts(handle) == ["none"]
