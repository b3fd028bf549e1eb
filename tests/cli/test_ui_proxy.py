"""What `vcjob ui --behind-proxy` requires before it serves anybody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vcjob.cli import ui
from vcjob.errors import BackendError, UserError
from vcjob.sdk import cluster_backend
from vcjob.ui import server
from vcjob.ui.proxied import Proxy


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Proxy]:
    """Runs the verb up to the moment when it would listen, and returns what it would serve."""
    served: list[Proxy] = []

    async def serve(source: Proxy, **_: object) -> None:
        served.append(source)

    monkeypatch.setattr(server, "serve", serve)

    def run(kubeconfig: Path, *options: str) -> Proxy:
        common = ["--behind-proxy", "--on", "cluster", "--kubeconfig", str(kubeconfig)]
        CliRunner().invoke(ui.command, [*common, *options], catch_exceptions=False)
        return served.pop()

    return run


def kubeconfig(folder: Path, **user: object) -> Path:
    path = folder / "kubeconfig"
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t", **user}}],
    }
    path.write_text(json.dumps(content))
    return path


def test_outside_a_pod_the_proxy_must_share_a_secret(
    start: Callable[..., Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine reaches its loopback address; in a pod of its own only the proxy does."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UserError, match="--proxy-secret-file") as refused:
        start(kubeconfig(tmp_path))
    assert refused.value.hint
    (tmp_path / "secret").write_text("of-the-proxy\n")
    secret = ("--proxy-secret-file", str(tmp_path / "secret"))
    assert start(kubeconfig(tmp_path), *secret).secret == "of-the-proxy"
    monkeypatch.setattr(cluster_backend, "runs_in_pod", lambda: True)
    assert start(kubeconfig(tmp_path)).secret == ""


def test_a_kubeconfig_that_acts_as_somebody_is_refused_at_the_start(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of-the-proxy")
    with pytest.raises(BackendError, match="already acts as 'boss'"):
        start(kubeconfig(tmp_path, **{"as": "boss"}), "--proxy-secret-file", str(tmp_path / "secret"))
