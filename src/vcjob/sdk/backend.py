"""The two places where Jobs run, behind one protocol.

`open_backend` returns this machine (`local_backend`) or a cluster (`cluster_backend`); the functions of the SDK and
the verbs of the command line use nothing else. This module is loaded before anything else of a run, so it loads
neither backend until one is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

from vcjob.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from vcjob.sdk.handle import Handle
    from vcjob.sdk.loading import Loaded
    from vcjob.spec.job import BackendName


class Where(TypedDict):
    """The arguments that name a backend and a namespace, the same for every function of the SDK.

    Verbs of the command line pass it on as `**where`; None means the default.
    """

    on: BackendName | None
    namespace: str | None
    context: str | None
    kubeconfig: str | None


class RunOptions(NamedTuple):
    """How a Job is started. The options from `image_commands` on mean something on this machine only.

    Passed to `Backend.start`; the command line has refused those that the backend has no use for.
    """

    namespace: str | None = None
    allow_unknown: bool = False
    image_commands: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    warm: bool = False
    #: The source as the user wrote it, kept with a local run.
    text: str | None = None


class Backend(Protocol):
    """Finds, lists and starts Jobs in one place. Failures are `VcjobError`s with a hint.

    `LocalBackend` and `ClusterBackend` implement it; the functions of the SDK, the verbs and the page use nothing
    else, so they must not ask which one it is.
    """

    @property
    def name(self) -> BackendName: ...

    def find(self, name: str, namespace: str | None) -> Handle:
        """The newest run of a Job; NoSuchJob where there is none."""

    def list(self, namespace: str | None, *, all_namespaces: bool = False) -> Sequence[Handle]:
        """Every Job, oldest first."""

    def own_namespace(self) -> str:
        """The namespace that is meant where none is named."""

    def denied(self, namespace: str | None) -> dict[str, str]:
        """Verbs that the caller may not use in a namespace, each with the reason."""

    def check_configuration(self) -> None:
        """Raise the reason why every request would fail, such as a missing kubeconfig; sends no request."""

    def check_local_options(self, given: Mapping[str, object]) -> None:
        """Reject options that only work on this machine. The keys of `given` are the names that the user typed."""

    def prestart(self, *, warm: bool = False) -> AbstractContextManager[object]:
        """Start in advance what the next `start` needs; leaving the context ends it if it was not used."""

    def start(self, loaded: Loaded, options: RunOptions) -> Handle:
        """Start the one Job of a source and return at once."""


def open_backend(
    on: BackendName | None = None, context: str | None = None, kubeconfig: str | None = None
) -> Backend:
    """The backend that is meant. Naming a context or a kubeconfig means a cluster; the default is this machine."""
    if on == "local" and (context or kubeconfig):
        raise UserError(
            "a context and a kubeconfig name a cluster, not this machine",
            hint="use --on cluster, or on='cluster'",
        )
    if on == "cluster" or (on is None and (context or kubeconfig)):
        from vcjob.sdk.cluster_backend import ClusterBackend

        return ClusterBackend(context, kubeconfig)
    if on not in (None, "local"):
        raise UserError(f"unknown backend {on!r}", hint="use local or cluster")
    from vcjob.sdk.local_backend import LocalBackend

    return LocalBackend()
