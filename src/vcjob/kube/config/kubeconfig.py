"""Kubeconfig files: reads and merges them, and turns users into credential sources.

`config.load` uses it. Files and entries that cannot be used raise ConfigError.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from vcjob.kube.config.auth import (
    CertificateFiles,
    Combined,
    Credential,
    Fixed,
    Source,
    TokenFile,
    basic,
    bearer,
)
from vcjob.kube.config.exec_plugin import ExecPlugin, ExecSpec
from vcjob.kube.errors import ConfigError


class _Entry(msgspec.Struct, rename="kebab", kw_only=True):
    folder: str = ""  # of its file: relative paths start there

    def _pem(self, data: str, file: str, what: str) -> bytes | None:
        """Inline data takes precedence over a file, as in kubectl."""
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{what}-data in the kubeconfig is not base64: {error}") from error
        if not file:
            return None
        try:
            return self._path(file).read_bytes()
        except OSError as error:
            raise ConfigError(f"{what} of the kubeconfig cannot be read: {error}") from error

    def _path(self, file: str) -> Path:
        return Path(self.folder) / file


class ClusterEntry(_Entry):
    """A cluster: its server and how to verify it.

    The fields are those of the file; `config.load` turns them into a ClusterConfig.
    """

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None

    def certificate_authority_pem(self) -> bytes | None:
        return self._pem(self.certificate_authority_data, self.certificate_authority, "certificate-authority")


class ContextEntry(_Entry):
    """A context: a cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class UserEntry(_Entry):
    """A user: how requests are authenticated.

    The fields are those of the file; `source` turns them into a credential source, or raises ConfigError for methods
    that are not supported.
    """

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: ExecSpec | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: list[str] | None = msgspec.field(name="as-groups", default=None)
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(name="as-user-extra", default=None)

    def source(self, cluster_info: dict[str, Any], *, name: str) -> Source:
        """The source of this user's credentials."""
        if self.auth_provider is not None:
            raise ConfigError(
                f"user {name!r} uses an auth-provider, which Kubernetes no longer supports",
                hint="use the exec plugin of your provider instead",
            )
        sources = [
            *self._certificate(name),
            *self._bearer(name),
            *self._exec(cluster_info),
            *self._impersonation(name),
        ]
        return sources[0] if len(sources) == 1 else Combined(sources) if sources else Fixed()

    def _certificate(self, name: str) -> list[Source]:
        inline = self.client_certificate_data or self.client_key_data
        if not inline and self.client_certificate and self.client_key:
            return [CertificateFiles(self._path(self.client_certificate), self._path(self.client_key))]
        certificate = self._pem(self.client_certificate_data, self.client_certificate, "client-certificate")
        key = self._pem(self.client_key_data, self.client_key, "client-key")
        if (certificate is None) != (key is None):
            raise ConfigError(f"user {name!r} has a client certificate without a key, or the reverse")
        return [Fixed(Credential((), certificate, key))] if certificate is not None else []

    def _bearer(self, name: str) -> list[Source]:
        if self.token_file:
            return [TokenFile(self._path(self.token_file))]
        if self.token and (self.username or self.password):
            raise ConfigError(f"user {name!r} has both a token and a password")
        if self.token:
            return [Fixed(bearer(self.token))]
        return [Fixed(basic(self.username, self.password))] if self.username else []

    def _exec(self, cluster_info: dict[str, Any]) -> list[Source]:
        if (
            self.exec is None or self.token or self.token_file
        ):  # an explicit token takes precedence, as in kubectl
            return []
        command = self.exec.command
        if "/" in command and not command.startswith("/"):
            command = str(self._path(command))
        return [ExecPlugin(msgspec.structs.replace(self.exec, command=command), cluster=cluster_info)]

    def _impersonation(self, name: str) -> list[Source]:
        if not self.impersonate:
            if self.impersonate_uid or self.impersonate_groups or self.impersonate_extra:
                raise ConfigError(f"user {name!r} impersonates groups or a uid without a user name (`as`)")
            return []
        headers = [("Impersonate-User", self.impersonate)]
        if self.impersonate_uid:
            headers.append(("Impersonate-Uid", self.impersonate_uid))
        headers += [("Impersonate-Group", group) for group in self.impersonate_groups or []]
        for key, values in (self.impersonate_extra or {}).items():
            headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
        return [Fixed(Credential(tuple(headers)))]


class Kubeconfig(msgspec.Struct):
    """Several files merged into one: for every name the first definition counts."""

    origin: str
    current_context: str
    clusters: dict[str, ClusterEntry]
    contexts: dict[str, ContextEntry]
    users: dict[str, UserEntry]


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: ContextEntry | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry | None = None


class _File(msgspec.Struct, rename="kebab"):
    kind: str | None = None
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    contexts: list[_NamedContext] | None = None
    users: list[_NamedUser] | None = None


# msgspec resolves the fields of a type when it first needs them, and crashes if two threads do that at the same time.
msgspec.json.Decoder(_File)


def read_files(files: list[Path], *, must_exist: bool) -> Kubeconfig:
    """Read and merge kubeconfig files. Missing ones are skipped unless `must_exist`."""
    present = [file for file in files if must_exist or file.exists()]
    merged = Kubeconfig(", ".join(str(file) for file in present), "", {}, {}, {})
    for file in present:
        found = _read_file(file)
        folder = str(file.resolve().parent)
        merged.current_context = merged.current_context or found.current_context or ""
        for cluster in found.clusters or []:
            _keep_first(merged.clusters, cluster.name, cluster.cluster, folder)
        for context in found.contexts or []:
            _keep_first(merged.contexts, context.name, context.context, folder)
        for user in found.users or []:
            _keep_first(merged.users, user.name, user.user, folder)
    return merged


def _keep_first(entries: dict[str, Any], name: str, entry: _Entry | None, folder: str) -> None:
    if entry is not None and name not in entries:
        entry.folder = folder
        entries[name] = entry


def _read_file(file: Path) -> _File:
    import yaml

    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the kubeconfig {file} cannot be read: {error.strerror or error}") from error
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe loaders both
        found = msgspec.convert(document if document is not None else {}, _File)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file} is not a kubeconfig: {reason}") from error
    if found.kind not in (None, "", "Config"):
        raise ConfigError(f"{file} is not a kubeconfig but a {found.kind}")
    return found
