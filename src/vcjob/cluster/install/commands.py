"""Synchronous entry points for the verbs `install`, `uninstall` and `doctor`: each opens a client and closes it.

The CLI uses these and no Kubernetes client of its own. They raise `BackendError` where the cluster cannot be reached.
"""

from __future__ import annotations

import asyncio
from typing import TypedDict, Unpack

from vcjob.cluster.install import apply, doctor, remove
from vcjob.cluster.install.apply import OnChange, Report
from vcjob.cluster.install.settings import Settings
from vcjob.cluster.install.waiting import Progress
from vcjob.diagnosis.check import Check
from vcjob.kube.api.client import Client
from vcjob.kube.config.config import load

_FIELD_MANAGER = "vcjob-install"


class InstallOptions(TypedDict):
    replace_crds: bool
    force: bool
    wait_seconds: float
    on_change: OnChange
    progress: Progress


class UninstallOptions(TypedDict):
    delete_jobs: bool
    keep_crds: bool
    on_change: OnChange
    progress: Progress


def install(
    kubeconfig: str | None, context: str | None, settings: Settings, **options: Unpack[InstallOptions]
) -> Report:
    async def work() -> Report:
        async with Client(load(kubeconfig, context), field_manager=_FIELD_MANAGER) as client:
            return await apply.install(client, settings, **options)

    return asyncio.run(work())


def uninstall(
    kubeconfig: str | None, context: str | None, namespace: str, **options: Unpack[UninstallOptions]
) -> Report:
    async def work() -> Report:
        async with Client(load(kubeconfig, context), field_manager=_FIELD_MANAGER) as client:
            return await remove.uninstall(client, namespace, **options)

    return asyncio.run(work())


def examine(
    kubeconfig: str | None, context: str | None, namespace: str | None, controller_namespace: str | None
) -> list[Check]:
    async def work() -> list[Check]:
        async with Client(load(kubeconfig, context)) as client:
            checks = doctor.examine(client, namespace or client.namespace, controller_namespace)
            return [check async for check in checks]

    return asyncio.run(work())
