"""How the controller's process reports the error that ends it."""

from __future__ import annotations

import gc
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from vcjob.cluster.process import main
from vcjob.errors import BackendError


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": "https://nowhere.invalid"}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    users = [{"name": "u", "user": {"token": "t"}}]
    parts = {"clusters": clusters, "contexts": contexts, "users": users, "current-context": "c"}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts}))
    return str(file)


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise BackendError("Volcano's own job controller is running", hint="switch it off")

    monkeypatch.setattr(main, "serve", refuse)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    for name in ("logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)


def test_the_final_error_is_json_where_the_log_is(
    kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(kubeconfig, None, {}) == BackendError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["message"]) == ("error", "Volcano's own job controller is running")
    assert found["hint"] == "switch it off"


def test_without_json_it_is_one_line_with_the_hint(
    kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(kubeconfig, None, {"log_json": False}) == BackendError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Volcano's own job controller is running (hint: switch it off)")


def test_an_unusable_kubeconfig_is_logged_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(str(tmp_path / "none"), None, {}) == BackendError.exit_code
    assert json.loads(capsys.readouterr().err)["level"] == "error"


def test_the_kubelet_gets_the_reason_for_the_end(
    kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setattr(main, "_TERMINATION_LOG", str(file))
    main.run(kubeconfig, None, {})
    assert file.read_text() == "Volcano's own job controller is running\nhint: switch it off\n"
