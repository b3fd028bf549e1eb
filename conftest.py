"""Fixtures for every test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or changes the jobs, the kubeconfig or the colours of the person who runs it."""
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path_factory.mktemp("home") / "vcjob"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
