"""Finds the configuration of a cluster: from kubeconfig files, or from the pod's service account.

Callers use `load`; it never contacts the cluster. What cannot be used raises ConfigError with a hint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from vcjob.kube.config.auth import Combined, Credential, Fixed, Source, TokenFile
from vcjob.kube.config.kubeconfig import ClusterEntry, UserEntry, read_files
from vcjob.kube.config.proxy import environment_proxy
from vcjob.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
T = TypeVar("T")


class ClusterConfig(msgspec.Struct):
    """Everything a transport needs to reach one API server as one user.

    `load` makes it from a kubeconfig or from the pod's service account. Immutable, apart from what its `source` reads
    again.
    """

    server: str
    source: Source
    ca: bytes | None = None  # PEM; None: the CAs of the system
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"
    context: str | None = None
    origin: str = ""  # for messages: the file or other place it was read from
    impersonates: str = ""  # the user as whom `source` itself acts, from `as` in a kubeconfig


def load(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """The configuration that kubectl would use: `kubeconfig`, $KUBECONFIG, ~/.kube/config, or the pod's."""
    files = kubeconfig_files(kubeconfig, environ)
    if kubeconfig is not None:
        return _from_files(files, context, environ, must_exist=True)
    if any(_exists(file) for file in files):
        return _from_files(files, context, environ, must_exist=False)
    if context is None and runs_in_pod(environ=environ, service_account=service_account):
        return in_cluster(environ=environ, service_account=service_account)
    searched = ", ".join(str(file) for file in files)
    raise ConfigError(
        f"there is no kubeconfig (searched {searched}), and this is not a pod of a cluster",
        hint="set KUBECONFIG, or name a file with --kubeconfig",
    )


def kubeconfig_files(kubeconfig: str | Path | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that `load` reads, in order of precedence, whether they exist or not."""
    if kubeconfig is not None:
        return [Path(kubeconfig)]
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]


def runs_in_pod(*, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process is in a pod that has a service account."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def in_cluster(
    *, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> ClusterConfig:
    """The configuration of a pod, from its service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, ca, namespace = (service_account / name for name in ("token", "ca.crt", "namespace"))
    if not host or not token.exists():
        raise ConfigError("this is not a pod with a service account: no token or no KUBERNETES_SERVICE_HOST")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterConfig(
        server=server,
        source=TokenFile(token),
        ca=_read(ca, "the cluster's CA") if ca.exists() else None,
        proxy=environment_proxy(server, environ),
        namespace=namespace.read_text().strip() or "default" if namespace.exists() else "default",
        origin="the pod's service account",
    )


def impersonating(config: ClusterConfig, user: str, groups: Sequence[str]) -> ClusterConfig:
    """The same cluster as another user, for whom the account of `config` may speak.

    ConfigError if that account already acts as somebody: both identities would be sent.
    """
    if config.impersonates:
        raise ConfigError(
            f"{config.origin} already acts as {config.impersonates!r} (`as`), so it cannot act as the users of a proxy",
            hint="remove `as`, `as-uid`, `as-groups` and `as-user-extra` from its user",
        )
    headers = (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))
    return msgspec.structs.replace(config, source=Combined([config.source, Fixed(Credential(headers))]))


def _from_files(
    files: list[Path], wanted: str | None, environ: Mapping[str, str], *, must_exist: bool
) -> ClusterConfig:
    merged = read_files(files, must_exist=must_exist)
    name = wanted or merged.current_context
    if not name:
        raise ConfigError(
            f"{merged.origin} has no current context",
            hint=_choices("choose one with --context", merged.contexts) or "add a context to it",
        )
    context = _find(merged.contexts, name, "context", merged.origin)
    cluster = _find(merged.clusters, context.cluster, "cluster", merged.origin)
    user = _find(merged.users, context.user, "user", merged.origin) if context.user else UserEntry()
    server = _checked_server(cluster, context.cluster, merged.origin)
    ca = cluster.certificate_authority_pem()
    if cluster.insecure_skip_tls_verify and ca is not None:
        raise ConfigError(
            f"cluster {context.cluster!r} in {merged.origin} has both a CA and insecure-skip-tls-verify",
            hint="remove one of them",
        )
    return ClusterConfig(
        server=server,
        source=user.source(_cluster_info(cluster, server, ca), name=context.user),
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name or None,
        proxy=_checked_proxy(cluster.proxy_url) or environment_proxy(server, environ),
        namespace=context.namespace or "default",
        context=name,
        origin=merged.origin,
        impersonates=user.impersonate or "",
    )


def _checked_server(cluster: ClusterEntry, name: str, origin: str) -> str:
    server = cluster.server.rstrip("/")
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"cluster {name!r} in {origin} has no usable server: {cluster.server!r}",
            hint="a server looks like https://host:6443",
        )
    return server


def _checked_proxy(proxy: str) -> str | None:
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(
            f"unsupported proxy-url {proxy!r} in the kubeconfig",
            hint="http:// and https:// proxies are supported",
        )
    return proxy or None


def _cluster_info(cluster: ClusterEntry, server: str, ca: bytes | None) -> dict[str, Any]:
    """The cluster as it is passed to an exec plugin with provideClusterInfo."""
    info: dict[str, Any] = {"server": server}
    if ca is not None:
        info["certificate-authority-data"] = ca  # bytes are written as base64
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions or []:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _find(entries: Mapping[str, T], name: str, what: str, origin: str) -> T:
    if name in entries:
        return entries[name]
    raise ConfigError(
        f"{origin} has no {what} {name!r}", hint=_choices("it has", entries) or f"it has no {what} at all"
    )


def _choices(lead: str, entries: Mapping[str, object]) -> str | None:
    return f"{lead}: {', '.join(sorted(entries)[:20])}" if entries else None


def _exists(file: Path) -> bool:
    """Whether the file exists; a home folder that we may not read counts as empty."""
    try:
        return file.exists()
    except PermissionError:
        return False


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error}") from error
