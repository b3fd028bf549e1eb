"""All objects of an installation, in the order of application.

`vcjob install` applies them, or prints them with `-o yaml`. They depend on the settings alone: nothing here asks the
cluster.
"""

from __future__ import annotations

from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.roles import roles, service_account
from vcjob.cluster.install.objects.webhook_configuration import webhook_objects
from vcjob.cluster.install.objects.workload import POD_LABELS, namespace, workload
from vcjob.cluster.install.settings import Settings
from vcjob.kube.api.resources import Document


def manifests(settings: Settings) -> list[Document]:
    """The definitions first, the Deployment last."""
    return [*crds.definitions(), namespace(settings), *controller_objects(settings)]


def controller_objects(settings: Settings) -> list[Document]:
    """All but the definitions and the namespace."""
    hooks = webhook_objects(settings, POD_LABELS) if settings.webhook else []
    return [service_account(settings), *roles(settings), *hooks, *workload(settings)]
