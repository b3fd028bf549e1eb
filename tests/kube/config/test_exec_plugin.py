"""Credentials from an exec plugin."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vcjob.kube.config.exec_plugin import ExecPlugin, ExecSpec
from vcjob.kube.errors import ConfigError

V1 = "client.authentication.k8s.io/v1"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Program:
    """A credential program that notes each of its runs."""

    def __init__(self, folder: Path, body: str = "", version: str = V1) -> None:
        self.runs = folder / "runs"
        self.script = folder / "plugin.py"
        self.script.write_text(
            "import json, os, sys\n"
            f"open({str(self.runs)!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            f"n = len(open({str(self.runs)!r}).readlines())\n"
            f"status = {{'token': f'token{{n}}-' + os.environ.get('EXTRA', '')}}\n"
            f"{body}\n"
            f"print(json.dumps({{'apiVersion': {version!r}, 'kind': 'ExecCredential', 'status': status}}))\n"
        )

    def spec(self, **changes: Any) -> ExecSpec:
        fields: dict[str, Any] = {
            "api_version": V1,
            "command": sys.executable,
            "args": [str(self.script)],
            "interactive_mode": "Never",
        }
        return ExecSpec(**{**fields, **changes})

    def infos(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.runs.read_text().splitlines()]


async def token(plugin: ExecPlugin) -> str:
    return dict((await plugin.get()).headers)["Authorization"]


async def test_a_program_is_run_once_for_many_requests(tmp_path: Path) -> None:
    program = Program(tmp_path)
    plugin = ExecPlugin(program.spec(env=[{"name": "EXTRA", "value": "x"}]))
    assert set(await asyncio.gather(*(token(plugin) for _ in range(20)))) == {"Bearer token1-x"}
    assert program.infos() == [{"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}]


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_both_api_versions_are_supported(tmp_path: Path, version: str) -> None:
    program = Program(tmp_path, version=version)
    plugin = ExecPlugin(program.spec(api_version=version))
    assert await token(plugin) == "Bearer token1-"
    assert program.infos()[0]["apiVersion"] == version


async def test_a_credential_is_replaced_before_it_expires(tmp_path: Path) -> None:
    now = START
    program = Program(
        tmp_path,
        "status['expirationTimestamp'] = '2026-01-01T01:00:00Z' if n == 1 else '2026-01-01T02:00:00Z'",
    )
    plugin = ExecPlugin(program.spec(), now=lambda: now)
    assert await token(plugin) == "Bearer token1-"
    now = START + timedelta(minutes=59)
    assert await token(plugin) == "Bearer token1-"
    now = START + timedelta(minutes=59, seconds=31)
    assert await token(plugin) == "Bearer token2-"


async def test_a_short_lived_credential_is_not_fetched_for_every_request(tmp_path: Path) -> None:
    program = Program(tmp_path, "status['expirationTimestamp'] = '2026-01-01T00:00:10Z'")
    plugin = ExecPlugin(program.spec(), now=lambda: START)
    assert [await token(plugin) for _ in range(3)] == ["Bearer token1-"] * 3


async def test_a_refused_credential_is_fetched_again_but_not_in_a_loop(tmp_path: Path) -> None:
    program = Program(tmp_path)
    plugin = ExecPlugin(program.spec())
    await plugin.get()
    assert plugin.invalidate() is False  # fresh from the program: it would say the same
    plugin._ran_at -= 5
    assert plugin.invalidate() is True
    assert await token(plugin) == "Bearer token2-"


async def test_a_certificate_is_accepted(tmp_path: Path) -> None:
    program = Program(tmp_path, "status = {'clientCertificateData': 'CERT', 'clientKeyData': 'KEY'}")
    credential = await ExecPlugin(program.spec()).get()
    assert (credential.headers, credential.certificate, credential.key) == ((), b"CERT", b"KEY")


async def test_a_program_with_provide_cluster_info_receives_the_cluster(tmp_path: Path) -> None:
    program = Program(tmp_path)
    cluster = {"server": "https://h", "certificate-authority-data": b"CA"}
    await ExecPlugin(program.spec(provide_cluster_info=True), cluster=cluster).get()
    assert program.infos()[0]["spec"]["cluster"] == {
        "server": "https://h",
        "certificate-authority-data": "Q0E=",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('please log in first')", "exit code 1: please log in first"),
        ("print('hello'); sys.exit()", "printed an invalid ExecCredential"),
        ("status = {}", "neither a token nor a certificate"),
        ("status = {'clientCertificateData': 'CERT'}", "without its key"),
        (
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1', 'kind': 'ExecCredential', 'status': status})); sys.exit()",
            "returned client.authentication.k8s.io/v1beta1 instead of",
        ),
    ],
)
async def test_a_failing_program_is_reported_in_one_sentence(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await ExecPlugin(Program(tmp_path, body).spec()).get()


async def test_a_missing_program_is_reported_with_its_install_hint(tmp_path: Path) -> None:
    spec = Program(tmp_path).spec(command=str(tmp_path / "nothing"), install_hint="apt install nothing")
    with pytest.raises(ConfigError, match="cannot be started") as caught:
        await ExecPlugin(spec).get()
    assert caught.value.hint == "apt install nothing"


async def test_an_interactive_program_is_rejected_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/null") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(ConfigError, match="needs a terminal"):
            await ExecPlugin(Program(tmp_path).spec(interactive_mode="Always")).get()


async def test_a_cancelled_request_leaves_no_program_behind(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        "print(os.getpid(), file=open(sys.argv[0] + '.pid', 'w'), flush=True)\nimport time; time.sleep(60)",
    )
    asking = asyncio.create_task(ExecPlugin(program.spec()).get())
    pid_file = Path(str(program.script) + ".pid")
    while not pid_file.exists() or not pid_file.read_text().strip():
        await asyncio.sleep(0.02)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
