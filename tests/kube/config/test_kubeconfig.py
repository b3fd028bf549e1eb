"""Kubeconfig files: search order, merging, and validation."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcjob.kube.config.auth import TOKEN_FILE_SECONDS, TokenFile
from vcjob.kube.config.config import impersonating, in_cluster, load
from vcjob.kube.errors import ConfigError

BASE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "dev",
    "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"}}],
    "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def write(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**BASE, **changes}))
    return path


def with_user(path: Path, **user: Any) -> Path:
    return write(path, users=[{"name": "u", "user": user}])


def with_cluster(path: Path, **cluster: Any) -> Path:
    return write(path, clusters=[{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **cluster}}])


async def headers(path: Path) -> dict[str, str]:
    return dict((await load(path, environ={}).source.get()).headers)


async def test_the_current_context_gives_server_user_and_namespace(tmp_path: Path) -> None:
    config = load(write(tmp_path / "k"), environ={})
    assert (config.server, config.namespace, config.context) == ("https://10.0.0.1:6443", "team", "dev")
    assert await headers(tmp_path / "k") == {"Authorization": "Bearer secret"}


def test_several_files_are_merged_and_the_first_definition_of_a_name_wins(tmp_path: Path) -> None:
    write(
        tmp_path / "a",
        contexts=[{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        **{"current-context": ""},
    )
    write(
        tmp_path / "b",
        clusters=[
            {"name": "c", "cluster": {"server": "https://ignored"}},
            {"name": "c2", "cluster": {"server": "https://two"}},
        ],
        contexts=[{"name": "prod", "context": {"cluster": "c2", "user": "u"}}],
        **{"current-context": "prod"},
    )
    files = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "missing"), str(tmp_path / "b")])
    assert load(environ={"KUBECONFIG": files}).server == "https://two"
    assert load(environ={"KUBECONFIG": files}, context="dev").server == "https://10.0.0.1:6443"


def test_the_file_in_the_home_folder_is_used_last(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config")
    assert load(environ={"HOME": str(tmp_path)}).context == "dev"


def test_a_missing_kubeconfig_is_reported_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no kubeconfig") as caught:
        load(environ={"HOME": str(tmp_path)}, service_account=tmp_path)
    assert "KUBECONFIG" in (caught.value.hint or "")
    assert caught.value.exit_code == 3


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "missing")


def test_an_unknown_context_lists_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no context 'prod'") as caught:
        load(write(tmp_path / "k"), context="prod", environ={})
    assert caught.value.hint == "it has: dev"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "no current context"),
        ({"contexts": [{"name": "dev", "context": {"cluster": "nope", "user": "u"}}]}, "no cluster 'nope'"),
        ({"contexts": [{"name": "dev", "context": {"cluster": "c", "user": "nope"}}]}, "no user 'nope'"),
        ({"clusters": [{"name": "c", "cluster": {"server": "not a url"}}]}, "no usable server"),
        ({"kind": "Pod"}, "but a Pod"),
        ({"clusters": "text"}, "not a kubeconfig"),
        ({"users": [{"name": "u", "user": {"token": 5}}]}, "not a kubeconfig"),
    ],
)
def test_an_inconsistent_kubeconfig_is_rejected(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(write(tmp_path / "k", **changes), environ={})


@pytest.mark.parametrize("text", ["a: [", "- 1", "\x00", "&a [*a]", "just text"])
def test_a_file_that_is_not_a_kubeconfig_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(ConfigError):
        load(tmp_path / "k", environ={})


def test_an_empty_file_has_no_context(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("")
    with pytest.raises(ConfigError, match="no current context"):
        load(tmp_path / "k", environ={})


async def test_relative_paths_start_in_the_folder_of_their_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "token").write_text("from-file\n")
    (tmp_path / "one" / "ca.pem").write_bytes(b"CA")
    path = write(
        tmp_path / "one" / "k",
        clusters=[{"name": "c", "cluster": {"server": "https://h", "certificate-authority": "ca.pem"}}],
        users=[{"name": "u", "user": {"tokenFile": "token"}}],
    )
    config = load(path, environ={})
    assert config.ca == b"CA"
    assert await headers(path) == {"Authorization": "Bearer from-file"}


async def test_a_token_file_is_read_again_and_may_be_missing_for_a_short_time(tmp_path: Path) -> None:
    now = 0.0
    token = tmp_path / "token"
    token.write_text("one")
    source = TokenFile(token, clock=lambda: now)
    assert dict((await source.get()).headers) == {"Authorization": "Bearer one"}
    token.write_text("two")
    assert dict((await source.get()).headers) == {"Authorization": "Bearer one"}
    now += TOKEN_FILE_SECONDS
    assert dict((await source.get()).headers) == {"Authorization": "Bearer two"}
    token.unlink()
    now += TOKEN_FILE_SECONDS
    assert dict((await source.get()).headers) == {"Authorization": "Bearer two"}


async def test_a_refused_token_is_retried_only_if_the_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    source = TokenFile(tmp_path / "token")
    await source.get()
    assert source.invalidate() is False
    (tmp_path / "token").write_text("two")
    assert source.invalidate() is True
    assert dict((await source.get()).headers) == {"Authorization": "Bearer two"}


async def test_a_missing_or_empty_token_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        await TokenFile(tmp_path / "none").get()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        await TokenFile(tmp_path / "empty").get()


async def test_a_password_and_impersonation_become_headers(tmp_path: Path) -> None:
    path = with_user(
        tmp_path / "k",
        **{
            "username": "me",
            "password": "pw",
            "as": "boss",
            "as-uid": "7",
            "as-groups": ["g1", "g2"],
            "as-user-extra": {"Scopes/x": ["a"]},
        },
    )
    assert (await load(path, environ={}).source.get()).headers == (
        ("Authorization", "Basic " + base64.b64encode(b"me:pw").decode()),
        ("Impersonate-User", "boss"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-scopes%2Fx", "a"),
    )


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({"client-certificate-data": base64.b64encode(b"x").decode()}, "without a key"),
        ({"client-certificate-data": "***", "client-key-data": "***"}, "not base64"),
        ({"client-certificate": "/nowhere/cert", "client-key-data": "eA=="}, "cannot be read"),
        ({"token": "a", "username": "b"}, "both a token and a password"),
        ({"as-groups": ["g"]}, "without a user name"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}, "not supported"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}}, "interactiveMode"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1"}}, "without a command"),
        (
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "x",
                    "interactiveMode": "Maybe",
                }
            },
            "must be Never, IfAvailable or Always",
        ),
    ],
)
def test_contradictory_credentials_are_rejected(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(with_user(tmp_path / "k", **user), environ={})


def test_tls_settings_are_applied_or_rejected(tmp_path: Path) -> None:
    config = load(
        with_cluster(tmp_path / "k", **{"insecure-skip-tls-verify": True, "tls-server-name": "api.internal"}),
        environ={},
    )
    assert (config.insecure, config.server_name) == (True, "api.internal")
    both = with_cluster(
        tmp_path / "k", **{"insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}
    )
    with pytest.raises(ConfigError, match="both a CA and insecure"):
        load(both, environ={})


def test_an_http_proxy_is_used_and_another_kind_is_rejected(tmp_path: Path) -> None:
    assert (
        load(with_cluster(tmp_path / "k", **{"proxy-url": "http://proxy:3128"}), environ={}).proxy
        == "http://proxy:3128"
    )
    with pytest.raises(ConfigError, match="proxy-url"):
        load(with_cluster(tmp_path / "k", **{"proxy-url": "socks5://proxy:1080"}), environ={})


@pytest.mark.parametrize(
    ("server", "no_proxy", "expected"),
    [
        ("https://api.example.com:6443", "", "http://proxy:3128"),
        ("https://api.example.com:6443", "example.com", None),
        ("https://api.example.com:6443", ".example.com", None),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://badexample.com", "example.com", "http://proxy:3128"),
        ("https://api.example.com:6443", "api.example.com:443", "http://proxy:3128"),
        ("https://api.example.com:6443", "api.example.com:6443", None),
        ("https://10.96.0.1", "10.0.0.0/8", None),
        ("https://11.96.0.1", "10.0.0.0/8, nonsense/8", "http://proxy:3128"),
        ("https://10.96.0.1", "10.96.0.1", None),
        ("https://api.example.com", "*", None),
        ("https://127.0.0.1:6443", "", None),
        ("https://[::1]:6443", "", None),
        ("https://localhost:6443", "", None),
        ("http://api.example.com", "", None),
    ],
)
def test_the_proxy_of_the_environment_is_used_except_for_no_proxy(
    tmp_path: Path, server: str, no_proxy: str, expected: str | None
) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": no_proxy}
    assert load(with_cluster(tmp_path / "k", server=server), environ=environ).proxy == expected


async def test_a_pod_uses_its_own_service_account(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "mine")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": str(tmp_path)}
    config = load(environ=environ, service_account=tmp_path)
    assert (config.server, config.ca, config.namespace) == ("https://[fd00::1]:6443", b"CA", "mine")
    assert dict((await config.source.get()).headers) == {"Authorization": "Bearer t"}
    with pytest.raises(ConfigError, match="not a pod"):
        in_cluster(environ={}, service_account=tmp_path)


async def test_a_kubeconfig_that_acts_as_somebody_cannot_act_as_somebody_else(tmp_path: Path) -> None:
    """Both would be sent, and the groups of the one would be those of the other too."""
    own = load(with_user(tmp_path / "own", token="t"), environ={})
    assert (await impersonating(own, "ann", ["ml"]).source.get()).headers[1:] == (
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "ml"),
    )
    boss = load(with_user(tmp_path / "boss", token="t", **{"as": "boss", "as-groups": ["g"]}), environ={})
    with pytest.raises(ConfigError, match="already acts as 'boss'") as refused:
        impersonating(boss, "ann", [])
    assert refused.value.hint and "remove `as`" in refused.value.hint
