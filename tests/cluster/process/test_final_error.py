"""How the controller's process reports the error that ends it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.process import main
from vcjob.errors import BackendError
from vcjob.kube.config.config import ClusterConfig


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise BackendError("Volcano's own job controller is running", hint="switch it off")

    monkeypatch.setattr(main, "serve", refuse)
    monkeypatch.setattr(main.gc, "freeze", lambda: None)
    monkeypatch.setattr(main.gc, "set_threshold", lambda *_: None)
    for name in ("logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)


def test_the_final_error_is_json_where_the_log_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run(ClusterConfig(source="a test", server="https://nowhere.invalid"), ControllerOptions())
    assert ended.value.code == BackendError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["message"]) == ("critical", "Volcano's own job controller is running")
    assert found["hint"] == "switch it off"


def test_without_json_the_command_line_shows_it() -> None:
    with pytest.raises(BackendError):
        main.run(
            ClusterConfig(source="a test", server="https://nowhere.invalid"),
            ControllerOptions(log_json=False),
        )
