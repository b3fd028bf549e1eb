"""The jobs of the list: those of all namespaces, or of the caller's own one where the rest may not be listed."""

from __future__ import annotations

from typing import Any

from vcjob.errors import Denied
from vcjob.sdk.backend import Backend
from vcjob.ui import jobs

_HINT = "name a namespace whose Jobs you may list: `vcjob ui --on cluster -n NAMESPACE`, or `ui.namespace` of the chart"


class JobList:
    """Used by one stream, in one thread. Without `namespace` all namespaces are meant."""

    def __init__(self, backend: Backend, namespace: str | None) -> None:
        self._backend = backend
        self._namespace = namespace
        #: The namespace whose jobs alone are shown although none was named; empty: none.
        self.only = ""

    def read(self) -> list[dict[str, Any]]:
        """The rows. Raises Denied where not even the jobs of the own namespace may be listed."""
        if self._namespace is None and not self.only:
            try:
                return jobs.summaries(self._backend, None)
            except Denied:
                return self._read_own()
        return jobs.summaries(self._backend, self.only or self._namespace)

    def _read_own(self) -> list[dict[str, Any]]:
        own = self._backend.own_namespace()
        try:
            found = jobs.summaries(self._backend, own)
        except Denied as error:
            raise Denied(error.message, hint=_HINT) from error
        self.only = own
        return found

    @property
    def note(self) -> str:
        """What the user should know about jobs that are not shown."""
        if not self.only:
            return ""
        return f"you may not list the Jobs of all namespaces; only those of {self.only!r} are shown (-n shows others)"
