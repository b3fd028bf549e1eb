"""A testbed that is not usable: one sentence, a hint, exit code 3."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vcjob.cluster.client.error_messages import translate
from vcjob.errors import BackendError, UserError
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import Status, api_error

CONFIG = ClusterConfig(server="https://c:6443", source=Fixed(), context="prod")


JOBS_PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"


def said(code: int, message: str, path: str = JOBS_PATH, **details: Any) -> BackendError | UserError:
    error = api_error(code, Status(message=message, details=details), verb="get", path=path)
    return translate(error, CONFIG, "create Jobs", "team")


def kubeconfig(folder: Path, server: str, **user: str) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_no_kubeconfig(vcjob: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    code, _, err = vcjob("list", "--on", "cluster")
    assert code == 3
    assert "there is no kubeconfig" in err
    assert "hint: set KUBECONFIG, or name a file with --kubeconfig" in err


def test_an_unknown_context_is_reported_with_the_known_ones(vcjob: Any, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "https://c:6443")
    code, _, err = vcjob("status", "j", "--kubeconfig", file, "--context", "nowhere")
    assert code == 3
    assert "has no context 'nowhere'" in err
    assert "it has: here" in err


def test_a_context_means_a_cluster_and_never_this_machine(vcjob: Any) -> None:
    code, _, err = vcjob("list", "--on", "local", "--context", "prod")
    assert code == 2
    assert "name a cluster, not this machine" in err


def test_options_of_this_machine_are_refused_on_a_cluster(vcjob: Any, tmp_path: Path) -> None:
    code, _, err = vcjob("run", str(tmp_path / "job.yaml"), "--on", "cluster", "--warm")
    assert code == 2
    assert "--warm is for jobs on this machine" in err


def test_nobody_acts_on_a_hang_of_a_cluster_job_that_is_not_followed(vcjob: Any, tmp_path: Path) -> None:
    words = ("--on", "cluster", "--on-hang", "restart", "--detach")
    code, _, err = vcjob("run", str(tmp_path / "job.yaml"), *words)
    assert code == 2
    assert "--on-hang acts only while this command follows the Job" in err and "leave one of them out" in err


def test_an_invalid_job_is_reported_before_any_cluster_is_contacted(vcjob: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: bad}\nspec: {taks: []}\n"
    )
    code, _, err = vcjob("run", str(file), "--on", "cluster", "--context", "nowhere")
    assert code == 2
    assert "bad.yaml:4" in err


def test_missing_definitions_are_to_be_installed() -> None:
    error = said(404, "404 page not found")
    assert error.exit_code == 3
    assert "does not know Jobs of batch.volcano.sh/v1alpha1" in error.message
    assert error.hint == "install them: `vcjob install`"


def test_another_missing_path_does_not_ask_for_an_installation() -> None:
    error = said(404, "404 page not found", "/api/v1/namespaces/team/pods/train-0/exec")
    assert error.message == "the cluster could not create Jobs: 404 page not found (404)"
    assert error.hint is None


def test_a_field_that_would_be_lost_is_refused() -> None:
    error = said(
        400,
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.suspend"',
    )
    assert error.exit_code == 3
    assert "has no spec.suspend" in error.message
    assert "vcjob install" in (error.hint or "")


def test_a_missing_right_is_named_with_the_servers_message() -> None:
    error = said(403, 'jobs.batch.volcano.sh is forbidden: User "alice" cannot create')
    assert error.exit_code == 3
    assert (
        "you may not create Jobs in the namespace 'team': jobs.batch.volcano.sh is forbidden" in error.message
    )


def test_what_a_webhook_denies_is_an_error_of_the_job_and_not_of_the_backend() -> None:
    error = said(403, 'admission webhook "w" denied the request: no such queue')
    assert error.exit_code == 2
    assert "no such queue" in error.message


def test_an_expired_token_is_to_be_renewed() -> None:
    error = said(401, "Unauthorized")
    assert error.exit_code == 3
    assert "(context 'prod') does not accept your credentials" in error.message
    assert "log in again" in (error.hint or "")


def test_a_namespace_that_does_not_exist() -> None:
    error = said(404, 'namespaces "team" not found', kind="namespaces", name="team")
    assert error.exit_code == 2
    assert error.message == "the cluster has no namespace 'team'"


def test_jobs_of_this_machine_load_nothing_of_a_cluster() -> None:
    program = (
        "import sys; import vcjob.cli.run, vcjob.cli.logs, vcjob.sdk.finding, vcjob.sdk.running; "
        "print([m for m in sys.modules if m == 'aiohttp' or m.startswith(('vcjob.cluster', 'vcjob.kube'))])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
