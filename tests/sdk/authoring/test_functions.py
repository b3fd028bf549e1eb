"""A Python function as the program of a Job: what is shipped with it, what is refused, and how it runs."""

from __future__ import annotations

import math
import os
import sys
import xml.etree.ElementTree
from collections import OrderedDict as Ordered
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import vcjob
from vcjob.sdk.authoring.functions import MAX_BYTES, function_program

SCALE = 3
LOCK = object()


@dataclass
class Point:
    x: int = SCALE


def scaled(number: float) -> float:
    return number * Point().x


def train(rate: float, text: str = "") -> None:
    parsed = xml.etree.ElementTree.fromstring("<a/>")
    print(f"rank {os.environ['RANK']}: {scaled(rate)} {parsed.tag} {[*Ordered([(text, 1)])]}", flush=True)


def fail() -> None:
    raise ValueError("the learning rate is too high")


def uses_a_lock() -> None:
    print(LOCK)


async def coroutine() -> None: ...


def namespace_of(text: str) -> dict[str, Any]:
    """What the shipped text defines, as a rank would; it calls nothing under another name than __main__."""
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "shipped.py", "exec"), found)
    return found


def test_functions_classes_and_values_of_the_file_are_shipped_and_modules_are_imported() -> None:
    text = function_program(train, {"rate": 0.5})
    assert text.splitlines()[:8] == [
        "from __future__ import annotations",
        "from collections import OrderedDict as Ordered",
        "from dataclasses import dataclass",
        "import os",
        "import xml",
        "import xml.etree",
        "import xml.etree.ElementTree",
        "SCALE = 3",
    ]
    assert text.endswith('\n\nif __name__ == "__main__":\n    train(rate=0.5)\n')
    assert namespace_of(text)["scaled"](2) == 6
    assert "def fail" not in text, "what the function does not use stays out"


def test_the_variables_of_the_surrounding_function_are_shipped() -> None:
    factor = 7

    def inner() -> float:
        return factor * math.pi

    assert namespace_of(function_program(inner))["inner"]() == 7 * math.pi


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        (uses_a_lock, None, r"'uses_a_lock' uses what cannot be shipped with it: LOCK \(object\)"),
        (lambda: None, None, "is not a function that was defined with `def`"),
        (print, None, "is not a function that was defined with `def`"),
        (coroutine, None, "'coroutine' is a coroutine or a generator"),
        (train, {"rate": LOCK}, "parameters must be plain values .*: rate"),
        (train, {"rate": 1.0, "text": "x" * MAX_BYTES}, "at most 65,536 can be shipped"),
    ],
    ids=["object", "lambda", "built-in", "coroutine", "parameter", "size"],
)
def test_what_cannot_be_shipped_is_refused(function: Any, parameters: Any, message: str) -> None:
    with pytest.raises(vcjob.UserError, match=message) as refused:
        vcjob.pytorch_job("a", function=function, parameters=parameters)
    assert refused.value.hint


def test_the_job_is_named_after_the_function_and_is_valid() -> None:
    job = vcjob.pytorch_job(uses_nothing, workers=0)
    assert job["metadata"]["name"] == "uses-nothing"
    assert vcjob.validate(job) == []
    assert vcjob.pytorch_job("other", function=uses_nothing)["metadata"]["name"] == "other"
    container = vcjob.pytorch_job(uses_nothing, nproc_per_node=2)["spec"]["tasks"][0]["template"]["spec"][
        "containers"
    ][0]
    assert container["command"][:4] == ["torchrun", "--no-python", "python", "-c"]
    with pytest.raises(vcjob.UserError, match="both script and function are given"):
        vcjob.pytorch_job(uses_nothing, script="a.py")
    with pytest.raises(vcjob.UserError, match="parameters are given without a function"):
        vcjob.pytorch_job("a", script="a.py", parameters={})


def uses_nothing() -> None:
    pass


def test_every_rank_calls_the_function_with_the_parameters() -> None:
    """Also a text in which Kubernetes would replace variables."""
    handle = vcjob.run(vcjob.pytorch_job(train, workers=1, parameters={"rate": 2.0, "text": "$(HOME) $$ é"}))
    assert handle.wait(120) == "Completed", [*handle.logs()]
    assert sorted(line.text for line in handle.logs()) == [
        f"rank {rank}: 6.0 a ['$(HOME) $$ é']" for rank in (0, 1)
    ]
    assert all(line.time is not None for line in handle.logs())


def test_a_failure_names_the_function_and_its_line() -> None:
    handle = vcjob.run(vcjob.pytorch_job(fail, workers=0))
    with pytest.raises(vcjob.JobFailed) as failed:
        handle.wait(120, check=True)
    assert failed.value.handle == handle == vcjob.find("fail")
    (finding,) = handle.why()
    assert "raised ValueError: the learning rate is too high" in finding.message
    assert finding.message.endswith("fail.py:5 in fail)")
    assert any('raise ValueError("the learning rate is too high")' in line.text for line in handle.logs())


def test_watch_prints_every_change_and_returns_the_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert vcjob.watch(vcjob.run(vcjob.pytorch_job(fail, workers=0)), 60) == "Failed"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("fail: Failed; 0 fail-master-0 ")
    assert "(exit code 1); Exception: rank 0 raised ValueError" in last
    slow = vcjob.run(vcjob.pytorch_job("slow", command=["sleep", "600"], workers=0))
    with pytest.raises(vcjob.WaitTimeout, match="after 0 s"):
        vcjob.watch(slow, 0)
    slow.delete()


def say_local_rank() -> None:
    line = f"process {os.environ['LOCAL_RANK']} is rank {os.environ['RANK']}\n"
    os.write(1, line.encode())  # one write: the processes share a pipe


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is installed for this Python, but its programs are not on the PATH."""
    program = tmp_path / "torchrun"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path}")


@pytest.mark.torch
@pytest.mark.usefixtures("torchrun")
def test_torchrun_calls_the_function_in_every_process() -> None:
    handle = vcjob.run(vcjob.pytorch_job(say_local_rank, workers=0, nproc_per_node=2))
    phase = handle.wait(240)
    assert phase == "Completed", (
        handle.status().state,
        handle.notes(),
        [line.text for line in handle.logs()],
    )
    said = sorted(line.text for line in handle.logs() if line.text.startswith("process"))
    assert said == ["process 0 is rank 0", "process 1 is rank 1"]
