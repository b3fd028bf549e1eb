"""What a controller can be told."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.kube.controller.lease import LeaseSettings

GangChoice: TypeAlias = Literal["auto", "none", "volcano", "coscheduling"]


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    #: The namespaces whose Jobs are served; None: all.
    namespaces: tuple[str, ...] | None = None
    #: Jobs that are worked on at once. Requests in flight are bounded by the client's own window.
    workers: int = 16
    gang: GangChoice = "auto"
    #: Who serves pods that ask for Volcano's scheduler where it is not there; None: the cluster's default.
    scheduler: str | None = None
    #: Where Volcano's own parts live, to see whether they are alive.
    volcano_namespace: str = "volcano-system"
    #: Run although Volcano's controller manager is alive: its job controller was switched off where we cannot see it.
    beside_volcano: bool = False

    identity: str | None = None
    lease_name: str = "vcjob-controller"
    lease_namespace: str = "vcjob-system"
    lease: LeaseSettings = LeaseSettings()

    #: Seconds for which counters alone may wait before the status is written.
    status_delay: float = 1.0
    #: Pods that are created in one go before the Job is looked at again.
    creation_chunk: int = 500

    webhook: bool = True
    webhook_port: int = 8443
    health_port: int = 8080
    metrics_port: int = 8081
    #: Addresses to listen on; an empty one is every address.
    host: str = ""
    #: The Service in front of the webhook, and where its CA and certificate are kept.
    service_name: str = "vcjob-webhook"
    certificate_secret: str = "vcjob-webhook-tls"  # noqa: S105 - the name of a Secret

    log_level: str = "info"
    log_json: bool = True
    profile: str | None = None
