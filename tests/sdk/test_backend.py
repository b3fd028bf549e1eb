"""Both backends behind one protocol: which one is opened, and what their handles have in common."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from subprocess import run

import pytest

from vcjob import Handle, UserError, pytorch_job
from vcjob.sdk.backend import Backend, RunOptions, open_backend
from vcjob.sdk.cluster_backend import ClusterBackend
from vcjob.sdk.loading import Loaded
from vcjob.sdk.local_backend import LocalBackend

KUBECONFIG = """
current-context: {current}
contexts:
- {{name: one, context: {{cluster: one, namespace: team}}}}
- {{name: two, context: {{cluster: two}}}}
clusters:
- {{name: one, cluster: {{server: "http://127.0.0.1:1"}}}}
- {{name: two, cluster: {{server: "http://127.0.0.1:2"}}}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG.format(current="one"))
    return str(file)


def test_the_default_is_this_machine() -> None:
    for backend in (open_backend(), open_backend("local")):
        assert isinstance(backend, LocalBackend)


def test_a_cluster_is_opened_by_name_by_context_or_by_kubeconfig(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    backends: list[Backend] = [
        open_backend("cluster"),
        open_backend(context="two"),
        open_backend(kubeconfig=kubeconfig),
    ]
    assert all(isinstance(backend, ClusterBackend) for backend in backends)


def test_a_cluster_s_options_together_with_this_machine_are_an_error(kubeconfig: str) -> None:
    with pytest.raises(UserError, match="name a cluster"):
        open_backend("local", kubeconfig=kubeconfig)
    with pytest.raises(UserError, match="unknown backend 'moon'"):
        open_backend("moon")  # type: ignore[arg-type]


def test_options_of_this_machine_are_rejected_by_a_cluster_under_the_caller_s_names(kubeconfig: str) -> None:
    cluster = open_backend(kubeconfig=kubeconfig)
    cluster.check_local_options({"--image": (), "--warm": False})
    with pytest.raises(UserError, match="--warm is for jobs on this machine"):
        cluster.check_local_options({"--image": (), "--warm": True})
    open_backend().check_local_options({"--image": ("a=b",), "--warm": True})


def test_logs_and_logs_async_take_the_same_arguments() -> None:
    assert inspect.signature(Handle.logs).parameters == inspect.signature(Handle.logs_async).parameters


def test_both_backends_start_with_the_same_arguments() -> None:
    signatures = {
        str(inspect.signature(backend.start)) for backend in (Backend, LocalBackend, ClusterBackend)
    }
    assert len(signatures) == 1
    assert RunOptions() == RunOptions(None, False, (), None, None, False, None)


def test_opening_this_machine_loads_neither_a_cluster_s_code_nor_the_reader_of_jobs() -> None:
    code = "import sys; from vcjob.sdk.backend import open_backend; open_backend(); print(*sys.modules)"
    loaded = run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"asyncio", "aiohttp", "yaml", "msgspec", "vcjob.local.jobs.store", "vcjob.kube"}.isdisjoint(
        loaded
    )


def test_run_starts_the_supervisor_before_it_loads_what_reads_the_job() -> None:
    """Both take about as long, so they run at the same time."""
    code = """
import sys
from vcjob.local.supervisor import prestart
class Recorder:
    def __init__(self, **options):
        print(*sys.modules)
        raise SystemExit
prestart.PrestartedSupervisor = Recorder
from vcjob.cli.main import main
main(["run", "job.yaml"])
"""
    loaded = run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "vcjob.cli.run" in loaded
    assert {
        "yaml",
        "msgspec",
        "jsonschema_rs",
        "asyncio",
        "vcjob.sdk.loading",
        "vcjob.sdk.handle",
    }.isdisjoint(loaded)


def test_a_bad_hang_setting_is_refused_before_a_request_is_made(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HANG_AFTER", "soon")
    loaded = Loaded(pytorch_job("hello", script="train.py"))
    with pytest.raises(UserError, match="VCJOB_HANG_AFTER is 'soon'"):
        open_backend("cluster", kubeconfig=kubeconfig).start(loaded, RunOptions())
